// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/fuse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "compile/all_ops_testing.h"
#include "graph/fused_node.h"
#include "graph/testing.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class FuseTest : public testing::Test {
 protected:
  FuseTest() {
    for (const char* name : {"x", "w", "b", "r"}) Add(name, "Placeholder", {}, {{"dtype", DataType::kFloat}});
  }
  Node* Add(std::string_view name, std::string_view op, const std::vector<std::string>& inputs,
            AttrMap attrs = {{"T", DataType::kFloat}}) {
    Node* const node = AddTestNode(&graph_, name, op, inputs, std::move(attrs));
    node->set_assigned_device("/job:localhost/replica:0/task:0/device:CPU:0");
    return node;
  }
  Node* Conv(std::string_view name, const char* format = "NHWC", const char* image = "x",
             const char* padding = "SAME") {
    return Add(name, "Conv2D", {image, "w"},
               {{"T", DataType::kFloat},
                {"strides", std::vector<int64_t>{1, 1, 1, 1}},
                {"padding", std::string(padding)},
                {"data_format", std::string(format)}});
  }
  void Pad(const std::string& name, const std::vector<int32_t>& amounts) {
    const Tensor value = Tensor::From<int32_t>(amounts, {4, 2});
    Add(name + "_amount", "Const", {}, {{"dtype", DataType::kInt32}, {"value", value}});
    Add(name, "Pad", {"x", name + "_amount"}, {{"T", DataType::kFloat}, {"Tpaddings", DataType::kInt32}});
  }
  void Norm(std::string_view name, const std::string& input, bool training) {
    Add(name, "FusedBatchNorm", {input, "b", "b", "b", "b"},
        {{"T", DataType::kFloat}, {"is_training", training}, {"epsilon", 0.5f}});
  }
  int Fuse() {
    graph_.FixupSourceAndSinkEdges();
    const auto fused = FuseNodes(&graph_, options_);
    EXPECT_TRUE(fused.ok()) << fused.status();
    EXPECT_TRUE(graph_.Validate().ok()) << graph_.Validate();
    return fused.value_or(-1);
  }
  std::vector<std::string> FusedOps(const char* name) {
    const Node* const node = graph_.FindNode(name);
    return node == nullptr ? std::vector<std::string>{"none"}
                           : *node->Attr<std::vector<std::string>>("fused_ops");
  }

  Graph graph_{AllOps()};
  CompileOptions compile_;
  OptimizeOptions options_{compile_};
};

TEST_F(FuseTest, BiasAndActivationBecomePartOfTheProduct) {
  Add("m", "MatMul", {"x", "w"});
  Add("biased", "BiasAdd", {"m", "b"});
  Add("y", "Relu", {"biased"});
  Add("out", "Neg", {"y"});
  EXPECT_EQ(Fuse(), 2);
  EXPECT_THAT(GraphText(graph_), HasSubstr("y = _FusedMatMul(x, w, b)"));
  EXPECT_THAT(GraphText(graph_), HasSubstr("out = Neg(y)"));
  EXPECT_THAT(FusedOps("y"), testing::ElementsAre("BiasAdd", "Relu"));
}

bool Allows(const OpRegistration& op, DataType type) {
  const AttrDef* const attr = op.def.FindAttr("T");
  if (attr == nullptr) return false;
  const auto* const types = attr->allowed_values.As<std::vector<DataType>>();
  return types == nullptr || std::ranges::find(*types, type) != types->end();
}

TEST_F(FuseTest, EachFunctionOfOneFloatIsFused) {
  std::vector<std::string> names;
  for (const OpRegistration* op : AllOps().All()) {
    const ElementwiseForm& form = op->elementwise;
    const bool keeps_type = form.result == ElementwiseForm::Result::kSame;
    if (form.operands != ElementwiseForm::Operands::kOne || !keeps_type || !Allows(*op, DataType::kFloat))
      continue;
    names.push_back(op->def.name);
    Add("m" + names.back(), "MatMul", {"x", "w"});
    Add("y" + names.back(), names.back(), {"m" + names.back()});
  }
  EXPECT_THAT(names, testing::IsSupersetOf({"Relu", "Relu6", "Elu", "Selu", "Sigmoid", "Tanh", "Exp"}));
  EXPECT_EQ(Fuse(), static_cast<int>(names.size()));
  for (const std::string& name : names)
    EXPECT_THAT(FusedOps(("y" + name).c_str()), testing::ElementsAre(name));
  // Errors have the name of the product.
  EXPECT_EQ(graph_.FindNode("yExp")->attrs().Get<std::string>(kProductAttr).value(), "mExp");
}

