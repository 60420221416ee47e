// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/fold.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile/testing.h"
#include "graph/testing.h"

namespace millrace {
namespace {

using testing::HasSubstr;
using testing::Not;

const AttrMap kFloat = {{"T", DataType::kFloat}};

class FoldTest : public testing::Test {
 protected:
  FoldTest() {
    options_.evaluator = &evaluator_;
    options_.has_kernel = FakeKernels({});
    options_.client_device = "/cpu:0";
  }
  Node* Add(std::string_view name, std::string_view op, const std::vector<std::string>& inputs = {},
            AttrMap attrs = {}) {
    return AddTestNode(&graph_, name, op, inputs, std::move(attrs));
  }
  Node* Const(std::string_view name, float value) {
    return Add(name, "Const", {}, {{"dtype", DataType::kFloat}, {"value", Tensor::Scalar(value)}});
  }
  void Placeholder(std::string_view name, const PartialShape& shape = {}) {
    Add(name, "Placeholder", {}, {{"dtype", DataType::kFloat}, {"shape", shape}});
  }
  void Retval(const std::string& input, int index = 0) {
    Add(StrCat("ret", index), "_Retval", {input}, {{"T", DataType::kFloat}, {"index", index}});
  }
  int Fold() {
    graph_.FixupSourceAndSinkEdges();
    const auto shapes = MaterializeShapes(&graph_, options_);
    EXPECT_TRUE(shapes.ok()) << shapes.status();
    const auto folded = FoldConstants(&graph_, options_);
    EXPECT_TRUE(folded.ok()) << folded.status();
    EXPECT_TRUE(graph_.Validate().ok()) << graph_.Validate();
    return shapes.value_or(-1) + folded.value_or(-1);
  }
  std::string Value(std::string_view name) {
    const Node* node = graph_.FindNode(name);
    return node == nullptr ? "none" : node->Attr<Tensor>("value")->DebugString();
  }

