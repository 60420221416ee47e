// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The graphs that Cond and While build: names, captured tensors, control inputs, and refused arguments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/graph.h"
#include "millrace/control_flow.h"
#include "millrace/ops.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using Outputs = std::vector<Output>;

class ControlFlowGraphTest : public ::testing::Test {
 protected:
  // "op <- input, ^control": the op of a node and its inputs.
  std::string Describe(const std::string& name) const {
    const Node* node = scope_.graph().FindNode(name);
    if (node == nullptr) return "no such node";
    std::string text = node->op_name();
    const char* separator = " <- ";
    for (const Edge* edge : node->data_in_edges()) {
      text += separator + TensorId{edge->src->name(), edge->src_output}.ToString();
      separator = ", ";
    }
    for (const Edge* edge : node->control_in_edges()) {
      text += separator + TensorId{edge->src->name(), -1}.ToString();
      separator = ", ";
    }
    return text;
  }
  void ExpectError(const std::string& text) const {
    EXPECT_TRUE(errors::IsInvalidArgument(scope_.status())) << scope_.status();
    EXPECT_THAT(scope_.status().message(), HasSubstr(text));
  }

  Scope scope_ = Scope::NewRootScope();
  const Output x_ = ops::Placeholder(scope_.WithOpName("x"), DataType::kFloat, ops::Placeholder::Shape({}));
  const Output p_ = ops::Placeholder(scope_.WithOpName("p"), DataType::kBool, ops::Placeholder::Shape({}));
};

Outputs CountTo(const Scope& scope, const Input& begin, const Input& limit,
                const WhileOptions& options = {}) {
  return While(
      scope, {begin}, [&](const Scope& s, const Outputs& v) { return Output(ops::Less(s, v[0], limit)); },
      [](const Scope& s, const Outputs& v) -> Outputs { return {ops::Add(s.WithOpName("add"), v[0], 1.0f)}; },
      options);
}

TEST_F(ControlFlowGraphTest, ALoopIsNamedAsInTensorFlow) {
  const Outputs out = CountTo(scope_, x_, 10.0f);
  ASSERT_TRUE(scope_.ok()) << scope_.status();
  EXPECT_EQ(Scope::NameOf(out[0]), "while/Exit");
  EXPECT_EQ(Describe("while/Enter"), "Enter <- x");
  EXPECT_EQ(Describe("while/Merge"), "Merge <- while/Enter, while/NextIteration");
  EXPECT_EQ(Describe("while/Const"), "Const <- ^while/Merge");
  EXPECT_EQ(Describe("while/Less"), "Less <- while/Merge, while/Const");
  EXPECT_EQ(Describe("while/LoopCond"), "LoopCond <- while/Less");
  EXPECT_EQ(Describe("while/Switch"), "Switch <- while/Merge, while/LoopCond");
  EXPECT_EQ(Describe("while/Identity"), "Identity <- while/Switch:1");
  EXPECT_EQ(Describe("while/Const_1"), "Const <- ^while/Identity");
  EXPECT_EQ(Describe("while/add"), "Add <- while/Identity, while/Const_1");
  EXPECT_EQ(Describe("while/NextIteration"), "NextIteration <- while/add");
  EXPECT_EQ(Describe("while/Exit"), "Exit <- while/Switch");
  const Node* enter = scope_.graph().FindNode("while/Enter");
  EXPECT_EQ(*enter->Attr<std::string>("frame_name"), "while/while_context");
  EXPECT_EQ(*enter->Attr<int64_t>("parallel_iterations"), 10);
  EXPECT_FALSE(*enter->Attr<bool>("is_constant"));
  EXPECT_EQ(scope_.ShapeOf(CountTo(scope_, 0.0f, 3.0f)[0]), TensorShape());
  EXPECT_EQ(scope_.graph().Validate(), Status());
}

