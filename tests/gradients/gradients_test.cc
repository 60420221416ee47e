// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Every gradient is compared with central differences, in a session.
#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <map>
#include <set>
#include <string_view>

#include "autodiff/add_gradients.h"
#include "cases.h"
#include "gradient_checker.h"
#include "op/op_registry.h"
#include "ops/register.h"

namespace millrace {
namespace {

// The known part of the shapes when the gradients are built.
enum class Knowledge { kShapes, kRanks, kNothing };

PartialShape Known(const TensorShape& shape, Knowledge knowledge) {
  if (knowledge == Knowledge::kNothing) return PartialShape();
  if (knowledge == Knowledge::kShapes) return shape;
  return PartialShape(std::vector<int64_t>(static_cast<size_t>(shape.rank()), -1));
}

StatusOr<double> CheckCase(const GradientCase& c, Knowledge knowledge) {
  Graph graph(OpRegistry::Global());
  ShapeRefiner shapes(graph);
  GraphBuilder builder(graph, shapes);
  std::vector<Point> points;
  std::vector<Expr> xs;
  for (const Tensor& x : c.xs) {
    const AttrMap attrs = {{"dtype", x.dtype()}, {"shape", Known(x.shape(), knowledge)}};
    xs.emplace_back(builder, Output{builder.Add("Placeholder", {}, attrs, "x"), 0});
    points.push_back({xs.back().output(), x});
  }
  std::vector<Output> ys;
  for (const Expr& y : c.ys(builder, xs)) ys.push_back(y.output());
  MR_RETURN_IF_ERROR(builder.status());
  CheckOptions options;
  options.delta = c.delta;
  options.second = c.second;
  options.shapes = knowledge == Knowledge::kShapes;
  options.fold = knowledge != Knowledge::kNothing;
  return MaxGradientError(graph, points, ys, options);
}

class GradientTest : public testing::TestWithParam<GradientCase> {};

// The handles of these arrays are names, which other tasks do not have: programs colocate the nodes.
bool HasNamedHandles(std::string_view name) {
  return name.starts_with("TensorArray") && name.find("V2") != name.npos;
}

TEST_P(GradientTest, AgreesWithDifferences) {
  const char* const config = std::getenv("MILLRACE_TEST_CONFIG");
  if (config != nullptr && std::string_view(config).starts_with("cluster") && HasNamedHandles(GetParam().op))
    GTEST_SKIP() << "handles that are names do not travel";
  for (const auto& [knowledge, name] : {std::pair(Knowledge::kShapes, "shapes known"),
                                        {Knowledge::kRanks, "ranks known"},
                                        {Knowledge::kNothing, "nothing known"}}) {
    const auto error = CheckCase(GetParam(), knowledge);
    ASSERT_TRUE(error.ok()) << name << ": " << error.status();
    EXPECT_LT(*error, GetParam().tolerance) << name;
  }
}

std::string TestName(const testing::TestParamInfo<GradientCase>& info) {
  std::string name = StrCat(info.param.op, "_", info.param.label, "_", info.index);
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, GradientTest, testing::ValuesIn(AllGradientCases()), TestName);

// Tested in other files.
const std::set<std::string>& TestedElsewhere() {
  static const auto* const ops = new std::set<std::string>{
      // tests/session/function_gradient_test.cc
      "Case", "If", "PartitionedCall", "StatefulPartitionedCall", "StatelessIf", "StatelessWhile",
      "SymbolicGradient", "While", "_ArrayToList", "_ListToArray", "PreventGradient", "ReadVariableOp",
      "ResourceGatherNd",      // gradient_variables_test.cc
      "ResourceGather",        // gradient_variables_test.cc
      "RefIdentity",           // gradient_variables_test.cc
      "MatrixSolveLs", "Svd",  // matrix_gradients_test.cc
                               // tests/session/while_gradient_test.cc
      "Merge", "RefMerge", "RefSwitch", "Switch"};
  return *ops;
}

// They have a derivative that can't be built yet.
const std::set<std::string>& NotYet() {
  static const auto* const ops = new std::set<std::string>{
      "For", "RemoteCall", "_WhileGrad",
      // Nor does TensorFlow 1.x have one.
      "Dequantize", "QuantizeV2", "AudioSpectrogram", "Mfcc", "BlockLSTMGrad", "BlockLSTMGradV2",
      "GRUBlockCellGrad", "LSTMBlockCellGrad", "BatchCholeskyGrad", "BatchMatrixSolveLs",
      "BatchSelfAdjointEig", "BatchSelfAdjointEigV2", "BatchSvd", "CholeskyGrad", "Lu", "MatrixExponential",
      "MatrixLogarithm", "SelfAdjointEig", "AdjustContrastv2", "AdjustHue", "AdjustSaturation",
      "Dilation2DBackpropFilter", "Dilation2DBackpropInput", "BatchNormWithGlobalNormalizationGrad",
      "Conv3DBackpropFilter", "Conv3DBackpropInput", "FractionalAvgPoolGrad", "FractionalMaxPoolGrad",
      "FakeQuantWithMinMaxArgsGradient", "FakeQuantWithMinMaxVarsGradient",
      "FakeQuantWithMinMaxVarsPerChannelGradient", "FusedPadConv2D", "FusedResizeAndPadConv2D", "LRNGrad",
      "MaxPoolGradGradWithArgmax", "ResizeArea", "ScaleAndTranslateGrad", "TileGrad", "AdjustContrast",
      "Copy", "CopyHost", "DebugGradientIdentity", "DebugGradientRefIdentity", "DebugIdentity",
      "DebugNanCount", "DebugNumericSummary", "QuantizeDownAndShrinkRange", "QuantizedAdd",
      "QuantizedAvgPool", "QuantizedBatchNormWithGlobalNormalization", "QuantizedBiasAdd", "QuantizedConcat",
      "QuantizedConv2D", "QuantizedInstanceNorm", "QuantizedMatMul", "QuantizedMaxPool", "QuantizedMul",
      "QuantizedRelu", "QuantizedRelu6", "QuantizedReshape", "QuantizedResizeBilinear", "RequantizationRange",
      "Requantize", "RaggedTensorToTensor",
      // Loops are differentiated as a whole.
      "Enter", "Exit", "NextIteration", "RefEnter", "RefExit", "RefNextIteration"};
  return *ops;
}

TEST(GradientCoverageTest, EveryOpHasAnEntryAndEveryGradientATest) {
  std::set<std::string> tested = TestedElsewhere();
  for (const GradientCase& c : AllGradientCases()) tested.insert(c.op);
  for (const OpRegistration* op : OpRegistry::Global().All()) {
    const std::string& name = op->def.name;
    const auto entry = GradientRegistry::Global().LookUp(name);
    EXPECT_EQ(entry.ok(), !NotYet().contains(name)) << name;
    const bool has_gradient = entry.ok() && (*entry)->fn != nullptr;
    EXPECT_EQ(has_gradient, tested.contains(name)) << name;
  }
}

TEST(GradientCoverageTest, CasesAreInTheFamiliesOfTheirOps) {
  std::map<std::string, std::string> families;
  for (const OpFamily& family : OpFamilies()) {
    OpRegistry registry;
    ASSERT_EQ(family.register_ops(registry), Status());
    for (const OpRegistration* op : registry.All()) families[op->def.name] = family.name;
  }
  for (const GradientCase& c : AllGradientCases()) EXPECT_EQ(families[c.op], c.family) << c.op;
}

TEST(GradientCoverageTest, EveryEntryIsOfAnOpThatExists) {
  for (const std::string& name : GradientRegistry::Global().Ops()) {
    EXPECT_TRUE(OpRegistry::Global().LookUp(name).ok()) << name;
  }
}

}  // namespace
}  // namespace millrace
