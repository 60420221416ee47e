// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tensor/testing.h"
#include "tests/graph_tools/tools_testing.h"
#include "training/graph_tools/graph_tools.h"

namespace millrace {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Key;
using ::testing::Not;

TEST(FoldConstantsTest, WhatDependsOnConstantsOnlyIsComputed) {
  DefBuilder b;
  b.Placeholder("x");
  b.Const("a", Tensor::Vector<float>({1, 4}));
  b.Float("root", "Sqrt", {"a"});
  b.Float("twice", "Add", {"root", "root"});
  b.Float("y", "Mul", {"x", "twice"});
  tensorflow::GraphDef graph = b.def();
  ASSERT_EQ(FoldConstants({.outputs = {"y"}}, &graph), Status());
  EXPECT_THAT(NamesOf(graph), ElementsAre("x", "twice", "y"));
  ExpectTensorEqual(AsTensor<float>({2, 8}),
                    RunGraph(graph, {{"x", Tensor::Vector<float>({1, 2})}}, {"y"})[0]);
}

TEST(FoldConstantsTest, StateRandomnessErrorsAndLargeResultsStay) {
  DefBuilder b;
  b.Const("shape", Tensor::Vector<int32_t>({4}));
  b.Node("random", "RandomUniform", {"shape"}, {{"T", DataType::kInt32}, {"dtype", DataType::kFloat}});
  b.Const("zero", Tensor::Scalar<int32_t>(0));
  b.Const("one", Tensor::Scalar<int32_t>(1));
  b.Node("error", "FloorDiv", {"one", "zero"}, {{"T", DataType::kInt32}});
  b.Node("fine", "Add", {"one", "one"}, {{"T", DataType::kInt32}});
  b.Const("large", Tensor::Vector<int32_t>({1000000, 1000000}));
  b.Node("fill", "Fill", {"large", "one"}, {{"T", DataType::kInt32}});
  b.Node("default", "PlaceholderWithDefault", {"one"},
         {{"dtype", DataType::kInt32}, {"shape", PartialShape({})}});
  b.Node("gated", "Neg", {"one", "^random"}, {{"T", DataType::kInt32}});
  tensorflow::GraphDef graph = b.def();
  ASSERT_EQ(FoldConstants({.outputs = {"random", "error", "fine", "fill", "default", "gated"}}, &graph),
            Status());
  EXPECT_EQ(FindNode(graph, "random")->op(), "RandomUniform");
  EXPECT_EQ(FindNode(graph, "error")->op(), "FloorDiv");
  EXPECT_EQ(FindNode(graph, "fine")->op(), "Const");
  EXPECT_EQ(FindNode(graph, "fill")->op(), "Fill");
  EXPECT_EQ(FindNode(graph, "default")->op(), "PlaceholderWithDefault");
  EXPECT_EQ(FindNode(graph, "gated")->op(), "Neg");
}

constexpr int64_t kChannels = 5;

// A product with constant weights named "linear"; its result has kChannels channels.
struct LinearCase {
  std::string name;
  std::string op;
  std::string data_format = "NHWC";
  bool bias = false;
};

class FoldBatchNormsTest : public ::testing::TestWithParam<LinearCase> {
 protected:
  FoldBatchNormsTest() {
    const LinearCase& c = GetParam();
    const bool nchw = c.data_format == "NCHW";
    b_.Placeholder("x");
    if (c.op == "MatMul" || c.op == "MatMulTransposed") {
      const bool transposed = c.op == "MatMulTransposed";
      x_ = RandomFloats({3, 4});
      b_.Const("w", transposed ? RandomFloats({kChannels, 4}) : RandomFloats({4, kChannels}));
      b_.Node("linear", "MatMul", {"x", "w"}, {{"T", DataType::kFloat}, {"transpose_b", transposed}});
    } else {
      const bool depthwise = c.op == "DepthwiseConv2dNative";
      const int64_t in = depthwise ? kChannels : 3;
      x_ = nchw ? RandomFloats({2, in, 6, 7}) : RandomFloats({2, 6, 7, in});
      b_.Const("w/const",
               depthwise ? RandomFloats({3, 3, kChannels, 1}) : RandomFloats({3, 3, 3, kChannels}));
      b_.Float("w", "Identity", {"w/const"});
      b_.Node("linear", c.op, {"x", "w"},
              {{"T", DataType::kFloat},
               {"strides", std::vector<int64_t>{1, 1, 1, 1}},
               {"padding", "SAME"},
               {"data_format", c.data_format}});
    }
    if (c.bias) {
      b_.Const("bias", RandomFloats({kChannels}));
      b_.Node("biased", "BiasAdd", {"linear", "bias"},
              {{"T", DataType::kFloat}, {"data_format", c.data_format}});
    }
  }
  std::string input() const { return GetParam().bias ? "biased" : "linear"; }
  bool is_matmul() const { return GetParam().op.starts_with("MatMul"); }
  // The shape of a constant along the channels.
  TensorShape ChannelShape() const {
    return GetParam().data_format == "NCHW" ? TensorShape({kChannels, 1, 1}) : TensorShape({kChannels});
  }
  void Moments() {
    b_.Const("mean", RandomFloats({kChannels}));
    Tensor variance = RandomFloats({kChannels});
    for (float& v : variance.flat<float>()) v = v * v + 0.1f;
    b_.Const("variance", variance);
    b_.Const("beta", RandomFloats({kChannels}));
    b_.Const("gamma", RandomFloats({kChannels}));
  }
  // "y" must keep its value, and the graph lose the nodes of this op.
  void ExpectFolded(const std::string& op) {
    tensorflow::GraphDef graph = b_.def();
    ASSERT_EQ(FoldBatchNorms({"y"}, &graph), Status());
    EXPECT_THAT(OpsOf(graph), Not(Contains(Key(op)))) << graph.ShortDebugString();
    ExpectSame(graph);
  }
  void ExpectSame(const tensorflow::GraphDef& graph) {
    const Tensor want = RunGraph(b_.def(), {{"x", x_}}, {"y"})[0];
    const Tensor got = RunGraph(graph, {{"x", x_}}, {"y"})[0];
    ExpectTensorNear(want, got, 1e-4, 1e-4);
  }

