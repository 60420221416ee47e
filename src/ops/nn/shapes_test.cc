// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/nn/shapes.h"

#include "ops/shape_checks.h"

namespace millrace {
namespace {

using Ints = std::vector<int64_t>;

TEST(NnShapes, Activations) {
  for (const char* op : {"Elu", "Relu", "Relu6", "Selu", "Softplus", "Softsign"}) {
    ExpectUnchanged(op);
    const std::string gradient = std::string(op) + "Grad";
    Expect(Op(gradient), "[2,?];[?,3]", "[d0_0,d1_1]");
    Expect(Op(gradient), "[2];[3]", "e;must be equal, but are 2 and 3");
  }
}

TEST(NnShapes, FusedBatchNorm) {
  const char* const training = "[2,3,?,4];[?];[4];[0];[0]";
  Expect(Op("FusedBatchNorm"), training, "[d0_0,d0_1,d0_2,d0_3];[d0_3];[d0_3];[d0_3];[d0_3]");
  Expect(Op("FusedBatchNorm").Attr("is_training", false), "[?,?,?,?];[?];[4];[?];[?]",
         "[d0_0,d0_1,d0_2,d2_0];[d2_0];[d2_0];[d2_0];[d2_0]");
  Expect(Op("FusedBatchNorm").Attr("data_format", "NCHW"), "[2,4,3,3];[4];[4];?;?",
         "[d0_0,d0_1,d0_2,d0_3];[d0_1];[d0_1];[d0_1];[d0_1]");
  Expect(Op("FusedBatchNorm").Attr("is_training", false), training, "e;Dimensions must be equal");
  Expect(Op("FusedBatchNorm"), "[2,4];[4];[4];?;?", "e;Shape must be rank 4 but is rank 2");
  Expect(Op("FusedBatchNorm").Attr("data_format", "CHWN"), training,
         "e;is not in the list of allowed values: \"NHWC\", \"NCHW\"");
}

TEST(NnShapes, FusedBatchNormGrad) {
  Expect(Op("FusedBatchNormGrad"), "[2,?,3,?];[?,3,?,?];[4];[?];[?]",
         "[d0_0,d0_1,d0_2,d2_0];[d2_0];[d2_0];[0];[0]");
  Expect(Op("FusedBatchNormGrad").Attr("is_training", false), "?;[3,3,3,5];?;?;?",
         "[?,?,?,5];[5];[5];[5];[5]");
  Expect(Op("FusedBatchNormGrad"), "[2,3,3,4];[2,3,3,4];[4];[5];[?]", "e;Dimensions must be equal");
}

TEST(NnShapes, BiasAdd) {
  Expect(Op("BiasAdd"), "?;?", "?");
  Expect(Op("BiasAdd"), "[2,?];[3]", "[d0_0,d1_0]");
  Expect(Op("BiasAdd"), "[5,2,3];[?]", "[d0_0,d0_1,d0_2]");
  Expect(Op("BiasAdd"), "[2,3];[4]", "e;Dimensions must be equal, but are 3 and 4");
  Expect(Op("BiasAdd"), "[3];[3]", "e;Shape must be at least rank 2 but is rank 1");
  Expect(Op("BiasAdd"), "[2,3];[3,1]", "e;Shape must be rank 1 but is rank 2");
  Expect(Op("BiasAdd").Attr("data_format", "NCHW"), "[2,?,4,5];[3]", "[d0_0,d1_0,d0_2,d0_3]");
  Expect(Op("BiasAdd").Attr("data_format", "NCHW"), "[2,3,4];[3]", "[d0_0,d0_1,d0_2]");
  Expect(Op("BiasAdd").Attr("data_format", "NCHW"), "[2,?,4,5,6];[3]", "[d0_0,d1_0,d0_2,d0_3,d0_4]");
  Expect(Op("BiasAdd").Attr("data_format", "NCHW"), "[2,3];[3]",
         "e;Shape must be at least rank 3 but is rank 2");
  Expect(Op("BiasAddV1"), "[2,?];[3]", "[d0_0,d1_0]");
  Expect(Op("BiasAddGrad"), "?", "[?]");
  Expect(Op("BiasAddGrad"), "[2,4,3]", "[d0_2]");
  Expect(Op("BiasAddGrad").Attr("data_format", "NCHW"), "[2,3,4,5]", "[d0_1]");
  Expect(Op("BiasAddGrad").Attr("data_format", "NCHW"), "[2,3,4,5,6]", "[d0_1]");
  Expect(Op("BiasAddGrad"), "[3]", "e;Shape must be at least rank 2 but is rank 1");
}

TEST(NnShapes, SoftmaxAndLosses) {
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    Expect(Op(op), "?", "in0");
    Expect(Op(op), "[2,?]", "in0");
    Expect(Op(op), "[]", "e;Shape must be at least rank 1 but is rank 0");
  }
  Expect(Op("L2Loss"), "[2,?]", "[]");
  Expect(Op("SoftmaxCrossEntropyWithLogits"), "?;?", "[?];[?,?]");
  Expect(Op("SoftmaxCrossEntropyWithLogits"), "[5,?];[?,10]", "[d0_0];[d0_0,d1_1]");
  Expect(Op("SoftmaxCrossEntropyWithLogits"), "[5,10];[5,9]", "e;Dimensions must be equal, but are 10 and 9");
  Expect(Op("SoftmaxCrossEntropyWithLogits"), "[5];[5]",
         "e;Shape must be broadcasted with rank 2, but is rank 1");
  Expect(Op("SoftmaxCrossEntropyWithLogits"), "[3,2];[1]", "[d0_0];[d0_0,d0_1]");
  Expect(Op("SparseSoftmaxCrossEntropyWithLogits"), "?;?", "[?];[?,?]");
  Expect(Op("SparseSoftmaxCrossEntropyWithLogits"), "[?,10];[5]", "[d1_0];[d1_0,d0_1]");
  Expect(Op("SparseSoftmaxCrossEntropyWithLogits"), "[4,10];[5]",
         "e;Dimensions must be equal, but are 4 and 5");
  Expect(Op("SparseSoftmaxCrossEntropyWithLogits"), "[4,10];[4,1]", "e;Shape must be rank 1 but is rank 2");
}

ShapeTester Conv(const char* padding, const Ints& strides) {
  return Op("Conv2D").Attr("padding", padding).Attr("strides", strides);
}

TEST(NnShapes, Conv2D) {
  Expect(Conv("SAME", {1, 1, 1, 1}), "[5,28,28,1];[5,5,1,32]", "[d0_0,d0_1,d0_2,d1_3]");
  Expect(Conv("SAME", {1, 1, 1, 1}), "[?,?,28,?];[?,?,?,32]", "[d0_0,d0_1,d0_2,d1_3]");
  Expect(Conv("SAME", {1, 2, 3, 1}), "[5,28,28,1];[5,5,1,32]", "[d0_0,14,10,d1_3]");
  Expect(Conv("VALID", {1, 1, 1, 1}), "[5,28,27,1];[5,4,1,32]", "[d0_0,24,24,d1_3]");
  Expect(Conv("VALID", {1, 2, 2, 1}), "[5,7,8,1];[3,3,1,2]", "[d0_0,3,3,d1_3]");
  Expect(Conv("VALID", {1, 1, 1, 1}), "[5,?,8,1];[3,?,1,2]", "[d0_0,?,?,d1_3]");
  Expect(Conv("VALID", {1, 1, 1, 1}), "[5,7,?,1];[1,1,1,2]", "[d0_0,d0_1,d0_2,d1_3]");
  Expect(Conv("VALID", {1, 1, 1, 1}), "?;?", "[?,?,?,?]");
  Expect(Conv("VALID", {1, 1, 2, 3}).Attr("data_format", "NCHW"), "[5,1,9,10];[2,4,1,32]", "[d0_0,d1_3,4,3]");
  Expect(Conv("SAME", {1, 1, 1, 1}), "[5,28,28,3];[5,5,2,32]",
         "e;Depth of input (3) is not a multiple of input depth of filter (2)");
  Expect(Conv("SAME", {1, 1, 1, 1}), "[5,28,28,3];[5,5,1,32]",
         "e;Depth of output (32) is not a multiple of the number of groups (3)");
  Expect(Conv("SAME", {1, 1, 1, 1}), "[5,28,28,3];[5,5,1,33]",
         "[d0_0,d0_1,d0_2,d1_3]");  // the kernel refuses it
  Expect(Conv("VALID", {1, 1, 1, 1}), "[5,2,2,1];[5,5,1,32]",
         "e;Negative dimension size caused by subtracting 5 from 2");
  Expect(Conv("SAME", {1, 0, 1, 1}), "[5,28,28,1];[5,5,1,32]", "e;Stride must be > 0, but got 0");
  Expect(Conv("SAME", {1, 0, 1, 1}), "?;?", "e;Stride must be > 0, but got 0");
  Expect(Conv("SAME", {1, 1, 1}), "?;?",
         "e;Conv2D on data format NHWC requires the stride attribute to contain 4 values, but got: 3");
  Expect(Conv("SAME", {1, 1, 1, 1}), "[5,28,28];?", "e;Shape must be rank 4 but is rank 3");
  Expect(Conv("FULL", {1, 1, 1, 1}), "?;?",
         "e;Value for attr 'padding' of \"FULL\" is not in the list of allowed values");
}

TEST(NnShapes, Conv2DBackprops) {
  const auto with_attrs = [](const char* op) {
    return Op(op).Attr("padding", "SAME").Attr("strides", Ints{1, 1, 1, 1});
  };
  Expect(with_attrs("Conv2DBackpropInput").Const(0, {5, 28, 28, 1}), "[4];?;?", "[5,28,28,1]");
  Expect(with_attrs("Conv2DBackpropInput"), "[4];?;?", "[?,?,?,?]");
  Expect(with_attrs("Conv2DBackpropInput").AsShape(0, "[?,28,28,1]"), "[4];?;?", "[?,28,28,1]");
  Expect(with_attrs("Conv2DBackpropInput"), "[3];?;?", "e;Shape must be rank 4 but is rank 3");
  Expect(with_attrs("Conv2DBackpropFilter").Const(1, {5, 5, 1, 32}), "?;[4];?", "[5,5,1,32]");
  Expect(with_attrs("Conv2DBackpropFilter"), "?;[5];?", "e;Shape must be rank 4 but is rank 5");
}

ShapeTester Pool(const char* op, const char* padding, const Ints& ksize, const Ints& strides) {
  return Op(op).Attr("padding", padding).Attr("ksize", ksize).Attr("strides", strides);
}

TEST(NnShapes, Pools) {
  for (const char* op : {"MaxPool", "AvgPool"}) {
    Expect(Pool(op, "SAME", {1, 2, 2, 1}, {1, 2, 2, 1}), "[5,28,27,3]", "[d0_0,14,14,d0_3]");
    Expect(Pool(op, "VALID", {1, 2, 2, 1}, {1, 2, 2, 1}), "[?,28,27,?]", "[d0_0,14,13,d0_3]");
    Expect(Pool(op, "VALID", {1, 3, 3, 1}, {1, 1, 1, 1}), "[5,?,5,3]", "[d0_0,?,3,d0_3]");
    Expect(Pool(op, "SAME", {1, 2, 2, 1}, {1, 2, 2, 1}), "?", "[?,?,?,?]");
    Expect(Pool(op, "VALID", {1, 1, 2, 3}, {1, 1, 2, 3}).Attr("data_format", "NCHW"), "[5,3,4,9]",
           "[d0_0,d0_1,2,3]");
    Expect(Pool(op, "VALID", {1, 6, 6, 1}, {1, 1, 1, 1}), "[1,4,4,1]",
           "e;Negative dimension size caused by subtracting 6 from 4");
    Expect(Pool(op, "SAME", {1, 0, 2, 1}, {1, 1, 1, 1}), "?", "[?,?,?,?]");  // the kernel refuses it
    Expect(Pool(op, "SAME", {1, 2, 2, 1}, {1, -1, 1, 1}), "?", "e;Stride must be > 0, but got -1");
    Expect(Pool(op, "SAME", {1, 2, 2, 1, 1}, {1, 1, 1, 1}), "?",
           std::string("e;") + op + " requires the ksize attribute to contain 4 values");
    Expect(Pool(op, "SAME", {1, 2, 2}, {1, 1, 1, 1}), "?",
           "e;Length for attr 'ksize' of 3 must be at least minimum 4");
    Expect(Pool(op, "SAME", {1, 2, 2, 1}, {1, 2, 2, 1}), "[5,28]", "e;Shape must be rank 4 but is rank 2");
  }
  Expect(Pool("MaxPool", "VALID", {1, 1, 1, 2}, {1, 1, 1, 2}), "[5,4,4,6]", "[d0_0,d0_1,d0_2,3]");
}

TEST(NnShapes, PoolGradients) {
  const Ints ksize = {1, 2, 2, 1};
  const Ints strides = {1, 2, 2, 1};
  Expect(Pool("AvgPoolGrad", "SAME", ksize, strides).Const(0, {5, 4, 4, 1}), "[4];?", "[5,4,4,1]");
  Expect(Pool("AvgPoolGrad", "SAME", ksize, strides), "[3];?", "e;Shape must be rank 4 but is rank 3");
  Expect(Pool("MaxPoolGrad", "SAME", ksize, strides), "[5,4,4,1];[5,2,2,1];?", "in0");
  Expect(Pool("MaxPoolGrad", "SAME", ksize, strides), "[5,4,4,1];[5,2,2,1];[5,2,3,1]", "in0");
  Expect(Pool("MaxPoolGradGrad", "SAME", ksize, strides), "[5,4,4,1];[5,2,2,1];[5,4,4,1]", "[d0_0,2,2,d0_3]");
  Expect(Pool("MaxPoolGradGrad", "SAME", ksize, strides), "[5,4,4,1];[5,3,2,1];?", "e;must be equal");
  Expect(Pool("MaxPoolGradGrad", "SAME", ksize, strides), "[5,4,4,1];?;[5,4,5,1]", "e;must be equal");
}

TEST(NnShapes, Rankings) {
  Expect(Op("InTopK").Attr("k", 1), "?;?", "[?]");
  Expect(Op("InTopK").Attr("k", 1), "[?,10];[5]", "[d1_0]");
  Expect(Op("InTopK").Attr("k", 1), "[4,10];[5]", "e;Dimensions must be equal, but are 4 and 5");
  Expect(Op("TopK").Attr("k", 3), "[2,10]", "[d0_0,3];[d0_0,3]");
  Expect(Op("TopK").Attr("k", 3), "?", "?;?");
  Expect(Op("TopK").Attr("k", 11), "[2,10]", "e;input must have last dimension >= k = 11 but is 10");
  Expect(Op("TopK").Attr("k", -1), "[2,10]", "e;Value for attr 'k' of -1 must be at least minimum 0");
  Expect(Op("TopKV2"), "[2,10];[]", "[d0_0,?];[d0_0,?]");
  Expect(Op("TopKV2").ConstScalar(1, 4), "[2,?];[]", "[d0_0,4];[d0_0,4]");
  Expect(Op("TopKV2").ConstScalar(1, -4), "[2,?];[]", "e;must be non-negative but is -4");
  Expect(Op("TopKV2"), "[];[]", "e;Shape must be at least rank 1 but is rank 0");
}

TEST(NnShapes, DepthwiseConvolutionAndLrn) {
  Expect(Op("DepthwiseConv2dNative").Attr("strides", Ints{1, 2, 2, 1}).Attr("padding", "SAME"),
         "[?,5,6,3];[3,3,3,2]", "[d0_0,3,3,6]");
  Expect(Op("DepthwiseConv2dNative").Attr("strides", Ints{1, 1, 1, 1}).Attr("padding", "VALID"),
         "[1,5,6,3];[3,3,2,2]", "e;Dimensions must be equal");
  Expect(Op("LRN"), "[1,2,3,4]", "in0");
}

TEST(NnShapes, NthElement) { Expect(Op("NthElement"), "[2,3,4];[]", "[d0_0,d0_1]"); }

}  // namespace
}  // namespace millrace
