// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/loop_invariants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile/all_ops_testing.h"
#include "compile/optimize/identities.h"
#include "graph/frames.h"
#include "graph/testing.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr DataType kFloat = DataType::kFloat;
constexpr DataType kInt = DataType::kInt32;

// for (i = 0; i < n; ++i) x = …, with loop invariants a and b (float [2]) and k (int32).
class LoopInvariantsTest : public testing::Test {
 protected:
  LoopInvariantsTest() {
    Placeholder("x0", kFloat, PartialShape({2}));
    Placeholder("a", kFloat, PartialShape({2}));
    Placeholder("b", kFloat, PartialShape({2}));
    Placeholder("k", kInt, PartialShape({2}));
    Placeholder("n", kInt, PartialShape(std::vector<int64_t>{}));
    Const("zero", Tensor::Scalar(int32_t{0}));
    Enter("n_in", "n", kInt, true);
    Variable("i", "zero", kInt);
    Variable("x", "x0", kFloat);
    Add("less", "Less", {"i", "n_in"}, {{"T", kInt}});
    Add("cond", "LoopCond", {"less"});
    Split("i", kInt);
    Split("x", kFloat);
    Add("pivot", "Identity", {"i_sw:1"}, {{"T", kInt}});
    Const("one", Tensor::Scalar(int32_t{1}), {"^pivot"});
    Add("i_plus_1", "Add", {"i_sw:1", "one"}, {{"T", kInt}});
    Next("i", "i_plus_1", kInt);
    for (const char* name : {"a", "b"}) Enter(std::string(name) + "_in", name, kFloat, true);
    Enter("k_in", "k", kInt, true);
  }

  Node* Add(std::string_view name, std::string_view op, const std::vector<std::string>& inputs = {},
            AttrMap attrs = {}) {
    return AddTestNode(&graph_, name, op, inputs, std::move(attrs));
  }
  Node* Float(std::string_view name, std::string_view op, const std::vector<std::string>& inputs) {
    return Add(name, op, inputs, {{"T", kFloat}});
  }
  void Placeholder(std::string_view name, DataType type, const PartialShape& shape) {
    Add(name, "Placeholder", {}, {{"dtype", type}, {"shape", shape}});
  }
  void Const(std::string_view name, const Tensor& value, const std::vector<std::string>& inputs = {}) {
    Add(name, "Const", inputs, {{"dtype", value.dtype()}, {"value", value}});
  }
  void Enter(std::string_view name, const std::string& from, DataType type, bool constant,
             const std::string& frame = "loop") {
    Add(name, "Enter", {from}, {{"T", type}, {"frame_name", frame}, {"is_constant", constant}});
  }
  // A Merge, whose other input is set by Next().
  void Variable(const std::string& name, const std::string& first, DataType type) {
    Enter(name + "_enter", first, type, false);
    Add(name, "Merge", {name + "_enter", name + "_enter"}, {{"T", type}, {"N", 2}});
  }
  void Split(const std::string& name, DataType type) {
    Add(name + "_sw", "Switch", {name, "cond"}, {{"T", type}});
    Add(name + "_exit", "Exit", {name + "_sw"}, {{"T", type}});
  }
  void Next(const std::string& name, const std::string& value, DataType type) {
    Node* next = Add(name + "_next", "NextIteration", {value}, {{"T", type}});
    graph_.UpdateInput(graph_.FindNode(name), 1, next, 0);
  }
  // The loop returns x = `value`.
  void Finish(const std::string& value) {
    Next("x", value, kFloat);
    Add("ret", "_Retval", {"x_exit"}, {{"T", kFloat}, {"index", 0}});
  }
  int Move() {
    graph_.FixupSourceAndSinkEdges();
    const auto moved = MoveLoopInvariants(&graph_, options_);
    EXPECT_TRUE(moved.ok()) << moved.status();
    EXPECT_TRUE(graph_.Validate().ok()) << graph_.Validate();
    const auto order = TopologicalOrder(graph_);
    EXPECT_TRUE(order.ok()) << order.status();
    if (order.ok()) {
      const auto frames = FindFrames(graph_, *order);
      EXPECT_TRUE(frames.ok()) << frames.status();
    }
    return moved.value_or(-1);
  }
  std::string Text() { return GraphText(graph_); }