TEST_F(ControlFlowGraphTest, ABranchIsNamedAsInTensorFlow) {
  const Outputs out = Cond(
      scope_, p_,
      [&](const Scope& s) -> Outputs {
        return {ops::Mul(s, x_, x_), x_};
      },
      [&](const Scope& s) -> Outputs {
        return {ops::Const(s, 1.0f), ops::Neg(s, x_)};
      });
  ASSERT_TRUE(scope_.ok()) << scope_.status();
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(Scope::NameOf(out[1]), "cond/Merge_1");
  EXPECT_EQ(Describe("cond/Switch"), "Switch <- p, p");
  EXPECT_EQ(Describe("cond/switch_t"), "Identity <- cond/Switch:1");
  EXPECT_EQ(Describe("cond/switch_f"), "Identity <- cond/Switch");
  EXPECT_EQ(Describe("cond/pred_id"), "Identity <- p");
  EXPECT_EQ(Describe("cond/Mul"), "Mul <- cond/Mul/Switch:1, cond/Mul/Switch:1");
  EXPECT_EQ(Describe("cond/Mul/Switch"), "Switch <- x, cond/pred_id");
  EXPECT_EQ(Describe("cond/Const"), "Const <- ^cond/switch_f");
  EXPECT_EQ(Describe("cond/Neg"), "Neg <- cond/Neg/Switch");
  EXPECT_EQ(Describe("cond/Merge"), "Merge <- cond/Const, cond/Mul");
  EXPECT_EQ(Describe("cond/Merge_1"), "Merge <- cond/Neg, cond/Mul/Switch:1");
  EXPECT_EQ(scope_.graph().Validate(), Status());
}

TEST_F(ControlFlowGraphTest, OuterTensorsEnterEveryLevel) {
  const Output inner_limit = ops::Const(scope_.WithOpName("limit"), 3.0f);
  While(
      scope_.WithOpName("a"), {0.0f},
      [&](const Scope& s, const Outputs& v) { return Output(ops::Less(s, v[0], inner_limit)); },
      [&](const Scope& s, const Outputs& v) {
        return Cond(
            s, p_, [&](const Scope& t) { return CountTo(t.WithOpName("b"), v[0], inner_limit); },
            [&](const Scope&) { return Outputs{v[0]}; });
      });
  ASSERT_TRUE(scope_.ok()) << scope_.status();
  EXPECT_EQ(Describe("a/Less/Enter"), "Enter <- limit");
  EXPECT_TRUE(*scope_.graph().FindNode("a/Less/Enter")->Attr<bool>("is_constant"));
  EXPECT_EQ(Describe("a/cond/Switch/Enter"), "Enter <- p");
  EXPECT_EQ(Describe("a/cond/b/Less/Switch"), "Switch <- a/Less/Enter, a/cond/pred_id");
  EXPECT_EQ(Describe("a/cond/b/Less/Enter"), "Enter <- a/cond/b/Less/Switch:1");
  EXPECT_EQ(scope_.graph().Validate(), Status());
}

TEST_F(ControlFlowGraphTest, ControlInputsFromOutsideHoldTheLoopBack) {
  const ops::NoOp before(scope_.WithOpName("before"));
  While(
      scope_, {x_}, [&](const Scope& s, const Outputs& v) { return Output(ops::Less(s, v[0], 1.0f)); },
      [&](const Scope& s, const Outputs& v) -> Outputs {
        return {ops::Neg(s.WithControlDependencies({before}), v[0])};
      });
  ASSERT_TRUE(scope_.ok()) << scope_.status();
  EXPECT_EQ(Describe("while/Neg"), "Neg <- while/Identity, ^while/Identity");
  EXPECT_EQ(Describe("while/Enter"), "Enter <- x, ^before");
}