  DefBuilder b_;
  Tensor x_;
};

INSTANTIATE_TEST_SUITE_P(
    Linear, FoldBatchNormsTest,
    ::testing::Values(LinearCase{"Conv", "Conv2D"}, LinearCase{"ConvNchw", "Conv2D", "NCHW"},
                      LinearCase{"ConvBias", "Conv2D", "NHWC", true},
                      LinearCase{"ConvBiasNchw", "Conv2D", "NCHW", true},
                      LinearCase{"Depthwise", "DepthwiseConv2dNative"},
                      LinearCase{"DepthwiseBiasNchw", "DepthwiseConv2dNative", "NCHW", true},
                      LinearCase{"MatMul", "MatMul"},
                      LinearCase{"MatMulTransposedBias", "MatMulTransposed", "NHWC", true}),
    [](const auto& test) { return test.param.name; });

TEST_P(FoldBatchNormsTest, FusedBatchNorm) {
  if (is_matmul()) GTEST_SKIP() << "takes images only";
  Moments();
  b_.Node("y", "FusedBatchNorm", {input(), "gamma", "beta", "mean", "variance"},
          {{"T", DataType::kFloat},
           {"epsilon", 0.01f},
           {"is_training", false},
           {"data_format", GetParam().data_format}});
  ExpectFolded("FusedBatchNorm");
}

TEST_P(FoldBatchNormsTest, FusedBatchNormV3) {
  if (is_matmul()) GTEST_SKIP() << "takes images only";
  Moments();
  b_.Node("y", "FusedBatchNormV3", {input(), "gamma", "beta", "mean", "variance"},
          {{"T", DataType::kFloat},
           {"U", DataType::kFloat},
           {"is_training", false},
           {"data_format", GetParam().data_format}});
  ExpectFolded("FusedBatchNormV3");
}

TEST_P(FoldBatchNormsTest, BatchNormWithGlobalNormalization) {
  if (is_matmul() || GetParam().data_format == "NCHW") GTEST_SKIP() << "takes images with channels last only";
  for (const bool scale : {false, true}) {
    DefBuilder before = b_;
    Moments();
    b_.Node("y", "BatchNormWithGlobalNormalization", {input(), "mean", "variance", "beta", "gamma"},
            {{"T", DataType::kFloat}, {"variance_epsilon", 0.01f}, {"scale_after_normalization", scale}});
    ExpectFolded("BatchNormWithGlobalNormalization");
    b_ = before;
  }
}

TEST_P(FoldBatchNormsTest, BatchNormWithMoments) {
  if (is_matmul()) GTEST_SKIP() << "takes images only";
  Moments();
  b_.Node("y", "FusedBatchNorm", {input(), "gamma", "beta", "mean", "variance"},
          {{"T", DataType::kFloat}, {"is_training", true}, {"data_format", GetParam().data_format}});
  tensorflow::GraphDef graph = b_.def();
  ASSERT_EQ(FoldBatchNorms({"y"}, &graph), Status());
  EXPECT_THAT(OpsOf(graph), Contains(Key("FusedBatchNorm"))) << "training needs the batch's own moments";
}

TEST_P(FoldBatchNormsTest, ProductAndSum) {
  b_.Const("scale", RandomFloats(ChannelShape()));
  b_.Const("offset", RandomFloats(ChannelShape()));
  b_.Float("scaled", "Mul", {"scale", input()});
  b_.Float("y", "Add", {"scaled", "offset"});
  ExpectFolded("Mul");
}

TEST_P(FoldBatchNormsTest, ScalarFactor) {
  b_.Const("scale", Tensor::Scalar(0.5f));
  b_.Float("y", "Mul", {input(), "scale"});
  ExpectFolded("Mul");
}

TEST_P(FoldBatchNormsTest, TheFormulaOfBatchNormalizationAfterFoldingConstants) {
  if (GetParam().data_format == "NCHW") GTEST_SKIP() << "the moments have one dimension";
  Moments();
  b_.Const("epsilon", Tensor::Scalar(0.001f));
  b_.Float("add", "Add", {"variance", "epsilon"});
  b_.Float("rsqrt", "Rsqrt", {"add"});
  b_.Float("mul", "Mul", {"rsqrt", "gamma"});
  b_.Float("mul_1", "Mul", {input(), "mul"});
  b_.Float("mul_2", "Mul", {"mean", "mul"});
  b_.Float("sub", "Sub", {"beta", "mul_2"});
  b_.Float("y", "Add", {"mul_1", "sub"});
  tensorflow::GraphDef graph = b_.def();
  ASSERT_EQ(OptimizeForInference({.inputs = {"x"}, .outputs = {"y"}}, &graph), Status());
  EXPECT_THAT(OpsOf(graph), Not(Contains(Key("Mul")))) << graph.ShortDebugString();
  EXPECT_THAT(OpsOf(graph), Not(Contains(Key("Identity"))));
  ExpectSame(graph);
}

TEST_P(FoldBatchNormsTest, WhatOthersReadStays) {
  b_.Const("scale", RandomFloats(ChannelShape()));
  b_.Float("scaled", "Mul", {input(), "scale"});
  b_.Float("y", "Add", {"scaled", input()});
  tensorflow::GraphDef graph = b_.def();
  ASSERT_EQ(FoldBatchNorms({"y"}, &graph), Status());
  EXPECT_THAT(OpsOf(graph), Contains(Key("Mul")));
  ExpectSame(graph);
  graph = b_.def();
  ASSERT_EQ(FoldBatchNorms({"scaled", input()}, &graph), Status());
  EXPECT_THAT(OpsOf(graph), Contains(Key("Mul")));
}

TEST_P(FoldBatchNormsTest, FactorsThatDoNotLieAlongTheChannelsStay) {
  b_.Const("scale", is_matmul() ? RandomFloats({3, 1}) : RandomFloats({6, 1, 1}));
  if (GetParam().data_format == "NCHW") GTEST_SKIP() << "6 x 1 x 1 does not suit the shape";
  b_.Float("y", "Mul", {input(), "scale"});
  tensorflow::GraphDef graph = b_.def();
  ASSERT_EQ(FoldBatchNorms({"y"}, &graph), Status());
  EXPECT_THAT(OpsOf(graph), Contains(Key("Mul")));
  ExpectSame(graph);
}

}  // namespace
}  // namespace millrace
