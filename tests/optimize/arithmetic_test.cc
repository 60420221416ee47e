// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Rewrites of arithmetic for all ops: the resulting graph, and its results.
#include "compile/optimize/arithmetic.h"

#include <functional>
#include <set>
#include <span>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile/pipeline.h"
#include "graph/testing.h"
#include "millrace/session.h"
#include "tensor/testing.h"

namespace millrace {
namespace {

constexpr DataType kFloat = DataType::kFloat;
constexpr DataType kInt = DataType::kInt32;

// Builds a graph that ends in a node "y", over x (float [2,3], fed), i (int32 [2,3], fed) and u (float, of
// unknown shape, fed).
class Builder {
 public:
  explicit Builder(Graph* graph) : graph_(graph) {
    Add("x", "Placeholder", {}, {{"dtype", kFloat}, {"shape", PartialShape({2, 3})}});
    Add("i", "Placeholder", {}, {{"dtype", kInt}, {"shape", PartialShape({2, 3})}});
    Add("u", "Placeholder", {}, {{"dtype", kFloat}});
  }
  void Add(std::string_view name, std::string_view op, const std::vector<std::string>& inputs,
           AttrMap attrs = {}) {
    AddTestNode(graph_, name, op, inputs, std::move(attrs));
  }
  void Float(std::string_view name, std::string_view op, const std::vector<std::string>& inputs,
             AttrMap attrs = {}) {
    attrs.Set("T", kFloat);
    Add(name, op, inputs, std::move(attrs));
  }
  void Int(std::string_view name, std::string_view op, const std::vector<std::string>& inputs,
           AttrMap attrs = {}) {
    attrs.Set("T", kInt);
    Add(name, op, inputs, std::move(attrs));
  }
  void Const(std::string_view name, const Tensor& value, const std::vector<std::string>& inputs = {}) {
    Add(name, "Const", inputs, {{"dtype", value.dtype()}, {"value", value}});
  }
  void F(std::string_view name, float value) { Const(name, Tensor::Scalar(value)); }
  void I(std::string_view name, int32_t value) { Const(name, Tensor::Scalar(value)); }
  void Indices(std::string_view name, const std::vector<int32_t>& values) {
    Const(name, Tensor::Vector<int32_t>(values));
  }

