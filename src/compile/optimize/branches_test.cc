// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/branches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile/optimize/identities.h"
#include "graph/testing.h"

namespace millrace {
namespace {

const AttrMap kFloat = {{"T", DataType::kFloat}};

// y = p ? -x : x + x, with nodes that only one branch needs.
class BranchesTest : public testing::Test {
 protected:
  Node* Add(std::string_view name, std::string_view op, const std::vector<std::string>& inputs = {},
            AttrMap attrs = {}) {
    return AddTestNode(&graph_, name, op, inputs, std::move(attrs));
  }
  void Predicate(bool value, const std::vector<std::string>& inputs = {}) {
    Add("p", "Const", inputs, {{"dtype", DataType::kBool}, {"value", Tensor::Scalar(value)}});
  }
  void Conditional() {
    Add("sw", "Switch", {"x", "p"}, kFloat);
    Add("pivot", "Identity", {"sw:1"}, kFloat);
    Add("c", "Const", {"^pivot"}, {{"dtype", DataType::kFloat}, {"value", Tensor::Scalar(2.f)}});
    Add("t", "Sub", {"sw:1", "c"});
    Add("f", "Add", {"sw", "sw"});
    Add("m", "Merge", {"f", "t"}, {{"T", DataType::kFloat}, {"N", 2}});
    Retval("m");
  }
  void Retval(const std::string& input, int index = 0) {
    Add(StrCat("ret", index), "_Retval", {input}, {{"T", DataType::kFloat}, {"index", index}});
  }
  int Resolve() {
    graph_.FixupSourceAndSinkEdges();
    const int resolved = ResolveBranches(&graph_, options_);
    EXPECT_TRUE(graph_.Validate().ok()) << graph_.Validate();
    return resolved;
  }
  // The graph after Resolve, without the identities that it leaves.
  std::string Text() {
    RemoveIdentities(&graph_, options_);
    RemoveDeadNodes(&graph_, options_);
    return GraphText(graph_);
  }

  Graph graph_{TestOps()};
  CompileOptions compile_;
  OptimizeOptions options_{compile_};
};

TEST_F(BranchesTest, TheBranchThatIsTakenIsLeft) {
  Add("x", "Placeholder", {}, {{"dtype", DataType::kFloat}});
  Predicate(false);
  Conditional();
  EXPECT_EQ(Resolve(), 2);
  EXPECT_EQ(Text(), "x = Placeholder()\nf = Add(x, x)\nret0 = _Retval(f)\n");
}

TEST_F(BranchesTest, WhatWaitsForTheBranchStaysWithIt) {
  Add("x", "Placeholder", {}, {{"dtype", DataType::kFloat}});
  Predicate(true);
  Conditional();
  EXPECT_EQ(Resolve(), 2);
  EXPECT_EQ(Text(), "x = Placeholder()\nc = Const(^x)\nt = Sub(x, c)\nret0 = _Retval(t)\n");
}

TEST_F(BranchesTest, WhatAKnownPredicateWaitsForIsWaitedFor) {
  Add("x", "Placeholder", {}, {{"dtype", DataType::kFloat}});
  Add("y", "Placeholder", {}, {{"dtype", DataType::kFloat}});
  Predicate(false, {"^y"});
  Conditional();
  EXPECT_EQ(Resolve(), 2);
  EXPECT_THAT(GraphText(graph_), testing::HasSubstr("sw/taken = Identity(x, ^p)\n"));
  EXPECT_THAT(GraphText(graph_), testing::HasSubstr("p = Const(^y)\n"));
}

TEST_F(BranchesTest, ADeadFetchStaysDead) {
  Add("x", "Placeholder", {}, {{"dtype", DataType::kFloat}});
  Predicate(true);
  Conditional();
  Retval("f", 1);
  const std::string before = GraphText(graph_);
  EXPECT_EQ(Resolve(), 0);
  EXPECT_EQ(GraphText(graph_), before);
}

TEST_F(BranchesTest, ADeadTargetStaysDead) {
  Add("x", "Placeholder", {}, {{"dtype", DataType::kFloat}});
  Predicate(true);
  Conditional();
  options_.preserve = {"f"};
  EXPECT_EQ(Resolve(), 0);
}

TEST_F(BranchesTest, LoopsStay) {
  Add("x", "Placeholder", {}, {{"dtype", DataType::kFloat}});
  Predicate(true);
  Add("m", "Merge", {"x", "x"}, {{"T", DataType::kFloat}, {"N", 2}});
  Add("sw", "Switch", {"m", "p"}, kFloat);
  Node* next = Add("next", "NextIteration", {"sw:1"}, kFloat);
  graph_.UpdateInput(graph_.FindNode("m"), 1, next, 0);
  Retval("sw", 0);
  const std::string before = GraphText(graph_);
  EXPECT_EQ(Resolve(), 0);
  EXPECT_EQ(GraphText(graph_), before);
}

TEST_F(BranchesTest, AMergeTakesAnInputThatIsAlwaysAlive) {
  Add("x", "Placeholder", {}, {{"dtype", DataType::kFloat}});
  Add("p", "Placeholder", {}, {{"dtype", DataType::kBool}});
  Add("one", "Const", {}, {{"dtype", DataType::kFloat}, {"value", Tensor::Scalar(1.f)}});
  Add("sw", "Switch", {"x", "p"}, kFloat);
  Add("m", "Merge", {"sw:1", "one"}, {{"T", DataType::kFloat}, {"N", 2}});
  Retval("m");
  EXPECT_EQ(Resolve(), 1);
  EXPECT_THAT(Text(), testing::HasSubstr("ret0 = _Retval(one)\n"));
}

}  // namespace
}  // namespace millrace