  Graph graph_{AllOps()};
  CompileOptions compile_;
  OptimizeOptions options_{compile_};
};

TEST_F(LoopInvariantsTest, WhatOnlyDependsOnWhatEntersRunsOnce) {
  Float("neg", "Neg", {"a_in"});
  Float("sum", "Add", {"neg", "b_in"});
  Float("y", "Mul", {"x_sw:1", "sum"});
  Finish("y");
  EXPECT_EQ(Move(), 2);
  EXPECT_THAT(Text(), HasSubstr("neg/invariant = Neg(a)\n"));
  EXPECT_THAT(Text(), HasSubstr("sum/invariant = Add(neg/invariant, b)\n"));
  EXPECT_THAT(Text(), HasSubstr("y = Mul(x_sw:1, sum/enter)\n"));
  EXPECT_EQ(graph_.FindNode("neg"), nullptr);
  EXPECT_EQ(graph_.FindNode("sum"), nullptr);
  EXPECT_TRUE(*graph_.FindNode("sum/enter")->Attr<bool>("is_constant"));
}

TEST_F(LoopInvariantsTest, ConstantsOfTheLoopGoAlong) {
  Const("two", Tensor::Scalar(2.f), {"^pivot"});
  Float("scaled", "Mul", {"a_in", "two"});
  Float("y", "Add", {"x_sw:1", "scaled"});
  Finish("y");
  EXPECT_EQ(Move(), 1);
  EXPECT_THAT(Text(), HasSubstr("scaled/outside = Const(^a)\n"));
  EXPECT_THAT(Text(), HasSubstr("scaled/invariant = Mul(a, scaled/outside)\n"));
  // The constant was not available before it was in the loop.
  EXPECT_THAT(Text(), HasSubstr("y = Add(x_sw:1, scaled/enter, ^two)\n"));
}

TEST_F(LoopInvariantsTest, NodesThatRunOnlyWhileTheLoopContinuesStillDo) {
  Add("a_sw", "Switch", {"a_in", "cond"}, {{"T", kFloat}});
  Float("neg", "Neg", {"a_sw:1"});
  Float("y", "Add", {"x_sw:1", "neg"});
  Finish("y");
  EXPECT_EQ(Move(), 1);
  EXPECT_THAT(Text(), HasSubstr("neg/invariant = Neg(a)\n"));
  EXPECT_THAT(Text(), HasSubstr("neg/iterates = Switch(neg/enter, cond)\n"));
  EXPECT_THAT(Text(), HasSubstr("y = Add(x_sw:1, neg/iterates:1)\n"));
}

TEST_F(LoopInvariantsTest, ProductsOfMatricesThatFitRunOnce) {
  Placeholder("w", kFloat, PartialShape({2, 3}));
  Placeholder("v", kFloat, PartialShape({3, 2}));
  Placeholder("u", kFloat, PartialShape({2, -1}));
  Enter("w_in", "w", kFloat, true);
  Enter("v_in", "v", kFloat, true);
  Enter("u_in", "u", kFloat, true);
  Float("wv", "MatMul", {"w_in", "v_in"});
  Float("uw", "MatMul", {"u_in", "w_in"});
  Float("one_row", "Add", {"wv", "x_sw:1"});
  Float("all", "Add", {"one_row", "uw"});
  Add("axis", "Const", {"^pivot"}, {{"dtype", kInt}, {"value", Tensor::Scalar(int32_t{0})}});
  Add("y", "Sum", {"all", "axis"}, {{"T", kFloat}});
  Finish("y");
  EXPECT_EQ(Move(), 1);
  EXPECT_THAT(Text(), HasSubstr("wv/invariant = MatMul(w, v)\n"));
  EXPECT_THAT(Text(), HasSubstr("uw = MatMul(u_in, w_in)\n"));
}

