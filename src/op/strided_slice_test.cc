// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "op/strided_slice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ints = std::vector<int64_t>;

// A spec with its operands.
struct Slice {
  Ints begin = {}, end = {}, strides = {};
  int64_t begin_mask = 0, end_mask = 0, ellipsis_mask = 0, new_axis_mask = 0, shrink_axis_mask = 0;

  StatusOr<StridedSlicePlan> Plan(const PartialShape& shape, bool begin_known = true,
                                  bool end_known = true) const {
    return PlanStridedSlice({.begin = begin_known ? &begin : nullptr,
                             .end = end_known ? &end : nullptr,
                             .strides = strides,
                             .begin_mask = begin_mask,
                             .end_mask = end_mask,
                             .ellipsis_mask = ellipsis_mask,
                             .new_axis_mask = new_axis_mask,
                             .shrink_axis_mask = shrink_axis_mask},
                            shape);
  }
  std::string Final(const PartialShape& shape) const {
    const auto plan = Plan(shape);
    return plan.ok() ? plan->final_shape.ToString() : plan.status().message();
  }
};

TEST(StridedSlice, RangesWithStrides) {
  const auto plan = (Slice{.begin = {1, -1}, .end = {4, -6}, .strides = {2, -2}}).Plan({5, 5});
  ASSERT_TRUE(plan.ok());
  EXPECT_THAT(plan->begin, ElementsAre(1, 4));
  EXPECT_THAT(plan->end, ElementsAre(4, -1));
  EXPECT_THAT(plan->strides, ElementsAre(2, -2));
  EXPECT_EQ(plan->final_shape, PartialShape({2, 3}));
  EXPECT_FALSE(plan->is_identity);
  EXPECT_FALSE(plan->slices_dim0);
}

TEST(StridedSlice, EllipsisNewAxisAndSingleIndices) {
  // x[1, ..., newaxis, 2] of [3,4,5,6]
  const Slice slice{.begin = {1, 0, 0, 2},
                    .end = {2, 0, 0, 3},
                    .strides = {1, 1, 1, 1},
                    .ellipsis_mask = 2,
                    .new_axis_mask = 4,
                    .shrink_axis_mask = 9};
  const auto plan = slice.Plan({3, 4, 5, 6});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->processing_shape, PartialShape({1, 4, 5, 1}));
  EXPECT_EQ(plan->final_shape, PartialShape({4, 5, 1}));
  EXPECT_THAT(plan->begin, ElementsAre(1, 0, 0, 2));
  EXPECT_THAT(plan->end, ElementsAre(2, 4, 5, 3));
}

TEST(StridedSlice, DimensionsNotMentionedAreKept) {
  EXPECT_EQ((Slice{.begin = {1}, .end = {2}, .strides = {1}}).Final({3, 4}), "[1,4]");
  EXPECT_EQ((Slice{}).Final({3, 4}), "[3,4]");
  EXPECT_EQ((Slice{.begin = {0}, .end = {0}, .strides = {1}, .ellipsis_mask = 1}).Final(PartialShape({7})),
            "[7]");
}

TEST(StridedSlice, KindsThatKernelsMakeUseOf) {
  const auto identity =
      (Slice{.begin = {0, 0}, .end = {0, 4}, .strides = {1, 1}, .begin_mask = 1, .end_mask = 1}).Plan({3, 4});
  EXPECT_TRUE(identity->is_identity);
  EXPECT_TRUE(identity->slices_dim0);
  const auto rows = (Slice{.begin = {1}, .end = {2}, .strides = {1}}).Plan({3, 4});
  EXPECT_FALSE(rows->is_identity);
  EXPECT_TRUE(rows->slices_dim0);
  EXPECT_TRUE(
      (Slice{.begin = {1}, .end = {2}, .strides = {1}, .shrink_axis_mask = 1}).Plan({3, 4})->slices_dim0);
  EXPECT_FALSE((Slice{.begin = {0}, .end = {3}, .strides = {2}}).Plan({3, 4})->slices_dim0);
  EXPECT_FALSE((Slice{.begin = {0, 1}, .end = {3, 4}, .strides = {1, 1}}).Plan({3, 4})->slices_dim0);
}

