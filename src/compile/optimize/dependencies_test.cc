// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/dependencies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/testing.h"

namespace millrace {
namespace {

class DependenciesTest : public testing::Test {
 protected:
  Node* Add(std::string_view name, std::string_view op, const std::vector<std::string>& inputs = {},
            AttrMap attrs = {}) {
    return AddTestNode(&graph_, name, op, inputs, std::move(attrs));
  }
  void Placeholder(std::string_view name) { Add(name, "Placeholder", {}, {{"dtype", DataType::kFloat}}); }
  void Retval(const std::string& input, int index = 0) {
    Add(StrCat("ret", index), "_Retval", {input}, {{"T", DataType::kFloat}, {"index", index}});
  }
  int Optimize() {
    graph_.FixupSourceAndSinkEdges();
    const auto changes = OptimizeDependencies(&graph_, options_);
    EXPECT_TRUE(changes.ok()) << changes.status();
    EXPECT_TRUE(graph_.Validate().ok()) << graph_.Validate();
    return changes.value_or(-1);
  }

  Graph graph_{TestOps()};
  CompileOptions compile_;
  OptimizeOptions options_{compile_};
};

TEST_F(DependenciesTest, NoNodeWaitsForAConstant) {
  Placeholder("x");
  Add("c", "Const", {}, {{"dtype", DataType::kFloat}, {"value", Tensor::Scalar(1.f)}});
  Add("y", "Neg", {"x", "^c"});
  Retval("y");
  EXPECT_EQ(Optimize(), 1);
  EXPECT_EQ(GraphText(graph_), "x = Placeholder()\ny = Neg(x)\nret0 = _Retval(y)\n");
}

TEST_F(DependenciesTest, WhatIsOnlyWaitedForIsNotComputed) {
  Placeholder("x");
  Placeholder("z");
  Add("big", "ShapeN", {"x", "z"}, {{"T", DataType::kFloat}, {"N", 2}});
  Add("y", "Neg", {"x", "^big"});
  Add("w", "Neg", {"x", "^big"});
  Retval("y");
  Retval("w", 1);
  EXPECT_GE(Optimize(), 1);
  EXPECT_EQ(GraphText(graph_),
            "x = Placeholder()\nz = Placeholder()\ny = Neg(x, ^z)\nw = Neg(x, ^z)\nret0 = _Retval(y)\n"
            "ret1 = _Retval(w)\n");
}

TEST_F(DependenciesTest, WhatMayBeAnErrorIsStillRun) {
  Placeholder("x");
  Placeholder("z");
  Add("sum", "Add", {"x", "z"});
  Add("y", "Neg", {"x", "^sum"});
  Retval("y");
  EXPECT_EQ(Optimize(), 0);
}

TEST_F(DependenciesTest, WhatTakesABranchIsWaitedForAsSuch) {
  Placeholder("x");
  Add("p", "Placeholder", {}, {{"dtype", DataType::kBool}});
  Add("sw", "Switch", {"x", "p"}, {{"T", DataType::kFloat}});
  Add("pivot", "Identity", {"sw:1"}, {{"T", DataType::kFloat}});
  Add("y", "Neg", {"x", "^pivot"});
  Retval("y");
  EXPECT_EQ(Optimize(), 0);
  EXPECT_NE(graph_.FindNode("pivot"), nullptr);
}

TEST_F(DependenciesTest, NoOpsGoWhereTheySaveNoEdges) {
  Placeholder("x");
  Add("d", "Placeholder", {}, {{"dtype", DataType::kInt32}});
  for (const char* name : {"a", "b", "c"}) Add(name, "RandomUniform", {"d"});
  Add("join", "NoOp", {"^a", "^b"});
  Add("y", "Neg", {"x", "^join"});
  Add("all", "NoOp", {"^a", "^b", "^c"});
  for (const char* name : {"u", "v", "w"}) Add(name, "Neg", {"x", "^all"});
  Add("end", "NoOp", {"^y", "^u", "^v", "^w"});
  options_.preserve = {"end"};
  EXPECT_GE(Optimize(), 1);
  EXPECT_EQ(graph_.FindNode("join"), nullptr);
  EXPECT_NE(graph_.FindNode("all"), nullptr);
  EXPECT_NE(graph_.FindNode("end"), nullptr);
}

TEST_F(DependenciesTest, EdgesThatOthersImplyGo) {
  Placeholder("x");
  Add("v", "VariableV2");
  Add("a", "Assign", {"v", "x"});
  Add("b", "Assign", {"v", "x", "^a"});
  Add("c", "Assign", {"v", "x", "^a", "^b", "^x"});
  EXPECT_EQ(Optimize(), 2);
  EXPECT_EQ(
      GraphText(graph_),
      "x = Placeholder()\nv = VariableV2()\na = Assign(v, x)\nb = Assign(v, x, ^a)\nc = Assign(v, x, ^b)\n");
}

TEST_F(DependenciesTest, NothingIsConcludedAcrossAMerge) {
  Placeholder("x");
  Placeholder("a");
  Add("n", "Neg", {"a"});
  Add("m", "Merge", {"n", "x"}, {{"T", DataType::kFloat}, {"N", 2}});
  Add("y", "Neg", {"m", "^a"});
  Retval("y");
  EXPECT_EQ(Optimize(), 0) << "the Merge runs even if a is dead, y does not";
}

TEST_F(DependenciesTest, ALongChainTakesLinearTime) {
  constexpr int kNodes = 20000;
  Placeholder("x");
  for (int i = 0; i < kNodes; ++i) {
    std::vector<std::string> inputs = {"x"};
    for (int back : {1, 2, 7}) {
      if (i >= back) inputs.push_back(StrCat("^n", i - back));
    }
    Add(StrCat("n", i), "Neg", inputs);
    if (i % 1000 == 0) Retval(StrCat("n", i), i);
  }
  options_.preserve = {StrCat("n", kNodes - 1)};
  EXPECT_GT(Optimize(), 0);
}

}  // namespace
}  // namespace millrace