TEST_F(FuseTest, FunctionsThatGiveAnotherTypeStay) {
  Add("m", "MatMul", {"x", "w"});
  Add("cast", "Cast", {"m"}, {{"SrcT", DataType::kFloat}, {"DstT", DataType::kDouble}});
  Add("n", "MatMul", {"x", "w"});
  Add("test", "IsNan", {"n"});
  EXPECT_EQ(Fuse(), 0);
}

TEST_F(FuseTest, DepthwiseConvolutionsTakePadBatchNormAndActivation) {
  const AttrMap attrs{{"T", DataType::kFloat},
                      {"strides", std::vector<int64_t>{1, 2, 2, 1}},
                      {"padding", std::string("VALID")}};
  Pad("p", {0, 0, 1, 1, 1, 1, 0, 0});
  Add("d", "DepthwiseConv2dNative", {"p", "w"}, attrs);
  Norm("n", "d", false);
  Add("y", "Relu6", {"n"});
  Add("alone", "DepthwiseConv2dNative", {"x", "w"}, attrs);
  Add("sum", "AddV2", {"alone", "r"});
  Add("out", "AddN", {"y", "sum"}, {{"T", DataType::kFloat}, {"N", 2}});
  EXPECT_EQ(Fuse(), 3);
  EXPECT_THAT(GraphText(graph_), HasSubstr("y = _FusedDepthwiseConv2dNative(x, w, b, b, b, b)"));
  EXPECT_THAT(GraphText(graph_), HasSubstr("sum = AddV2(alone, r)"));
  EXPECT_THAT(FusedOps("y"), testing::ElementsAre("FusedBatchNorm", "Relu6"));
  EXPECT_THAT(*graph_.FindNode("y")->Attr<std::vector<int64_t>>("margins"), testing::ElementsAre(1, 1, 1, 1));
}