TEST_F(ControlFlowGraphTest, ShapesMustNotVaryUnlessSaid) {
  const auto grow = [&](const Scope& s, const WhileOptions& options) {
    return While(
        s, {Tensor::Vector<float>({1})},
        [&](const Scope& c, const Outputs&) { return Output(ops::Identity(c, p_)); },
        [](const Scope& b, const Outputs& v) -> Outputs {
          return {ops::ConcatV2(b, {v[0], v[0]}, 0)};
        },
        options);
  };
  const Outputs out = grow(scope_, {.shape_invariants = {PartialShape({-1})}});
  ASSERT_TRUE(scope_.ok()) << scope_.status();
  EXPECT_EQ(scope_.ShapeOf(out[0]), PartialShape({-1}));
  grow(scope_, {});
  ExpectError(
      "is not an invariant for the loop. It enters the loop with shape [1], but has shape [2] after one "
      "iteration. Provide shape invariants");
}

TEST_F(ControlFlowGraphTest, InvariantsMustSuitTheFirstShape) {
  CountTo(scope_, Tensor::Vector<float>({1}), 1.0f, {.shape_invariants = {PartialShape({2})}});
  ExpectError(
      "is not compatible with the initial shape of the loop variable. It enters the loop with shape [1], but "
      "the specified shape invariant is [2].");
}

TEST_F(ControlFlowGraphTest, TypesOfLoopVariablesMustNotChange) {
  While(
      scope_, {x_}, [&](const Scope&, const Outputs&) { return p_; },
      [](const Scope& s, const Outputs&) -> Outputs { return {ops::Const(s, 1)}; });
  ExpectError(
      "Input 1 of node while/Merge was passed int32 from while/NextIteration:0 incompatible with expected "
      "float.");
}

TEST_F(ControlFlowGraphTest, BodiesReturnAllVariables) {
  While(
      scope_, {x_, x_}, [&](const Scope&, const Outputs&) { return p_; },
      [](const Scope&, const Outputs& v) -> Outputs { return {v[0]}; });
  ExpectError("The number of loop variables of 'while' is 2, but the body returned 1");
}

TEST_F(ControlFlowGraphTest, ALoopNeedsVariables) {
  While(
      scope_, {}, [&](const Scope&, const Outputs&) { return p_; },
      [](const Scope&, const Outputs& v) { return v; });
  ExpectError("No loop variables provided");
}

TEST_F(ControlFlowGraphTest, ConditionsAreScalarBools) {
  CountTo(scope_, Tensor::Vector<float>({1, 2}), 1.0f);
  ExpectError("Shape must be rank 0 but is rank 1");
}

TEST_F(ControlFlowGraphTest, BranchesMustAgree) {
  Cond(
      scope_, p_,
      [&](const Scope&) {
        return Outputs{x_, x_};
      },
      [&](const Scope&) { return Outputs{x_}; });
  ExpectError("true_fn and false_fn must return the same number of outputs: 2 and 1");
}

TEST_F(ControlFlowGraphTest, BranchesMustAgreeInType) {
  Cond(
      scope_, p_, [&](const Scope&) { return Outputs{x_}; }, [&](const Scope&) { return Outputs{p_}; });
  ExpectError("Outputs of true_fn and false_fn must have the same type: float, bool");
}

TEST_F(ControlFlowGraphTest, WhatIsInALoopStaysThere) {
  Output inside;
  While(
      scope_, {x_}, [&](const Scope&, const Outputs&) { return p_; },
      [&](const Scope& s, const Outputs& v) -> Outputs { return {inside = ops::Neg(s, v[0])}; });
  ASSERT_TRUE(scope_.ok()) << scope_.status();
  ops::Abs(scope_.WithOpName("outside"), inside);
  ExpectError("Cannot use 'while/Neg' as input to 'outside' because 'while/Neg' is in a while loop");
}

TEST_F(ControlFlowGraphTest, ErrorsInABodyAreThoseOfTheScope) {
  const Outputs out = While(
      scope_, {x_}, [&](const Scope&, const Outputs&) { return p_; },
      [&](const Scope& s, const Outputs& v) -> Outputs { return {ops::Add(s, v[0], 1)}; });
  EXPECT_EQ(out, Outputs{Output()});
  ExpectError("while/Add");
}

}  // namespace
}  // namespace millrace