 private:
  Graph* const graph_;
};

Tensor X() { return Tensor::From<float>({1, -2, 3, 0, -5.5, 6}, {2, 3}); }
Tensor I() { return Tensor::From<int32_t>({1, -2, 3, 0, -5, 6}, {2, 3}); }
Tensor U() { return Tensor::From<float>({1, 2, 3, 4}, {4}); }

struct Case {
  const char* name;
  std::function<void(Builder&)> build;
  // The node that "result", an Identity of "y", finally reads, as an expression: "x", "Sub(x, u)".
  const char* expected;
  bool reassociate = false;
  double tolerance = 0;
};

std::string Describe(const Node& node, int output) {
  if (node.num_inputs() == 0) {
    if (node.op_name() != "Const") return node.name();
    const Tensor value = *node.Attr<Tensor>("value");
    std::string text = value.DebugString();
    const size_t at = text.find("values: ");
    text = text.substr(at + 8, text.size() - at - 9);
    return value.rank() == 0 ? text : "[" + text + "]";
  }
  std::string text = node.op_name() + "(";
  for (int i = 0; i < node.num_inputs(); ++i) {
    const Edge* edge = node.in_edges()[static_cast<size_t>(i)];
    text += (i == 0 ? "" : ", ") + Describe(*edge->src, edge->src_output);
  }
  for (const Edge* edge : node.control_in_edges()) {
    if (edge->src->IsOp()) text += ", ^" + edge->src->name();
  }
  return text + ")" + (output == 0 ? "" : ":" + std::to_string(output));
}

class ArithmeticTest : public testing::TestWithParam<Case> {};

TEST_P(ArithmeticTest, RewritesAndComputesTheSame) {
  const Case& c = GetParam();
  Graph graph(OpRegistry::Global());
  Builder builder(&graph);
  c.build(builder);
  const Node* y = graph.FindNode("y");
  ASSERT_NE(y, nullptr);
  builder.Add("result", "Identity", {"y"}, {{"T", y->output_type(0)}});
  graph.FixupSourceAndSinkEdges();
  const auto run = [&] {
    SessionOptions session_options;
    session_options.disabled_passes = {"all"};
    auto session = NewSession(session_options);
    EXPECT_TRUE(session.ok() && (*session)->ExtendFrom(graph).ok());
    std::vector<Tensor> outputs;
    const Status status = (*session)->Run({{"x", X()}, {"i", I()}, {"u", U()}}, {"result"}, {}, &outputs);
    EXPECT_TRUE(status.ok()) << status;
    return outputs.empty() ? Tensor() : outputs[0];
  };
  const Tensor before = run();
  CompileOptions compile;
  compile.aggressive_arithmetic = c.reassociate;
  OptimizeOptions options{compile};
  options.preserve = {"result", "x", "i", "u"};
  for (int round = 0; round < 3; ++round) {
    const auto changes = SimplifyArithmetic(&graph, options);
    ASSERT_TRUE(changes.ok()) << changes.status();
    ASSERT_TRUE(graph.Validate().ok()) << graph.Validate();
  }
  const Edge* edge = graph.FindNode("result")->in_edges()[0];
  EXPECT_EQ(Describe(*edge->src, edge->src_output), c.expected);
  EXPECT_TRUE(TensorsNear(before, run(), c.tolerance, c.tolerance));
}

// Units and absorbers.
const Case kUnits[] = {
    {"SumWithZero",
     [](Builder& b) {
       b.F("c", 0);
       b.Float("y", "Add", {"x", "c"});
     },
     "x"},
    {"ZeroOnTheLeft",
     [](Builder& b) {
       b.F("c", 0);
       b.Float("y", "AddV2", {"c", "x"});
     },
     "x"},
    {"DifferenceFromZero",
     [](Builder& b) {
       b.F("c", 0);
       b.Float("y", "Sub", {"x", "c"});
     },
     "x"},
    {"ZeroMinusStays",
     [](Builder& b) {
       b.F("c", 0);
       b.Float("y", "Sub", {"c", "x"});
     },
     "Sub(0, x)"},
    {"ProductWithOne",
     [](Builder& b) {
       b.F("c", 1);
       b.Float("y", "Mul", {"x", "c"});
     },
     "x"},
    {"QuotientByOne",
     [](Builder& b) {
       b.F("c", 1);
       b.Float("y", "RealDiv", {"x", "c"});
     },
     "x"},
    {"UnitOfLargerShapeStays",
     [](Builder& b) {
       b.Const("c", Tensor::From<float>({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, {2, 2, 3}));
       b.Float("y", "Add", {"x", "c"});
     },
     "Add(x, [[0 0 0][0 0 0][0 0 0][0...])"},
    {"UnitOfTheSameShape",
     [](Builder& b) {
       b.Const("c", Tensor::From<float>({1, 1, 1}, {3}));
       b.Float("y", "Mul", {"x", "c"});
     },
     "x"},
    {"UnitBesideAnUnknownShape",
     [](Builder& b) {
       b.Const("c", Tensor::From<float>({1}, {1}));
       b.Float("y", "Mul", {"u", "c"});
     },
     "Mul(u, [1])"},
    {"IntegersTimesZero",
     [](Builder& b) {
       b.I("c", 0);
       b.Int("y", "Mul", {"i", "c"});
     },
     "[[0 0 0][0 0 0]]"},
    {"FloatsTimesZeroStay",
     [](Builder& b) {
       b.F("c", 0);
       b.Float("y", "Mul", {"x", "c"});
     },
     "Mul(x, 0)"},
    {"FloatsTimesZeroWhenAllowed",
     [](Builder& b) {
       b.F("c", 0);
       b.Float("y", "Mul", {"x", "c"});
     },
     "[[0 0 0][0 0 0]]", true},
    {"AndFalse",
     [](Builder& b) {
       b.I("z", 0);
       b.Int("p", "Less", {"i", "z"});
       b.Const("c", Tensor::Scalar(false));
       b.Add("y", "LogicalAnd", {"p", "c"});
     },
     "[[0 0 0][0 0 0]]"},
    {"OrFalse",
     [](Builder& b) {
       b.I("z", 0);
       b.Int("p", "Less", {"i", "z"});
       b.Const("c", Tensor::Scalar(false));
       b.Add("y", "LogicalOr", {"c", "p"});
     },
     "Less(i, 0)"},
};

const Case kLaws[] = {
    {"DoubleNegative",
     [](Builder& b) {
       b.Float("n", "Neg", {"x"});
       b.Float("y", "Neg", {"n"});
     },
     "x"},
    {"AbsOfAbs",
     [](Builder& b) {
       b.Float("n", "Abs", {"x"});
       b.Float("y", "Abs", {"n"});
     },
     "Abs(x)"},
    {"MaximumOfEquals",
     [](Builder& b) {
       b.Float("y", "Maximum", {"x", "x"});
     },
     "x"},
    {"SumOverNothing",
     [](Builder& b) {
       b.Indices("c", {});
       b.Float("y", "Sum", {"x", "c"});
     },
     "x"},
    {"MeanOverOnes",
     [](Builder& b) {
       b.Indices("s", {2, 1, 3});
       b.Float("r", "Reshape", {"x", "s"});
       b.Indices("c", {1});
       b.Float("y", "Mean", {"r", "c"}, {{"keep_dims", true}});
     },
     "Reshape(x, [2 1 3])"},
    {"SumStays",
     [](Builder& b) {
       b.Indices("c", {0});
       b.Float("y", "Sum", {"x", "c"});
     },
     "Sum(x, [0])"},
    {"TileOnce",
     [](Builder& b) {
       b.Indices("c", {1, 1});
       b.Float("y", "Tile", {"x", "c"});
     },
     "x"},
    {"PadNothing",
     [](Builder& b) {
       b.Const("c", Tensor::From<int32_t>({0, 0, 0, 0}, {2, 2}));
       b.Float("y", "Pad", {"x", "c"});
     },
     "x"},
};

const Case kArrangement[] = {
    {"TransposeToTheSame",
     [](Builder& b) {
       b.Indices("p", {0, 1});
       b.Float("y", "Transpose", {"x", "p"});
     },
     "x"},
    {"TransposeAndBack",
     [](Builder& b) {
       b.Indices("p", {1, 0});
       b.Float("t", "Transpose", {"x", "p"});
       b.Float("y", "Transpose", {"t", "p"});
     },
     "x"},
    {"TwoTransposesAreOne",
     [](Builder& b) {
       b.Indices("s", {1, 2, 3});
       b.Float("r", "Reshape", {"x", "s"});
       b.Indices("p", {1, 2, 0});
       b.Float("t", "Transpose", {"r", "p"});
       b.Float("y", "Transpose", {"t", "p"});
     },
     "Transpose(Reshape(x, [1 2 3]), [2 0 1])"},
    {"ReshapeToTheSame",
     [](Builder& b) {
       b.Indices("s", {2, 3});
       b.Float("y", "Reshape", {"x", "s"});
     },
     "x"},
    {"TwoReshapesAreOne",
     [](Builder& b) {
       b.Indices("s", {6});
       b.Float("r", "Reshape", {"x", "s"});
       b.Indices("t", {3, 2});
       b.Float("y", "Reshape", {"r", "t"});
     },
     "Reshape(x, [3 2])"},
    {"ReshapeAndBack",
     [](Builder& b) {
       b.Indices("s", {6});
       b.Float("r", "Reshape", {"x", "s"});
       b.Indices("t", {2, 3});
       b.Float("y", "Reshape", {"r", "t"});
     },
     "x"},
    {"CastThereAndBack",
     [](Builder& b) {
       b.Add("d", "Cast", {"x"}, {{"SrcT", kFloat}, {"DstT", DataType::kDouble}});
       b.Add("y", "Cast", {"d"}, {{"SrcT", DataType::kDouble}, {"DstT", kFloat}});
     },
     "x"},
    {"CastThatLosesStays",
     [](Builder& b) {
       b.Add("d", "Cast", {"x"}, {{"SrcT", kFloat}, {"DstT", kInt}});
       b.Add("y", "Cast", {"d"}, {{"SrcT", kInt}, {"DstT", kFloat}});
     },
     "Cast(Cast(x))"},
    {"CastByAWiderTypeIsOne",
     [](Builder& b) {
       b.Add("d", "Cast", {"i"}, {{"SrcT", kInt}, {"DstT", DataType::kInt64}});
       b.Add("y", "Cast", {"d"}, {{"SrcT", DataType::kInt64}, {"DstT", DataType::kUint8}});
     },
     "Cast(i)"},
    {"IntegerByFloatStays",
     [](Builder& b) {
       b.Add("d", "Cast", {"i"}, {{"SrcT", kInt}, {"DstT", kFloat}});
       b.Add("y", "Cast", {"d"}, {{"SrcT", kFloat}, {"DstT", kInt}});
     },
     "Cast(Cast(i))"},
    {"ReverseTwice",
     [](Builder& b) {
       b.Indices("a", {0});
       b.Float("r", "ReverseV2", {"x", "a"});
       b.Float("y", "ReverseV2", {"r", "a"});
     },
     "x"},
    {"ReverseOfAnotherAxisStays",
     [](Builder& b) {
       b.Indices("a", {0});
       b.Indices("c", {1});
       b.Float("r", "ReverseV2", {"x", "a"});
       b.Float("y", "ReverseV2", {"r", "c"});
     },
     "ReverseV2(ReverseV2(x, [0]), [1])"},
    {"UnpackOfPack",
     [](Builder& b) {
       b.Float("n", "Neg", {"x"});
       b.Float("p", "Pack", {"x", "n"}, {{"N", 2}, {"axis", 1}});
       b.Float("q", "Unpack", {"p"}, {{"num", 2}, {"axis", 1}});
       b.Float("y", "Identity", {"q:1"});
     },
     "Identity(Neg(x))"},
    {"PackOfUnpack",
     [](Builder& b) {
       b.Float("q", "Unpack", {"x"}, {{"num", 2}, {"axis", 0}});
       b.Float("y", "Pack", {"q", "q:1"}, {{"N", 2}, {"axis", 0}});
     },
     "x"},
    {"PackInAnotherOrderStays",
     [](Builder& b) {
       b.Float("q", "Unpack", {"x"}, {{"num", 2}, {"axis", 0}});
       b.Float("y", "Pack", {"q:1", "q"}, {{"N", 2}, {"axis", 0}});
     },
     "Pack(Unpack(x):1, Unpack(x))"},
    {"SliceOfAll",
     [](Builder& b) {
       b.Indices("a", {0, 0});
       b.Indices("s", {-1, 3});
       b.Float("y", "Slice", {"x", "a", "s"}, {{"Index", kInt}});
     },
     "x"},
};

const Case kSums[] = {
    {"MinusANegative",
     [](Builder& b) {
       b.F("c", 3);
       b.Float("n", "Neg", {"u"});
       b.Float("y", "Sub", {"c", "n"});
     },
     "Add(3, u)"},
    {"PlusANegative",
     [](Builder& b) {
       b.F("c", 3);
       b.Float("n", "Neg", {"u"});
       b.Float("y", "Add", {"n", "c"});
     },
     "Sub(3, u)"},
    {"ConstantsOfIntegers",
     [](Builder& b) {
       b.I("c", 3);
       b.I("d", 4);
       b.Int("s", "Add", {"i", "c"});
       b.Int("y", "Add", {"d", "s"});
     },
     "Add(i, Add(4, 3))"},
    {"ConstantsOfFloatsStay",
     [](Builder& b) {
       b.F("c", 3);
       b.F("d", 4);
       b.Float("s", "Add", {"x", "c"});
       b.Float("y", "Add", {"d", "s"});
     },
     "Add(4, Add(x, 3))"},
    {"ConstantsOfFloatsWhenAllowed",
     [](Builder& b) {
       b.F("c", 3);
       b.F("d", 4);
       b.Float("s", "Mul", {"x", "c"});
       b.Float("y", "Mul", {"s", "d"});
     },
     "Mul(x, Mul(4, 3))", true, 1e-6},
    {"ConstantsOfMaxima",
     [](Builder& b) {
       b.F("c", 3);
       b.F("d", 4);
       b.Float("s", "Maximum", {"x", "c"});
       b.Float("y", "Maximum", {"d", "s"});
     },
     "Maximum(x, Maximum(4, 3))"},
    {"CommonFactorOfIntegers",
     [](Builder& b) {
       b.I("c", 12);
       b.I("d", 2);
       b.Int("p", "Mul", {"i", "c"});
       b.Int("q", "Mul", {"d", "i"});
       b.Int("y", "Add", {"p", "q"});
     },
     "Mul(i, Add(12, 2))"},
    {"CommonFactorOfFloatsStays",
     [](Builder& b) {
       b.F("c", 12);
       b.F("d", 2);
       b.Float("p", "Mul", {"x", "c"});
       b.Float("q", "Mul", {"d", "x"});
       b.Float("y", "Add", {"p", "q"});
     },
     "Add(Mul(x, 12), Mul(2, x))"},
    {"CommonFactorOfFloatsWhenAllowed",
     [](Builder& b) {
       b.F("c", 12);
       b.F("d", 2);
       b.Float("p", "Mul", {"x", "c"});
       b.Float("q", "Mul", {"d", "x"});
       b.Float("y", "Sub", {"p", "q"});
     },
     "Mul(x, Sub(12, 2))", true, 1e-6},
    {"SumOfOne",
     [](Builder& b) {
       b.Float("y", "AddN", {"x"}, {{"N", 1}});
     },
     "x"},
    {"SumOfEqualTerms",
     [](Builder& b) {
       b.Float("y", "AddN", {"x", "x", "x"}, {{"N", 3}});
     },
     "Mul(x, 3)"},
    {"ManyEqualFloatsStay",
     [](Builder& b) {
       b.Float("y", "AddN", {"x", "x", "x", "x"}, {{"N", 4}});
     },
     "AddN(x, x, x, x)"},
    {"SumOfSums",
     [](Builder& b) {
       b.Int("n", "Neg", {"i"});
       b.Int("s", "AddN", {"i", "n"}, {{"N", 2}});
       b.Int("y", "AddN", {"s", "i"}, {{"N", 2}});
     },
     "AddN(i, Neg(i), i)"},
    {"Square",
     [](Builder& b) {
       b.F("c", 2);
       b.Float("y", "Pow", {"x", "c"});
     },
     "Square(x)", false, 1e-6},
    {"FirstPower",
     [](Builder& b) {
       b.F("c", 1);
       b.Float("y", "Pow", {"x", "c"});
     },
     "x"},
    {"RootStays",
     [](Builder& b) {
       b.F("c", 0.5);
       b.Float("y", "Pow", {"u", "c"});
     },
     "Pow(u, 0.5)"},
    {"RootWhenAllowed",
     [](Builder& b) {
       b.F("c", 0.5);
       b.Float("y", "Pow", {"u", "c"});
     },
     "Sqrt(u)", true, 1e-6},
    {"QuotientByAPowerOfTwo",
     [](Builder& b) {
       b.F("c", -8);
       b.Float("y", "RealDiv", {"x", "c"});
     },
     "Mul(x, -0.125)"},
    {"QuotientByThreeStays",
     [](Builder& b) {
       b.F("c", 3);
       b.Float("y", "RealDiv", {"x", "c"});
     },
     "RealDiv(x, 3)"},
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const auto& table : {std::span<const Case>(kUnits), std::span<const Case>(kLaws),
                            std::span<const Case>(kArrangement), std::span<const Case>(kSums)}) {
    cases.insert(cases.end(), table.begin(), table.end());
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, ArithmeticTest, testing::ValuesIn(Cases()),
                         [](const auto& test) { return test.param.name; });

TEST(TransposedContractionTest, FlagsTakeThePlaceOfTransposes) {
  Graph graph(OpRegistry::Global());
  Builder b(&graph);
  b.Indices("p", {1, 0});
  b.Float("t", "Transpose", {"x", "p"});
  b.Float("y", "MatMul", {"t", "x"}, {{"transpose_a", false}});
  b.Add("result", "Identity", {"y"}, {{"T", kFloat}});
  graph.FixupSourceAndSinkEdges();
  const CompileOptions compile;
  OptimizeOptions options{compile};
  options.preserve = {"result"};
  ASSERT_EQ(*SimplifyArithmetic(&graph, options), 1);
  const Node* y = graph.FindNode("result")->in_edges()[0]->src;
  EXPECT_EQ(Describe(*y, 0), "MatMul(x, x)");
  EXPECT_TRUE(*y->Attr<bool>("transpose_a"));
  EXPECT_FALSE(*y->Attr<bool>("transpose_b"));
}

TEST(ArithmeticWaitsTest, WhatWasWaitedForStillIs) {
  Graph graph(OpRegistry::Global());
  Builder b(&graph);
  b.Const("c", Tensor::Scalar(0.f), {"^u"});
  b.Float("y", "Add", {"x", "c", "^i"});
  b.Float("z", "Neg", {"y"});
  b.Add("result", "Identity", {"z"}, {{"T", kFloat}});
  graph.FixupSourceAndSinkEdges();
  const CompileOptions compile;
  OptimizeOptions options{compile};
  options.preserve = {"result"};
  ASSERT_EQ(*SimplifyArithmetic(&graph, options), 1);
  const Node* z = graph.FindNode("result")->in_edges()[0]->src;
  EXPECT_EQ(Describe(*z, 0), "Neg(x, ^i, ^c)");
}

}  // namespace
}  // namespace millrace