TEST_F(FuseTest, OpsFusedByAnotherOptimiserStillRun) {
  Pad("p", {0, 0, 1, 1, 1, 1, 0, 0});
  Add("constant", "Const", {}, {{"dtype", DataType::kFloat}, {"value", Tensor::Scalar(1.0f)}});
  for (const std::string op : {"", "Relu"}) {
    std::vector<std::string> ops = {"BiasAdd"};
    if (!op.empty()) ops.push_back(op);
    Add("c" + op, "_FusedConv2D", {op.empty() ? "p" : "x", "constant", "b"},
        {{"T", DataType::kFloat},
         {"strides", std::vector<int64_t>{1, 1, 1, 1}},
         {"padding", std::string("VALID")},
         {"num_args", 1},
         {"fused_ops", ops}});
    Add("sum" + op, "AddV2", {"c" + op, "r"});
    Add("y" + op, "Relu6", {"sum" + op});
  }
  EXPECT_EQ(Fuse(), 3);
  EXPECT_THAT(GraphText(graph_), HasSubstr("y = _FusedConv2D(x, constant, b, r)"));
  EXPECT_THAT(FusedOps("y"), testing::ElementsAre("BiasAdd", "Add", "Relu6"));
  EXPECT_THAT(*graph_.FindNode("y")->Attr<std::vector<int64_t>>("margins"), testing::ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(GraphText(graph_), HasSubstr("sumRelu = AddV2(cRelu, r)"));
  EXPECT_THAT(FusedOps("cRelu"), testing::ElementsAre("BiasAdd", "Relu"));
  EXPECT_TRUE(*graph_.FindNode("cRelu")->Attr<bool>("keep_weights"));
  EXPECT_EQ(Fuse(), 0);
}

TEST_F(FuseTest, TheResidualIsAnArgument) {
  Conv("c");
  Add("biased", "BiasAdd", {"c", "b"});
  Add("sum", "Add", {"r", "biased"});
  Add("y", "Relu", {"sum"});
  EXPECT_EQ(Fuse(), 3);
  EXPECT_THAT(GraphText(graph_), HasSubstr("y = _FusedConv2D(x, w, b, r)"));
  EXPECT_THAT(FusedOps("y"), testing::ElementsAre("BiasAdd", "Add", "Relu"));
}

TEST_F(FuseTest, OnlySumsOfLoopsTakeProductsOfAddN) {
  Add("m", "MatMul", {"x", "w"});
  Add("sum", "AddN", {"r", "m"}, {{"T", DataType::kFloat}, {"N", 2}});
  EXPECT_EQ(Fuse(), 0);
}

TEST_F(FuseTest, TheProductsOfALoopsInputsAreAnArgument) {
  Add("size", "Placeholder", {}, {{"dtype", DataType::kInt32}});
  Add("array", "TensorArrayV3", {"size"}, {{"dtype", DataType::kFloat}});
  Add("read", "TensorArrayReadV3", {"array", "size", "array:1"}, {{"dtype", DataType::kFloat}});
  Add("m", "MatMul", {"x", "w"});
  Add("biased", "BiasAdd", {"m", "b"});
  Add("sum", "AddN", {"read", "biased"}, {{"T", DataType::kFloat}, {"N", 2}});
  EXPECT_EQ(Fuse(), 2);
  EXPECT_THAT(GraphText(graph_), HasSubstr("sum = _FusedMatMul(x, w, b, read)"));
  EXPECT_THAT(FusedOps("sum"), testing::ElementsAre("BiasAdd", "AddN"));
}

TEST_F(FuseTest, BatchNormOfInferenceIsFolded) {
  Conv("c");
  Norm("n", "c", /*training=*/false);
  Add("y", "Relu", {"n"});
  EXPECT_EQ(Fuse(), 2);
  EXPECT_THAT(GraphText(graph_), HasSubstr("y = _FusedConv2D(x, w, b, b, b, b)"));
  EXPECT_EQ(*graph_.FindNode("y")->Attr<float>("epsilon"), 0.5f);
}

TEST_F(FuseTest, BatchNormOfTrainingStays) {
  Conv("c");
  Norm("n", "c", /*training=*/true);
  EXPECT_EQ(Fuse(), 0);
}

TEST_F(FuseTest, BatchNormWhoseStatisticsAreUsedStays) {
  Conv("c");
  Norm("n", "c", /*training=*/false);
  Add("mean", "Neg", {"n:1"});
  EXPECT_EQ(Fuse(), 0);
}

TEST_F(FuseTest, ZerosAroundTheImageBecomeMargins) {
  Pad("p", {0, 0, 1, 2, 3, 4, 0, 0});
  Conv("y", "NHWC", "p", "VALID");
  EXPECT_EQ(Fuse(), 1);
  EXPECT_THAT(GraphText(graph_), HasSubstr("y = _FusedConv2D(x, w)"));
  EXPECT_THAT(*graph_.FindNode("y")->Attr<std::vector<int64_t>>("margins"), testing::ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(graph_.FindNode("p_amount"), nullptr);
}

TEST_F(FuseTest, OtherPaddingStays) {
  Pad("channels", {0, 0, 1, 1, 1, 1, 0, 1});
  Conv("y1", "NHWC", "channels", "VALID");
  Pad("rows", {0, 0, 0, 0, 1, 1, 1, 1});
  Conv("y2", "NHWC", "rows", "VALID");
  Pad("same", {0, 0, 1, 1, 1, 1, 0, 0});
  Conv("y3", "NHWC", "same", "SAME");
  Pad("shared", {0, 0, 1, 1, 1, 1, 0, 0});
  Conv("y4", "NHWC", "shared", "VALID");
  Add("other", "Neg", {"shared"});
  EXPECT_EQ(Fuse(), 0);
  EXPECT_THAT(GraphText(graph_), Not(HasSubstr("_FusedConv2D")));
}

TEST_F(FuseTest, OnlyWeightsThatAreNotOverwrittenAreKept) {
  Add("constant", "Const", {}, {{"dtype", DataType::kFloat}, {"value", Tensor::Scalar(1.0f)}});
  Add("variable", "VariableV2", {}, {{"dtype", DataType::kFloat}, {"shape", PartialShape()}});
  Add("read", "Identity", {"variable"});
  Add("made", "Neg", {"constant"});
  for (const std::string name : {"w", "constant", "read", "made"}) {
    Add("m_" + name, "MatMul", {"x", name});
    Add("y_" + name, "Relu", {"m_" + name});
  }
  EXPECT_EQ(Fuse(), 4);
  const auto kept = [&](const char* name) { return *graph_.FindNode(name)->Attr<bool>("keep_weights"); };
  EXPECT_FALSE(kept("y_w")) << "is fed";
  EXPECT_TRUE(kept("y_constant"));
  EXPECT_TRUE(kept("y_read"));
  EXPECT_FALSE(kept("y_made"));
}

TEST_F(FuseTest, ATensorWithTwoConsumersStays) {
  Add("m", "MatMul", {"x", "w"});
  Add("biased", "BiasAdd", {"m", "b"});
  Add("y", "Relu", {"biased"});
  Add("other", "Neg", {"biased"});
  EXPECT_EQ(Fuse(), 1);
  EXPECT_THAT(GraphText(graph_), HasSubstr("biased = _FusedMatMul(x, w, b)"));
  EXPECT_THAT(GraphText(graph_), HasSubstr("y = Relu(biased)"));
}

TEST_F(FuseTest, ASumWithItselfStays) {
  Add("m", "MatMul", {"x", "w"});
  Add("y", "Add", {"m", "m"});
  EXPECT_EQ(Fuse(), 0);
}

TEST_F(FuseTest, ControlEdgesInBetweenKeepNodesApart) {
  Add("m", "MatMul", {"x", "w"});
  Add("y", "Relu", {"m", "^r"});
  Add("m2", "MatMul", {"x", "w"});
  Add("y2", "Relu", {"m2"});
  Add("after", "Neg", {"r", "^m2"});
  EXPECT_EQ(Fuse(), 0);
}

TEST_F(FuseTest, ControlEdgesAtTheEndsAreKept) {
  Add("m", "MatMul", {"x", "w", "^r"});
  Add("y", "Relu", {"m"});
  Add("after", "Neg", {"r", "^y"});
  EXPECT_EQ(Fuse(), 1);
  EXPECT_THAT(GraphText(graph_), HasSubstr("y = _FusedMatMul(x, w, ^r)"));
  EXPECT_THAT(GraphText(graph_), HasSubstr("after = Neg(r, ^y)"));
}

TEST_F(FuseTest, NodesThatMustRunKeepTheirNames) {
  Add("m", "MatMul", {"x", "w"});
  Add("biased", "BiasAdd", {"m", "b"});
  Add("y", "Relu", {"biased"});
  options_.preserve = {"biased"};
  EXPECT_EQ(Fuse(), 1);
  EXPECT_THAT(GraphText(graph_), HasSubstr("biased = _FusedMatMul(x, w, b)"));
}

TEST_F(FuseTest, OtherDevicesAndDevicesWithoutTheKernelKeepTheirNodes) {
  Add("m", "MatMul", {"x", "w"});
  Add("y", "Relu", {"m"})->set_assigned_device("/job:localhost/replica:0/task:0/device:CPU:1");
  EXPECT_EQ(Fuse(), 0);
  Add("m2", "MatMul", {"x", "w"});
  Add("y2", "Relu", {"m2"});
  options_.has_kernel = [](std::string_view type, const NodeProps& props) {
    EXPECT_EQ(type, "CPU");
    return props.op->def.name != "_FusedMatMul";
  };
  EXPECT_EQ(Fuse(), 0);
}

TEST_F(FuseTest, OtherTypesAndLayoutsStay) {
  Add("xd", "Placeholder", {}, {{"dtype", DataType::kDouble}});
  Add("m", "MatMul", {"xd", "xd"}, {{"T", DataType::kDouble}});
  Add("y", "Relu", {"m"}, {{"T", DataType::kDouble}});
  Conv("c", "NCHW");
  Add("biased", "BiasAdd", {"c", "b"});
  EXPECT_EQ(Fuse(), 0);
}

}  // namespace
}  // namespace millrace
