// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/shape_checks.h"

namespace millrace {
namespace {

TEST(QuantizedShapes, ResultsAreThoseOfThePlainOpsWithARange) {
  Expect(Op("QuantizedMatMul"), "[2,3];[3,5];[];[];[];[]", "[d0_0,d1_1];[];[]");
  Expect(Op("QuantizedMatMul"), "[2,3];[4,5];[];[];[];[]", "e;Dimensions must be equal, but are 3 and 4");
  Expect(Op("QuantizedAdd"), "[2,3];[3];[];[];[];[]", "[d0_0,3];[];[]");
  Expect(Op("QuantizedMul"), "[2,3];[];[];[];[];[]", "[d0_0,d0_1];[];[]");
  Expect(Op("QuantizedBiasAdd"), "[2,?];[3];[];[];[];[]", "[d0_0,d1_0];[];[]");
  Expect(Op("QuantizedRelu"), "[2,?];[];[]", "in0;[];[]");
  Expect(Op("QuantizedReshape").Const(1, {3, -1}), "[2,3];[2];[];[]", "[3,2];[];[]");
  Expect(Op("QuantizedResizeBilinear").Const(1, {7, 8}), "[2,3,4,5];[2];[];[]", "[d0_0,7,8,d0_3];[];[]");
  Expect(Op("QuantizedInstanceNorm"), "[2,3,4,5];[];[]", "in0;[];[]");
  Expect(Op("QuantizedInstanceNorm"), "[2,3,4];[];[]", "e;Shape must be rank 4 but is rank 3");
}

TEST(QuantizedShapes, Windows) {
  const auto images = [](const char* op) {
    return Op(op).Attr("strides", std::vector<int64_t>{1, 2, 2, 1}).Attr("padding", "VALID");
  };
  Expect(images("QuantizedConv2D"), "[1,5,7,2];[2,3,2,9];[];[];[];[]", "[d0_0,2,3,d1_3];[];[]");
  const std::vector<int64_t> window = {1, 2, 3, 1};
  Expect(images("QuantizedMaxPool").Attr("ksize", window), "[1,5,7,2];[];[]", "[d0_0,2,3,2];[];[]");
  Expect(images("QuantizedAvgPool").Attr("ksize", window), "[1,5,7,2];[1];[]",
         "e;Shape must be rank 0 but is rank 1");
}

TEST(QuantizedShapes, BatchNorm) {
  const auto norm = [] {
    return Op("QuantizedBatchNormWithGlobalNormalization")
        .Attr("variance_epsilon", 1.0f)
        .Attr("scale_after_normalization", true);
  };
  Expect(norm(), "[1,2,3,?];[];[];[4];[];[];?;[];[];[4];[];[];?;[];[]", "[d0_0,d0_1,d0_2,d3_0];[];[]");
  Expect(norm(), "[1,2,3,5];[];[];[4];[];[];?;[];[];?;[];[];?;[];[]",
         "e;Dimensions must be equal, but are 5 and 4");
}

TEST(QuantizedShapes, RangesAreScalars) {
  Expect(Op("Requantize"), "[2,?];[];[];[];[]", "in0;[];[]");
  Expect(Op("Requantize"), "[2,?];[];[];[1];[]", "e;Shape must be rank 0 but is rank 1");
  Expect(Op("RequantizationRange"), "[2,?];[];[]", "[];[]");
  Expect(Op("QuantizeDownAndShrinkRange"), "[2];[];?", "in0;[];[]");
}

TEST(QuantizedShapes, Concat) {
  const auto concat = [] { return Op("QuantizedConcat").Attr("N", int64_t{2}); };
  Expect(concat(), "[];[2,3];?;[];[];[];[]", "[?,?];[];[]");
  Expect(concat(), "[];?;?;[];[];[];[]", "?;[];[]");
  Expect(concat(), "[];[2];[3,1];[];[];[];[]", "e;Shape must be rank 1 but is rank 2");
  Expect(concat(), "[];[2];[3];[];[1];[];[]", "e;Shape must be rank 0 but is rank 1");
}

TEST(QuantizedShapes, WhatFollowsAProduct) {
  const auto conv = [](const char* op) {
    return Op(op).Attr("strides", std::vector<int64_t>{1, 2, 2, 1}).Attr("padding", "VALID");
  };
  Expect(conv("QuantizedConv2DPerChannel"), "[1,5,7,2];[2,3,2,9];[];[];[9];[9]", "[d0_0,2,3,d1_3];[9];[9]");
  Expect(conv("QuantizedConv2DWithBias"), "[1,5,7,2];[2,3,2,9];[9];[];[];[];[]", "[d0_0,2,3,d1_3];[];[]");
  Expect(conv("QuantizedConv2DWithBiasAndRequantize"), "[1,5,7,2];[2,3,2,9];[9];[];[];[9];[9];[];[]",
         "[d0_0,2,3,d1_3];[];[]");
  Expect(conv("QuantizedConv2DWithBiasAndRequantize"), "[1,5,7,2];[2,3,2,9];[9];[];[];[9];[9];[1];[]",
         "e;Shape must be rank 0 but is rank 1");
  Expect(conv("QuantizedDepthwiseConv2D"), "[1,5,7,2];[2,3,2,4];[];[];[];[]", "[d0_0,2,3,8];[];[]");
  Expect(Op("QuantizedMatMulWithBias"), "[2,3];[3,4];[4];[];[];[];[]", "[d0_0,d1_1];[];[]");
  Expect(Op("QuantizedMatMulWithBias"), "[2,3];[3,4];[];[];[];[];[]", "e;Shape must be rank 1 but is rank 0");
}

TEST(QuantizedShapes, RangesOfChannels) {
  Expect(Op("RequantizePerChannel"), "[2,3,4,5];[5];[5];[];[]", "in0;[];[]");
  Expect(Op("RequantizePerChannel"), "[2,3,4,5];[];[5];[];[]", "e;Shape must be rank 1 but is rank 0");
  Expect(Op("RequantizationRangePerChannel").Attr("clip_value_max", 1.0f), "[2,5];[5];[5]", "[];[]");
  Expect(Op("QuantizedReluX"), "[2,5];[];[];[]", "in0;[];[]");
}

TEST(QuantizedShapes, FakeQuantByChannel) {
  Expect(Op("FakeQuantWithMinMaxVarsPerChannel"), "[2,?];[3];[3]", "[d0_0,d1_0]");
}

}  // namespace
}  // namespace millrace