TEST(StridedSlice, UnknownSizesAndOperands) {
  EXPECT_EQ((Slice{.begin = {1}, .end = {2}, .strides = {1}}).Final({-1, 4}), "[?,4]");
  EXPECT_EQ((Slice{.begin = {1}, .end = {2}, .strides = {1}, .shrink_axis_mask = 1}).Final({-1, 4}), "[4]");
  const Slice slice{.begin = {9, 1}, .end = {9, 2}, .strides = {1, 1}, .shrink_axis_mask = 1};
  EXPECT_EQ(slice.Plan({3, 4}, false, false)->final_shape, PartialShape({-1}));
  const Slice masked{.begin = {0}, .end = {0}, .strides = {-2}, .begin_mask = 1, .end_mask = 1};
  EXPECT_EQ(masked.Plan({5, 4}, false, false)->final_shape, PartialShape({3, 4}));
}

TEST(StridedSlice, RefusesWhatMakesNoSense) {
  const PartialShape shape({3, 4});
  EXPECT_EQ((Slice{.begin = {3}, .end = {4}, .strides = {1}, .shrink_axis_mask = 1}).Final(shape),
            "slice index 3 of dimension 0 out of bounds.");
  EXPECT_EQ((Slice{.begin = {-4}, .end = {4}, .strides = {1}, .shrink_axis_mask = 1}).Final(shape),
            "slice index -1 of dimension 0 out of bounds.");
  EXPECT_EQ((Slice{.begin = {0}, .end = {4}, .strides = {0}}).Final(shape), "strides[0] must be non-zero");
  EXPECT_EQ((Slice{.begin = {0}, .end = {4}, .strides = {-1}, .shrink_axis_mask = 1}).Final(shape),
            "only stride 1 allowed on non-range indexing.");
  EXPECT_EQ((Slice{.begin = {0, 0, 0}, .end = {1, 1, 1}, .strides = {1, 1, 1}}).Final(shape),
            "Index out of range using input dim 2; input has only 2 dims");
  EXPECT_EQ((Slice{.begin = {0, 0}, .end = {1, 1}, .strides = {1, 1}, .ellipsis_mask = 3}).Final(shape),
            "Multiple ellipses in slice spec not allowed");
  EXPECT_THAT((Slice{.begin = {0}, .end = {1, 1}, .strides = {1, 1}}).Final(shape),
              HasSubstr("equal size tensors"));
  const Ints many(40, 1);
  EXPECT_THAT((Slice{.begin = many, .end = many, .strides = many}).Final(shape),
              HasSubstr("the limit is 31"));
}

TEST(StridedSlice, ExtremeOperandsAreClamped) {
  EXPECT_EQ((Slice{.begin = {INT64_MIN}, .end = {INT64_MAX}, .strides = {1}}).Final(PartialShape({3})),
            "[3]");
  EXPECT_EQ(
      (Slice{.begin = {INT64_MAX}, .end = {INT64_MIN}, .strides = {INT64_MIN}}).Final(PartialShape({3})),
      "[1]");
  EXPECT_EQ((Slice{.begin = {0}, .end = {INT64_MAX}, .strides = {INT64_MAX}}).Final(PartialShape({3})),
            "[1]");
  EXPECT_EQ((Slice{.begin = {INT64_MIN}, .end = {0}, .strides = {1}, .shrink_axis_mask = 1})
                .Final(PartialShape({3})),
            StrCat("slice index ", INT64_MIN + 3, " of dimension 0 out of bounds."));
}

// Elements that Python's x[begin:end:stride] picks, by its definition in terms of single steps.
int64_t PickedByHand(int64_t size, int64_t begin, int64_t end, int64_t stride) {
  const auto fix = [size, stride](int64_t i) {
    if (i < 0) i += size;
    if (stride > 0) return std::min(std::max<int64_t>(i, 0), size);
    return std::min(std::max<int64_t>(i, -1), size - 1);
  };
  int64_t count = 0;
  for (int64_t i = fix(begin); stride > 0 ? i < fix(end) : i > fix(end); i += stride) ++count;
  return count;
}

TEST(StridedSlice, CountsAsSteppingByHandDoes) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 5000; ++trial) {
    const int64_t size = random() % 6;
    const int64_t begin = static_cast<int64_t>(random() % 20) - 10;
    const int64_t end = static_cast<int64_t>(random() % 20) - 10;
    const int64_t stride = random() % 2 == 0 ? 1 + random() % 4 : -1 - static_cast<int64_t>(random() % 4);
    const auto plan = (Slice{.begin = {begin}, .end = {end}, .strides = {stride}}).Plan(PartialShape({size}));
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(plan->final_shape.dim(0), PickedByHand(size, begin, end, stride))
        << size << " " << begin << ":" << end << ":" << stride;
  }
}

}  // namespace
}  // namespace millrace
