// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "tensor/tensor_slice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tensorflow/core/framework/tensor_slice.pb.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

TensorSlice Slice(std::string_view text) { return *TensorSlice::Parse(text); }

TEST(TensorSliceTest, TextsAreParsedAndWritten) {
  for (const char* text : {"", "-", "0,1", "0,2:-", "3,4:-:100,200:0,7"}) {
    EXPECT_EQ(Slice(text).ToString(), text);
    tensorflow::TensorSliceProto proto;
    Slice(text).ToProto(&proto);
    EXPECT_EQ(*TensorSlice::FromProto(proto), Slice(text));
  }
  EXPECT_TRUE(Slice("-:-").IsFull());
  EXPECT_FALSE(Slice("-:0,1").IsFull());
  EXPECT_TRUE(Slice("-:0,3").IsAllOf(TensorShape({2, 3})));
  EXPECT_FALSE(Slice("-:0,3").IsAllOf(TensorShape({2, 4})));
  EXPECT_FALSE(Slice("-").IsAllOf(TensorShape({2, 4})));
  for (const char* text : {"1", "1,2,3", "x,1", "--", "1,99999999999999999999"}) {
    EXPECT_THAT(TensorSlice::Parse(text).status().message(),
                HasSubstr("Expected a pair of numbers or '-' but got '"));
  }
  for (const char* text : {"-1,2", "1,0", "0,-1", "9223372036854775807,1"}) {
    EXPECT_THAT(TensorSlice::Parse(text).status().message(),
                HasSubstr("Expected non-negative start and positive length but got start = "));
  }
}

TEST(TensorSliceTest, ShapesAndSlicesAreParsedInTensorFlowsWords) {
  const auto parsed = ParseShapeAndSlice("4 10 0,2:-");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->full_shape, TensorShape({4, 10}));
  EXPECT_EQ(parsed->slice.ToString(), "0,2:-");
  EXPECT_EQ(parsed->slice_shape, TensorShape({2, 10}));
  const auto error = [](const char* text) { return ParseShapeAndSlice(text).status().ToString(); };
  EXPECT_THAT(error("4"), HasSubstr("Need least two elements in shape_and_slice specification: 4"));
  EXPECT_THAT(error("4 x 0,1:-"), HasSubstr("Non numerical dimension in shape_and_slice: 4 x 0,1:-"));
  EXPECT_THAT(error("4 10 0,5:-"),
              HasSubstr("Extent in dimension 0 out of bounds: shape = [4,10], slice = 0,5:-"));
  EXPECT_THAT(error("4 10 -"), HasSubstr("Mismatching ranks: shape = [4,10], slice = -"));
  EXPECT_THAT(error("-4 -"), HasSubstr("Invalid argument"));
  EXPECT_THAT(error("9000000000000000000 9000000000000000000 -:-"), HasSubstr("Invalid argument"));
}

}  // namespace
}  // namespace millrace
