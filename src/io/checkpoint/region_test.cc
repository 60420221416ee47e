// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint/region.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tensor/testing.h"

namespace millrace::io {
namespace {

using ::testing::HasSubstr;

TensorSlice Slice(std::string_view text) { return *TensorSlice::Parse(text); }

TEST(RegionTest, KeysAreTheOrderedCodeOfNameAndSlice) {
  // 0; the text and its end; the rank; for each dimension start and length, where -1 is all.
  EXPECT_EQ(SliceKey("w", Slice("0,2:-")), std::string("\0w\0\1\1\2\x80\x82\x80\x7f", 10));
  EXPECT_EQ(SliceKey(std::string("a\0\xff", 3), Slice("")), std::string("\0a\0\xff\xff\0\0\1\0", 9));
  // 64 takes two bytes, 8192 three, 2^62 nine, 2^63 - 1 ten.
  EXPECT_EQ(SliceKey("", Slice("64,8192")), std::string("\0\0\1\1\1\xc0\x40\xe0\x20\x00", 10));
  EXPECT_EQ(SliceKey("", Slice("63,8191")), std::string("\0\0\1\1\1\xbf\xdf\xff", 8));
  EXPECT_EQ(SliceKey("", Slice("0,4611686018427387904")),
            std::string("\0\0\1\1\1\x80\xff\xc0\x40\0\0\0\0\0\0\0", 16));
  EXPECT_EQ(SliceKey("", Slice("0,4611686018427387903")),
            std::string("\0\0\1\1\1\x80\xff\xbf\xff\xff\xff\xff\xff\xff\xff", 15));
  EXPECT_TRUE(IsSliceKey(SliceKey("w", Slice("-"))));
  EXPECT_FALSE(IsSliceKey("w"));
  // The order of keys is that of starts.
  std::string last;
  for (const char* start : {"0", "1", "63", "64", "8191", "8192", "1048576", "4611686018427387904"}) {
    const std::string key = SliceKey("w", Slice(std::string(start) + ",1"));
    EXPECT_LT(last, key);
    last = key;
  }
}

TEST(RegionTest, CommonPartsAreCopied) {
  const TensorShape full({4, 3, 5});
  std::vector<int32_t> values(60);
  std::iota(values.begin(), values.end(), 0);
  std::mt19937 rng(11);
  const auto random = [&] {
    std::string text;
    for (const int64_t size : full.dims()) {
      const int64_t start = static_cast<int64_t>(rng() % size),
                    length = 1 + static_cast<int64_t>(rng() % (size - start));
      text += (text.empty() ? "" : ":") + (rng() % 3 == 0 ? "-" : StrCat(start, ",", length));
    }
    return Slice(text);
  };
  const auto cut = [&](const TensorSlice& slice) {
    const Region region(slice, full);
    std::vector<int32_t> part;
    for (int64_t i = 0; i < 60; ++i) {
      const int64_t at[] = {i / 15, i / 5 % 3, i % 5};
      bool inside = true;
      for (int d = 0; d < 3; ++d) inside = inside && at[d] >= region.start(d) && at[d] < region.end(d);
      if (inside) part.push_back(static_cast<int32_t>(i));
    }
    return AsTensor(part, *slice.ShapeIn(full));
  };
  for (int i = 0; i < 500; ++i) {
    const TensorSlice from = random(), to = random();
    const Region from_region(from, full), to_region(to, full);
    Tensor target(DataType::kInt32, *to.ShapeIn(full));
    std::fill_n(target.data<int32_t>(), target.num_elements(), -1);
    CopyCommon(from_region, cut(from), to_region, &target);
    const Tensor want = cut(to), source = cut(from);
    int64_t common = 0;
    for (int64_t j = 0; j < target.num_elements(); ++j) {
      const int32_t value = want.data<int32_t>()[j];
      const auto flat = source.flat<int32_t>();
      const bool there = std::find(flat.begin(), flat.end(), value) != flat.end();
      common += there;
      ASSERT_EQ(target.data<int32_t>()[j], there ? value : -1) << from.ToString() << " " << to.ToString();
    }
    EXPECT_EQ(from_region.CommonElements(to_region), common);
    const auto offset = OffsetIfContiguous(from_region, to_region);
    if (offset.has_value()) {
      for (int64_t j = 0; j < source.num_elements(); ++j) {
        ASSERT_EQ(want.data<int32_t>()[*offset + j], source.data<int32_t>()[j]);
      }
    }
  }
  EXPECT_EQ(OffsetIfContiguous(Region(Slice("1,2:-:-"), full), Region(Slice("-:-:-"), full)), 15);
  EXPECT_EQ(OffsetIfContiguous(Region(Slice("1,1:1,2:-"), full), Region(Slice("-:-:-"), full)), 20);
  EXPECT_EQ(OffsetIfContiguous(Region(Slice("0,2:0,2:-"), full), Region(Slice("-:-:-"), full)), std::nullopt);
}

TEST(RegionTest, CoveringIsExact) {
  const TensorShape full({4, 6});
  const auto covers = [&](std::vector<const char*> parts, const char* whole) -> std::string {
    std::vector<Region> regions;
    for (const char* part : parts) regions.emplace_back(Slice(part), full);
    const auto result = Covers(regions, Region(Slice(whole), full));
    return result.ok() ? *result ? "yes" : "no" : result.status().ToString();
  };
  EXPECT_EQ(covers({"0,2:-", "2,2:-"}, "-:-"), "yes");
  EXPECT_EQ(covers({"2,2:-", "0,2:0,3", "0,2:3,3"}, "-:-"), "yes");
  EXPECT_EQ(covers({"0,2:-", "3,1:-"}, "-:-"), "no");
  EXPECT_EQ(covers({"0,2:-", "3,1:-"}, "0,2:1,2"), "yes");
  EXPECT_EQ(covers({}, "-:-"), "no");
  EXPECT_THAT(covers({"0,2:-", "1,3:-"}, "-:-"), HasSubstr("Overlapping slices"));
  const std::vector<Region> many(40000, Region(Slice("0,1:-"), full));
  EXPECT_FALSE(Covers(many, Region(Slice("-:-"), full)).ok());
}

}  // namespace
}  // namespace millrace::io