TEST_F(LoopInvariantsTest, NestedLoopsAreLeftOneAtATime) {
  Enter("inner_a", "a_in", kFloat, true, "inner");
  Enter("inner_x", "x_sw:1", kFloat, false, "inner");
  Float("neg", "Neg", {"inner_a"});
  Float("sum", "Add", {"inner_x", "neg"});
  Add("inner_exit", "Exit", {"sum"}, {{"T", kFloat}});
  Finish("inner_exit");
  EXPECT_EQ(Move(), 1);
  EXPECT_THAT(Text(), HasSubstr("neg/invariant = Neg(a_in)\n"));
  EXPECT_EQ(Move(), 1);
  EXPECT_THAT(Text(), HasSubstr("neg/invariant/invariant = Neg(a)\n"));
  EXPECT_THAT(Text(), HasSubstr("neg/enter = Enter(neg/invariant/enter)\n"));
  EXPECT_EQ(Move(), 0);
}

TEST_F(LoopInvariantsTest, WhatChangesStays) {
  Float("sum", "Add", {"x_sw:1", "a_in"});
  Float("y", "Mul", {"sum", "b_in"});
  Finish("y");
  const std::string before = (graph_.FixupSourceAndSinkEdges(), Text());
  EXPECT_EQ(Move(), 0);
  EXPECT_EQ(Text(), before);
}

TEST_F(LoopInvariantsTest, RandomNumbersAreDrawnInEachIteration) {
  Add("shape", "Const", {"^pivot"}, {{"dtype", kInt}, {"value", Tensor::Vector<int32_t>({2})}});
  Add("random", "RandomUniform", {"k_in"}, {{"T", kInt}, {"dtype", kFloat}});
  Float("y", "Mul", {"x_sw:1", "random"});
  Finish("y");
  EXPECT_EQ(Move(), 0);
}

TEST_F(LoopInvariantsTest, WhatMayFailIsNotRunBeforeALoopThatMayMakeNoTrip) {
  Add("quotient", "FloorDiv", {"k_in", "k_in"}, {{"T", kInt}});
  Add("gathered", "Gather", {"a_in", "k_in"}, {{"Tparams", kFloat}, {"Tindices", kInt}});
  Add("checked", "CheckNumerics", {"a_in"}, {{"T", kFloat}, {"message", std::string("bad")}});
  Add("converted", "Cast", {"quotient"}, {{"SrcT", kInt}, {"DstT", kFloat}});
  Add("sum", "AddN", {"x_sw:1", "gathered", "checked", "converted"}, {{"T", kFloat}, {"N", 4}});
  Finish("sum");
  EXPECT_EQ(Move(), 0);
}

TEST_F(LoopInvariantsTest, ShapesThatMayNotFitStay) {
  Placeholder("u", kFloat, PartialShape());
  Placeholder("v", kFloat, PartialShape());
  Enter("u_in", "u", kFloat, true);
  Enter("v_in", "v", kFloat, true);
  Float("both", "Add", {"u_in", "v_in"});
  Float("y", "Mul", {"x_sw:1", "both"});
  Finish("y");
  EXPECT_EQ(Move(), 0);
}

TEST_F(LoopInvariantsTest, OneTensorOfUnknownShapeFitsItself) {
  Placeholder("u", kFloat, PartialShape());
  Enter("u_in", "u", kFloat, true);
  Float("neg", "Neg", {"u_in"});
  Float("y", "Mul", {"x_sw:1", "neg"});
  Finish("y");
  EXPECT_EQ(Move(), 1);
}

TEST_F(LoopInvariantsTest, LargeResultsAreNotHeld) {
  Placeholder("row", kFloat, PartialShape({1, 3000}));
  Placeholder("column", kFloat, PartialShape({3000, 1}));
  Enter("row_in", "row", kFloat, true);
  Enter("column_in", "column", kFloat, true);
  Float("large", "Add", {"row_in", "column_in"});
  Add("axes", "Const", {"^pivot"}, {{"dtype", kInt}, {"value", Tensor::Vector<int32_t>({0, 1})}});
  Add("total", "Sum", {"large", "axes"}, {{"T", kFloat}});
  Float("y", "Mul", {"x_sw:1", "total"});
  Finish("y");
  EXPECT_EQ(Move(), 0);
}