  Graph graph_{TestOps()};
  FakeEvaluator evaluator_;
  CompileOptions compile_;
  OptimizeOptions options_{compile_};
};

TEST_F(FoldTest, ComputationOfConstantsBecomesOneConstant) {
  Placeholder("x");
  Const("a", 3);
  Const("b", 1);
  Add("sum", "Add", {"a", "b"});
  Add("diff", "Sub", {"sum", "a"});
  Add("y", "Add", {"x", "diff"});
  Retval("y");
  graph_.FindNode("diff")->set_assigned_device("/cpu:1");
  EXPECT_EQ(Fold(), 1);
  EXPECT_EQ(
      GraphText(graph_),
      "x = Placeholder()\ny = Add(x, diff/__cf__0)\nret0 = _Retval(y)\ndiff/__cf__0 = Const() @/cpu:1\n");
  EXPECT_EQ(Value("diff/__cf__0"), "Tensor<type: float shape: [] values: 1>");
  EXPECT_EQ(evaluator_.calls, 1);
  EXPECT_THAT(evaluator_.last_graph, HasSubstr("_retval_diff_0_0 = _Retval(diff) @/cpu:0"));
}

TEST_F(FoldTest, WithoutWorkNothingIsCalled) {
  Placeholder("x");
  Const("a", 3);
  Add("y", "Add", {"x", "a"});
  Retval("y");
  const std::string before = GraphText(graph_);
  EXPECT_EQ(Fold(), 0);
  EXPECT_EQ(GraphText(graph_), before);
  EXPECT_EQ(evaluator_.calls, 0);
}

TEST_F(FoldTest, EveryOutputThatIsUsedIsFoldedOnce) {
  Placeholder("x");
  Const("a", 3);
  Add("s", "Split", {"a"}, {{"n", 3}});
  Add("y", "Add", {"s:2", "x"});
  Add("z", "Add", {"s:2", "s:1"});
  Add("w", "Add", {"y", "z"});
  Retval("w");
  EXPECT_EQ(Fold(), 2);
  EXPECT_EQ(graph_.FindNode("s"), nullptr);
  EXPECT_EQ(Value("s/__cf__2"), "Tensor<type: float shape: [] values: 5>");
  EXPECT_EQ(Value("z/__cf__0"), "Tensor<type: float shape: [] values: 9>");
}

TEST_F(FoldTest, WhatCantBeEvaluatedStaysAsItWas) {
  Const("a", 3);
  Add("n", "Neg", {"a"});
  Retval("n");
  const std::string before = GraphText(graph_);
  evaluator_.error = errors::InvalidArgument("division by zero");
  EXPECT_EQ(Fold(), 0);
  EXPECT_EQ(GraphText(graph_), before);
}

TEST_F(FoldTest, StatefulUnfoldableAndKernellessNodesStay) {
  Add("dims", "Const", {}, {{"dtype", DataType::kInt32}, {"value", Tensor::Vector<int32_t>({})}});
  Add("r", "RandomUniform", {"dims"});
  Placeholder("p");
  Const("a", 3);
  Add("g", "GpuOnly", {"a"});
  Add("v", "VariableV2");
  Add("as", "Assign", {"v", "a"});
  Retval("r", 0);
  Retval("p", 1);
  Retval("g", 2);
  EXPECT_EQ(Fold(), 0);
  EXPECT_EQ(evaluator_.calls, 0);
}

TEST_F(FoldTest, AConstantWaitsForWhatItsComputationWaitedFor) {
  Placeholder("x");
  Const("a", 3);
  graph_.AddControlEdge(graph_.FindNode("x"), graph_.FindNode("a"));
  Placeholder("y");
  Add("n", "Neg", {"a", "^y"});
  Add("m", "Neg", {"n"});
  Add("after", "NoOp", {"^m"});
  Retval("m");
  EXPECT_EQ(Fold(), 1);
  EXPECT_EQ(GraphText(graph_),
            "x = Placeholder()\ny = Placeholder()\nafter = NoOp(^m/__cf__0)\nret0 = _Retval(m/__cf__0)\n"
            "m/__cf__0 = Const(^x, ^y)\n");
  EXPECT_THAT(Value("m/__cf__0"), HasSubstr("values: 3"));
}

TEST_F(FoldTest, AConstantThatWaitsForTooMuchStays) {
  Const("a", 3);
  std::vector<std::string> inputs = {"a"};
  for (int i = 0; i < 9; ++i) {
    Placeholder(StrCat("x", i));
    inputs.push_back(StrCat("^x", i));
  }
  Add("n", "Neg", inputs);
  Retval("n");
  EXPECT_EQ(Fold(), 0);
}

TEST_F(FoldTest, NoNodeWaitsForAConstant) {
  Const("a", 3);
  Add("n", "Neg", {"a"});
  Add("after", "NoOp", {"^n"});
  Retval("n");
  EXPECT_EQ(Fold(), 1);
  EXPECT_EQ(graph_.FindNode("n"), nullptr);
  EXPECT_NE(graph_.FindNode("after"), nullptr);
}

TEST_F(FoldTest, LargeResultsAreNotKept) {
  Const("a", 3);
  Add("dims", "Const", {},
      {{"dtype", DataType::kInt32}, {"value", Tensor::Vector<int32_t>({1000000000, 1000})}});
  Add("f", "Fill", {"dims", "a"});
  Retval("f");
  EXPECT_EQ(Fold(), 0);
  EXPECT_EQ(evaluator_.calls, 0) << "known to be too large before it is computed";
  compile_.max_folded_constant_bytes = 3;
  Add("n", "Neg", {"a"});
  Retval("n", 1);
  EXPECT_EQ(Fold(), 0);
}

TEST_F(FoldTest, WhatMayBeAnySizeWaitsUntilItsSizeIsKnown) {
  Const("a", 3);
  Add("minus", "Const", {},
      {{"dtype", DataType::kInt32}, {"value", Tensor::Vector<int32_t>({-1000000000, -1000})}});
  Add("dims", "Neg", {"minus"}, {{"T", DataType::kInt32}});
  Add("f", "Fill", {"dims", "a"});
  Retval("f");
  Fold();
  EXPECT_THAT(evaluator_.last_graph, HasSubstr("Neg"));
  EXPECT_THAT(evaluator_.last_graph, Not(HasSubstr("Fill")));
}

// All computed values may be in memory at once.
TEST_F(FoldTest, WhatIsComputedAtATimeHasALimit) {
  compile_.max_folded_constant_bytes = 4;
  Const("a", 3);
  for (int i = 0; i < 100; ++i) Add(StrCat("n", i), "Sub", {i == 0 ? "a" : StrCat("n", i - 1), "a"});
  Retval("n99");
  EXPECT_EQ(Fold(), 1);
  EXPECT_THAT(evaluator_.last_graph, HasSubstr("n63 = "));
  EXPECT_THAT(evaluator_.last_graph, Not(HasSubstr("n64 = ")));
  EXPECT_EQ(Fold(), 1) << "the rest, the next time";
  EXPECT_EQ(Value("n99/__cf__0"), "Tensor<type: float shape: [] values: -297>");
}

TEST_F(FoldTest, MetadataOfKnownShapesNeedsNoTensor) {
  Placeholder("x", {2, 3});
  Placeholder("z", {-1, 3});
  Add("shape", "Shape", {"x"});
  Add("unknown", "Shape", {"z"});
  Add("y", "Reshape", {"z", "shape"});
  Add("w", "Reshape", {"z", "unknown"});
  Retval("y", 0);
  Retval("w", 1);
  EXPECT_EQ(Fold(), 1);
  EXPECT_EQ(Value("shape/__cf__0"), "Tensor<type: int32 shape: [2] values: 2 3>");
  EXPECT_EQ(graph_.FindNode("shape"), nullptr);
  EXPECT_NE(graph_.FindNode("unknown"), nullptr);
}

TEST_F(FoldTest, KnownSizesAreTakenFromShapesThatAreKnownInPart) {
  Placeholder("z", {-1, 3});
  Add("shape", "Shape", {"z"});
  const auto index = [&](const char* name, int32_t value) {
    Add(name, "Const", {}, {{"dtype", DataType::kInt32}, {"value", Tensor::Vector<int32_t>({value})}});
  };
  index("i0", 0);
  index("i1", 1);
  index("i2", 2);
  Add("rows", "StridedSlice", {"shape", "i0", "i1", "i1"}, {{"shrink_axis_mask", 1}});
  Add("columns", "StridedSlice", {"shape", "i1", "i2", "i1"}, {{"shrink_axis_mask", 1}});
  Add("dims", "Pack", {"columns", "rows"}, {{"N", 2}});
  Add("y", "Reshape", {"z", "dims"});
  Retval("y");
  EXPECT_EQ(Fold(), 1);
  EXPECT_EQ(Value("columns/__cf__0"), "Tensor<type: int32 shape: [] values: 3>");
  EXPECT_NE(graph_.FindNode("rows"), nullptr);
}

TEST_F(FoldTest, TheShapeOfADeadTensorIsDead) {
  Placeholder("x", {2, 3});
  Add("p", "Placeholder", {}, {{"dtype", DataType::kBool}});
  Add("sw", "Switch", {"x", "p"}, {{"T", DataType::kFloat}});
  Add("shape", "Shape", {"sw:1"});
  Add("n", "Neg", {"sw:1"});
  Add("rank", "Rank", {"n"});
  Add("ret0", "_Retval", {"shape"}, {{"T", DataType::kInt32}, {"index", 0}});
  Add("ret1", "_Retval", {"rank"}, {{"T", DataType::kInt32}, {"index", 1}});
  EXPECT_EQ(Fold(), 2);
  EXPECT_THAT(GraphText(graph_), HasSubstr("shape/anchor = Identity(sw:1)\n"
                                           "shape/__cf__0 = Const(^shape/anchor)\n"
                                           "rank/__cf__0 = Const(^n)\n"));
}

TEST_F(FoldTest, WhatIsKeptHasALimit) {
  compile_.max_folded_constant_bytes = 4;
  Const("a", 3);
  for (int i = 0; i < 20; ++i) {
    Add(StrCat("n", i), "Sub", {i == 0 ? "a" : StrCat("n", i - 1), "a"});
    Retval(StrCat("n", i), i);
  }
  EXPECT_EQ(Fold(), 16);
}

TEST_F(FoldTest, NodesThatMustRunSurviveTheLossOfTheirConsumer) {
  Placeholder("x", {2, 3});
  Add("checked", "Neg", {"x"});
  Add("gone", "Neg", {"x"});
  Add("r1", "Rank", {"checked"});
  Add("r2", "Rank", {"gone"});
  for (int i = 1; i <= 2; ++i) {
    Add(StrCat("ret", i), "_Retval", {StrCat("r", i)}, {{"T", DataType::kInt32}, {"index", i}});
  }
  options_.preserve = {"checked"};
  EXPECT_EQ(Fold(), 2);
  EXPECT_NE(graph_.FindNode("checked"), nullptr);
  EXPECT_EQ(graph_.FindNode("gone"), nullptr);
}

class RandomFoldTest : public testing::TestWithParam<int> {};

TEST_P(RandomFoldTest, ResultsAreTheSame) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  Graph graph(TestOps());
  std::vector<std::string> names;
  for (int i = 0; i < 60; ++i) {
    const std::string name = StrCat("n", i);
    const auto pick = [&] { return names[random() % names.size()]; };
    if (i < 8 || random() % 8 == 0) {
      const bool fed = random() % 3 == 0;
      AddTestNode(&graph, name, fed ? "Placeholder" : "Const", {},
                  fed ? AttrMap{{"dtype", DataType::kFloat}}
                      : AttrMap{{"dtype", DataType::kFloat},
                                {"value", Tensor::Scalar(static_cast<float>(random() % 9))}});
    } else {
      AddTestNode(&graph, name, random() % 2 == 0 ? "Add" : "Sub", {pick(), pick()});
      if (random() % 6 == 0) {
        graph.AddControlEdge(graph.FindNode(pick()), graph.FindNode(name));
      }
    }
    names.push_back(name);
  }
  for (int i = 0; i < 10; ++i) {
    AddTestNode(&graph, StrCat("ret", i), "_Retval", {names[random() % names.size()]},
                {{"T", DataType::kFloat}, {"index", i}});
  }
  graph.FixupSourceAndSinkEdges();
  std::map<std::string, float> feeds;
  for (const std::string& name : names) feeds[name] = static_cast<float>(random() % 100);
  const auto before = Interpret(graph, feeds);
  ASSERT_TRUE(before.ok()) << before.status();
  FakeEvaluator evaluator;
  const CompileOptions compile;
  OptimizeOptions options{compile};
  options.evaluator = &evaluator;
  const auto folded = FoldConstants(&graph, options);
  ASSERT_TRUE(folded.ok()) << folded.status();
  EXPECT_TRUE(graph.Validate().ok()) << graph.Validate();
  const auto after = Interpret(graph, feeds);
  ASSERT_TRUE(after.ok()) << after.status();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(before->at(StrCat("retval:", i)), after->at(StrCat("retval:", i)));
  EXPECT_EQ(*FoldConstants(&graph, options), 0) << "one pass finds everything";
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomFoldTest, testing::Range(0, 20));

}  // namespace
}  // namespace millrace
