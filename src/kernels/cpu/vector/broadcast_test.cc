// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/broadcast.h"

#include "kernels/cpu/vector/vector_testing.h"

namespace millrace::cpu {
namespace {

using Shape = std::vector<int64_t>;

class BroadcastTest : public VectorTest {};

int64_t Size(std::span<const int64_t> shape) {
  int64_t size = 1;
  for (const int64_t d : shape) size *= d;
  return size;
}

// The element of a tensor for an index of the result.
int64_t Meet(std::span<const int64_t> shape, std::span<const int64_t> index) {
  int64_t at = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    const int64_t i = index[index.size() - shape.size() + d];
    at = at * shape[d] + (shape[d] == 1 ? 0 : i);
  }
  return at;
}

void ExpectBroadcast(const Shape& a, const Shape& b, const Shape& want_shape) {
  const auto broadcast = Broadcast::Make(a, b);
  ASSERT_TRUE(broadcast.has_value());
  const Shape shape(broadcast->output_shape().begin(), broadcast->output_shape().end());
  ASSERT_EQ(shape, want_shape);
  std::vector<int32_t> x(static_cast<size_t>(Size(a))), y(static_cast<size_t>(Size(b)));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<int32_t>(i) * 1000;
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<int32_t>(i) + 1;
  std::vector<int32_t> out(static_cast<size_t>(broadcast->output_size()));
  UnevenParallel parallel(1);
  EXPECT_TRUE(broadcast->Run(*FindBinary(BinaryOp::kSub, DataType::kInt32), x.data(), y.data(), 4, out.data(),
                             4, 1, parallel));
  Shape index(shape.size(), 0);
  for (size_t i = 0; i < out.size(); ++i) {
    ASSERT_EQ(out[i], x[static_cast<size_t>(Meet(a, index))] - y[static_cast<size_t>(Meet(b, index))]) << i;
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

TEST_P(BroadcastTest, KnownShapes) {
  ExpectBroadcast({}, {}, {});
  ExpectBroadcast({7}, {7}, {7});
  ExpectBroadcast({7}, {}, {7});
  ExpectBroadcast({}, {2, 3}, {2, 3});
  ExpectBroadcast({100, 10}, {10}, {100, 10});
  ExpectBroadcast({10}, {100, 10}, {100, 10});
  ExpectBroadcast({100, 10}, {100, 1}, {100, 10});
  ExpectBroadcast({100, 1}, {1, 10}, {100, 10});
  ExpectBroadcast({5000, 3}, {3}, {5000, 3});
  ExpectBroadcast({3, 5000}, {5000}, {3, 5000});
  ExpectBroadcast({2, 1, 4, 1, 3}, {5, 1, 6, 1}, {2, 5, 4, 6, 3});
  ExpectBroadcast({1, 1, 1}, {1}, {1, 1, 1});
  ExpectBroadcast({0, 3}, {1, 3}, {0, 3});
  ExpectBroadcast({1}, {0}, {0});
}

TEST_P(BroadcastTest, RandomShapes) {
  std::minstd_rand random(11);
  for (int round = 0; round < 300; ++round) {
    const size_t rank = random() % 6;
    Shape a, b, want;
    for (size_t d = 0; d < rank; ++d) {
      const int64_t size = 1 + static_cast<int64_t>(random() % 6);
      const uint32_t kind = static_cast<uint32_t>(random() % 3);
      a.push_back(kind == 0 ? 1 : size);
      b.push_back(kind == 1 ? 1 : size);
      want.push_back(size);
    }
    if (random() % 2 == 0) {  // leading dims of 1 may be left out
      while (!b.empty() && b[0] == 1) b.erase(b.begin());
    }
    ExpectBroadcast(a, b, want);
  }
}

TEST_P(BroadcastTest, ShapesThatDoNotMeetAreRefused) {
  EXPECT_FALSE(Broadcast::Make(Shape{2, 3}, Shape{2}).has_value());
  EXPECT_FALSE(Broadcast::Make(Shape{0}, Shape{2}).has_value());
  EXPECT_FALSE(Broadcast::Make(Shape{-1}, Shape{1}).has_value());
  EXPECT_FALSE(Broadcast::Make(Shape{int64_t{1} << 40, 1}, Shape{1, int64_t{1} << 40}).has_value());
}

TEST_P(BroadcastTest, WorksInPlaceOfTheLargerArgument) {
  std::vector<float> x(3000), bias = {1, 2, 3};
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const auto broadcast = Broadcast::Make(Shape{1000, 3}, Shape{3});
  SerialParallel parallel;
  broadcast->Run(*FindBinary(BinaryOp::kAdd, DataType::kFloat), x.data(), bias.data(), 4, x.data(), 4, 1,
                 parallel);
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(x[i], static_cast<float>(i) + bias[i % 3]);
}

TEST_P(BroadcastTest, WritesBoolsAndReportsDivisionByZero) {
  const std::vector<int64_t> x = {1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> y = {2, 0, 4};
  std::vector<uint8_t> less(6);
  UnevenParallel parallel(2);
  const auto broadcast = Broadcast::Make(Shape{2, 3}, Shape{3});
  EXPECT_TRUE(broadcast->Run(*FindBinary(BinaryOp::kLess, DataType::kInt64), x.data(), y.data(), 8,
                             less.data(), 1, 1, parallel));
  EXPECT_EQ(less, (std::vector<uint8_t>{1, 0, 1, 0, 0, 0}));
  std::vector<int64_t> quotient(6);
  EXPECT_FALSE(broadcast->Run(*FindBinary(BinaryOp::kFloorDiv, DataType::kInt64), x.data(), y.data(), 8,
                              quotient.data(), 8, 1, parallel));
  EXPECT_EQ(quotient, (std::vector<int64_t>{0, 0, 0, 2, 0, 1}));
}

INSTANTIATE_TEST_SUITE_P(Isa, BroadcastTest, EachIsa(), IsaName);

}  // namespace
}  // namespace millrace::cpu