TEST_F(LoopInvariantsTest, ABranchThatMayNotRunKeepsItsNodes) {
  Const("two", Tensor::Scalar(int32_t{2}), {"^pivot"});
  Add("p", "Less", {"i_sw:1", "two"}, {{"T", kInt}});
  Add("a_branch", "Switch", {"a_in", "p"}, {{"T", kFloat}});
  Add("x_branch", "Switch", {"x_sw:1", "p"}, {{"T", kFloat}});
  Float("neg", "Neg", {"a_branch:1"});
  Float("taken", "Add", {"x_branch:1", "neg"});
  Add("y", "Merge", {"x_branch", "taken"}, {{"T", kFloat}, {"N", 2}});
  Finish("y");
  EXPECT_EQ(Move(), 0);
}

TEST_F(LoopInvariantsTest, NodesRequestedByNameStay) {
  Float("neg", "Neg", {"a_in"});
  Float("y", "Mul", {"x_sw:1", "neg"});
  Finish("y");
  options_.preserve = {"neg"};
  EXPECT_EQ(Move(), 0);
}

TEST_F(LoopInvariantsTest, AVariableThatNeverChangesIsTakenFromOutside) {
  Add("handed_on", "Identity", {"x_sw:1"}, {{"T", kFloat}});
  Finish("handed_on");
  Add("ret_i", "_Retval", {"i_exit"}, {{"T", kInt}, {"index", 1}});
  EXPECT_GE(Move(), 3);
  RemoveDeadNodes(&graph_, options_);
  EXPECT_THAT(Text(), HasSubstr("ret = _Retval(x0)\n"));
  EXPECT_EQ(graph_.FindNode("x"), nullptr);
  EXPECT_EQ(graph_.FindNode("x_enter"), nullptr);
  EXPECT_NE(graph_.FindNode("i_next"), nullptr);
}

TEST_F(LoopInvariantsTest, AVariableThatNeverChangesAndIsNotUsedIsRemoved) {
  graph_.RemoveNode(graph_.FindNode("x_exit"));
  Next("x", "x_sw:1", kFloat);
  Add("ret_i", "_Retval", {"i_exit"}, {{"T", kInt}, {"index", 0}});
  EXPECT_EQ(Move(), 2);
  EXPECT_EQ(graph_.FindNode("x_enter"), nullptr);
}

TEST_F(LoopInvariantsTest, WhatIsComputedFromAVariableThatNeverChangesRunsOnce) {
  Variable("s", "x0", kFloat);
  Split("s", kFloat);
  Float("neg", "Neg", {"x_sw:1"});
  Float("y", "Add", {"s_sw:1", "neg"});
  Next("s", "y", kFloat);
  Finish("x_sw:1");
  Add("ret_s", "_Retval", {"s_exit"}, {{"T", kFloat}, {"index", 1}});
  EXPECT_EQ(Move(), 4);
  EXPECT_THAT(Text(), HasSubstr("neg/invariant = Neg(x0)\n"));
}

TEST_F(LoopInvariantsTest, ALoopOfWhichNothingChangesIsLeftToRunForEver) {
  graph_.UpdateInput(graph_.FindNode("i_next"), 0, graph_.FindNode("pivot"), 0);
  Finish("x_sw:1");
  EXPECT_EQ(Move(), 0);
}

TEST_F(LoopInvariantsTest, ALoopWithEffectsKeepsItsVariables) {
  Add("handle", "VarHandleOp", {}, {{"dtype", kFloat}, {"shape", PartialShape({2})}});
  Enter("handle_in", "handle", DataType::kResource, true);
  Add("add", "AssignAddVariableOp", {"handle_in", "x_sw:1"}, {{"dtype", kFloat}});
  Add("handed_on", "Identity", {"x_sw:1", "^add"}, {{"T", kFloat}});
  Finish("x_sw:1");
  EXPECT_EQ(Move(), 0);
}

TEST_F(LoopInvariantsTest, AVariableThatWaitsForTheNextIterationStays) {
  Add("late", "Identity", {"x_sw:1", "^i_plus_1"}, {{"T", kFloat}});
  Finish("late");
  EXPECT_EQ(Move(), 0);
}

TEST_F(LoopInvariantsTest, NodesThatWaitForTheEndOfALoopStillDo) {
  Finish("x_sw:1");
  Add("after", "NoOp", {"^x_exit"});
  Move();
  EXPECT_THAT(Text(), HasSubstr("after = NoOp(^x_exit)\n"));
  EXPECT_THAT(Text(), HasSubstr("x_exit = Exit(x_sw)\n"));
}

}  // namespace
}  // namespace millrace
