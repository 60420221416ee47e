// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/cse.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile/testing.h"
#include "graph/testing.h"

namespace millrace {
namespace {

const AttrMap kFloat = {{"T", DataType::kFloat}};
const AttrMap kDtype = {{"dtype", DataType::kFloat}};

class CseTest : public testing::Test {
 protected:
  CseTest() {
    Add("x", "Placeholder", {}, kDtype);
    Add("y", "Placeholder", {}, kDtype);
  }
  Node* Add(std::string_view name, std::string_view op, const std::vector<std::string>& inputs = {},
            AttrMap attrs = {}) {
    return AddTestNode(&graph_, name, op, inputs, std::move(attrs));
  }
  Node* Const(std::string_view name, float value) {
    return Add(name, "Const", {}, {{"dtype", DataType::kFloat}, {"value", Tensor::Scalar(value)}});
  }
  int Merge() {
    graph_.FixupSourceAndSinkEdges();
    const auto merged = EliminateCommonSubexpressions(&graph_);
    EXPECT_TRUE(merged.ok()) << merged.status();
    EXPECT_TRUE(graph_.Validate().ok()) << graph_.Validate();
    return merged.value_or(-1);
  }
  bool Has(std::string_view name) const { return graph_.FindNode(name) != nullptr; }

  Graph graph_{TestOps()};
};

TEST_F(CseTest, EqualNodesAreMergedLevelByLevel) {
  Add("a", "Sub", {"x", "y"});
  Add("b", "Sub", {"x", "y"});
  Add("na", "Neg", {"a"});
  Add("nb", "Neg", {"b"});
  Add("sum", "Add", {"na", "nb"});
  EXPECT_EQ(Merge(), 2);
  EXPECT_EQ(GraphText(graph_),
            "x = Placeholder()\ny = Placeholder()\na = Sub(x, y)\nna = Neg(a)\nsum = Add(na, na)\n");
}

TEST_F(CseTest, OrderOfInputsMattersUnlessTheOpCommutes) {
  Add("a", "Sub", {"x", "y"});
  Add("b", "Sub", {"y", "x"});
  Add("c", "Add", {"x", "y"});
  Add("d", "Add", {"y", "x"});
  EXPECT_EQ(Merge(), 1);
  EXPECT_TRUE(Has("b"));
  EXPECT_NE(Has("c"), Has("d"));
}

TEST_F(CseTest, AttributesOutputsAndDevicesMustAgree) {
  Add("s", "Split", {"x"}, {{"n", 2}});
  Add("t", "Split", {"x"}, {{"n", 3}});
  Add("i", "Identity", {"s:0"}, kFloat);
  Add("j", "Identity", {"s:1"}, kFloat);
  Add("k", "Identity", {"x"}, kFloat)->set_assigned_device("/cpu:0");
  Add("l", "Identity", {"x"}, kFloat)->set_assigned_device("/cpu:1");
  EXPECT_EQ(Merge(), 0);
}

TEST_F(CseTest, ConstantsAreMergedByValue) {
  Const("a", 1);
  Const("b", 1);
  Const("c", 2);
  Const("nan", NAN);
  Const("zero", 0);
  Const("minus_zero", -0.0f);
  EXPECT_EQ(Merge(), 1);
  EXPECT_TRUE(Has("minus_zero") && Has("zero") && Has("nan") && Has("c"));
}

TEST_F(CseTest, WhatDiffersFromRunToRunStays) {
  Add("dims", "Const", {}, {{"dtype", DataType::kInt32}, {"value", Tensor::Vector<int32_t>({2})}});
  Add("r1", "RandomUniform", {"dims"});
  Add("r2", "RandomUniform", {"dims"});
  Add("v", "VariableV2");
  Add("read1", "Identity", {"v"}, kFloat);
  Add("read2", "Identity", {"v"}, kFloat);
  EXPECT_EQ(Merge(), 0) << GraphText(graph_);
  EXPECT_TRUE(Has("x") && Has("y")) << "placeholders are fed apart";
}

TEST_F(CseTest, NodesMustWaitForTheSame) {
  Add("gate", "NoOp", {"^x"});
  Add("a", "Neg", {"x", "^gate"});
  Add("b", "Neg", {"x"});
  Add("c", "Neg", {"x", "^gate"});
  EXPECT_EQ(Merge(), 1);
  EXPECT_TRUE(Has("a") && Has("b"));
}

TEST_F(CseTest, NodesThatWaitedForTheRemovedOneWaitForTheOther) {
  Add("a", "Neg", {"x"});
  Add("b", "Neg", {"x"});
  Add("after", "NoOp", {"^a", "^b"});
  EXPECT_EQ(Merge(), 1);
  EXPECT_EQ(graph_.FindNode("after")->control_in_edges().size(), 1u);
}

class RandomCseTest : public testing::TestWithParam<int> {};

TEST_P(RandomCseTest, ResultsAreTheSameAndASecondPassFindsNothing) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  Graph graph(TestOps());
  std::vector<std::string> names = {"x", "y"};
  for (const std::string& name : names) AddTestNode(&graph, name, "Placeholder", {}, kDtype);
  for (int i = 0; i < 120; ++i) {
    const std::string name = StrCat("n", i);
    // Chooses inputs among the last few nodes, so that equal nodes are frequent.
    const auto pick = [&] { return names[names.size() - 1 - random() % std::min<size_t>(names.size(), 5)]; };
    const unsigned what = random() % 4;
    if (what == 0) {
      AddTestNode(&graph, name, "Neg", {pick()});
    } else if (what == 1) {
      AddTestNode(&graph, name, "Const", {},
                  {{"dtype", DataType::kFloat}, {"value", Tensor::Scalar(static_cast<float>(random() % 3))}});
    } else {
      AddTestNode(&graph, name, what == 2 ? "Add" : "Sub", {pick(), pick()});
    }
    if (random() % 5 == 0) names.push_back(name);
    if (i % 10 == 9) {
      AddTestNode(&graph, StrCat("_retval", i), "_Retval", {name}, {{"T", DataType::kFloat}, {"index", i}});
    }
  }
  const std::map<std::string, float> feeds = {{"x", 3.f}, {"y", 5.f}};
  const auto before = Interpret(graph, feeds);
  ASSERT_TRUE(before.ok()) << before.status();
  const int nodes = graph.num_nodes();
  const auto merged = EliminateCommonSubexpressions(&graph);
  ASSERT_TRUE(merged.ok());
  EXPECT_EQ(graph.num_nodes(), nodes - *merged);
  EXPECT_GT(*merged, 0);
  EXPECT_TRUE(graph.Validate().ok()) << graph.Validate();
  const auto after = Interpret(graph, feeds);
  ASSERT_TRUE(after.ok()) << after.status();
  for (int i = 9; i < 120; i += 10) {
    const std::string key = StrCat("retval:", i);
    EXPECT_EQ(before->at(key), after->at(key)) << key;
  }
  EXPECT_EQ(*EliminateCommonSubexpressions(&graph), 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomCseTest, testing::Range(0, 20));

}  // namespace
}  // namespace millrace
