// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/elementwise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile/all_ops_testing.h"
#include "graph/testing.h"
#include "op/elementwise_program.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr char kCpu0[] = "/job:localhost/replica:0/task:0/device:CPU:0";

class ElementwiseTest : public testing::Test {
 protected:
  ElementwiseTest() {
    for (const char* name : {"x", "y", "z"}) Add(name, "Placeholder", {}, {{"dtype", DataType::kFloat}});
  }
  Node* Add(std::string_view name, std::string_view op, const std::vector<std::string>& inputs,
            AttrMap attrs = {{"T", DataType::kFloat}}) {
    Node* const node = AddTestNode(&graph_, name, op, inputs, std::move(attrs));
    node->set_assigned_device(kCpu0);
    return node;
  }
  Node* Input(std::string_view name, const PartialShape& shape) {
    return Add(name, "Placeholder", {}, {{"dtype", DataType::kFloat}, {"shape", shape}});
  }
  int Fuse() {
    graph_.FixupSourceAndSinkEdges();
    const auto fused = FuseElementwise(&graph_, options_);
    EXPECT_TRUE(fused.ok()) << fused.status();
    EXPECT_TRUE(graph_.Validate().ok()) << graph_.Validate();
    return fused.value_or(-1);
  }
  std::string Text() { return GraphText(graph_); }
  // "c=Mul(0,1) …" of a fused node.
  std::string Code(std::string_view name) {
    const Node* const node = graph_.FindNode(name);
    if (node == nullptr) return "no node";
    const auto program = ElementwiseProgram::Read(node->attrs());
    if (!program.ok()) return program.status().ToString();
    std::string text;
    for (const auto& instruction : program->instructions) {
      text += (text.empty() ? "" : " ") + instruction.node + "=" + instruction.op->def.name + "(";
      for (int i = 0; i < instruction.form().arity(); ++i)
        text += (i > 0 ? "," : "") + std::to_string(instruction.operands[static_cast<size_t>(i)]);
      text += ")";
    }
    return text;
  }

  Graph graph_{AllOps()};
  CompileOptions compile_;
  OptimizeOptions options_{compile_};
};

TEST_F(ElementwiseTest, AChainBecomesOneNodeNamedAsItsLast) {
  Add("a", "Mul", {"x", "y"});
  Add("b", "Sub", {"z", "a"});
  Add("c", "Relu", {"b"});
  Add("out", "Softmax", {"c"});
  EXPECT_EQ(Fuse(), 2);
  EXPECT_THAT(Text(), HasSubstr("out = Softmax(c)"));
  EXPECT_THAT(Text(), HasSubstr("c = _FusedElementwise(z, x, y)"));
  EXPECT_EQ(Code("c"), "a=Mul(1,2) b=Sub(0,3) c=Relu(4)");
  EXPECT_EQ(graph_.FindNode("c")->assigned_device(), kCpu0);
}

TEST_F(ElementwiseTest, AResultUsedTwiceWithinIsComputedOnce) {
  Add("a", "Exp", {"x"});
  Add("b", "Mul", {"a", "a"});
  Add("c", "Add", {"a", "b"});
  EXPECT_EQ(Fuse(), 2);
  EXPECT_THAT(Text(), HasSubstr("c = _FusedElementwise(x)"));
  EXPECT_EQ(Code("c"), "a=Exp(0) b=Mul(1,1) c=Add(1,2)");
}

TEST_F(ElementwiseTest, SumsAreAddedTermByTerm) {
  Add("a", "Neg", {"x"});
  Add("s", "AddN", {"y", "a", "z"}, {{"T", DataType::kFloat}, {"N", 3}});
  EXPECT_EQ(Fuse(), 1);
  EXPECT_EQ(Code("s"), "a=Neg(2) s=AddN(0,3) s=AddN(4,1)");
}

TEST_F(ElementwiseTest, TypesMayChangeOnTheWay) {
  Add("p", "Less", {"x", "y"});
  Add("q", "LogicalNot", {"p"}, {});
  Add("i", "Cast", {"q"}, {{"SrcT", DataType::kBool}, {"DstT", DataType::kInt32}});
  Add("n", "Neg", {"i"}, {{"T", DataType::kInt32}});
  Add("p2", "Equal", {"x", "z"});
  Add("s", "Select", {"p2", "x", "y"});
  EXPECT_EQ(Fuse(), 4);
  EXPECT_EQ(graph_.FindNode("n")->output_type(0), DataType::kInt32);
  EXPECT_EQ(Code("n"), "p=Less(0,1) q=LogicalNot(2) i=Cast(3) n=Neg(4)");
  EXPECT_EQ(Code("s"), "p2=Equal(0,2) s=Select(3,0,1)");
}

TEST_F(ElementwiseTest, ValuesUsedElsewhereStay) {
  Add("a", "Exp", {"x"});
  Add("b", "Neg", {"a"});
  Add("fetch", "_Retval", {"a"}, {{"T", DataType::kFloat}, {"index", 0}});
  Add("c", "Exp", {"b"});
  EXPECT_EQ(Fuse(), 1);
  EXPECT_THAT(Text(), HasSubstr("fetch = _Retval(a)"));
  EXPECT_THAT(Text(), HasSubstr("c = _FusedElementwise(a)"));
}

TEST_F(ElementwiseTest, GroupsThatFeedEachOtherAreJoined) {
  Add("a", "Exp", {"x"});
  Add("b", "Neg", {"a"});  // the last of the first group
  Add("m", "MatMul", {"b", "y"});
  Add("c", "Exp", {"m"});
  Add("d", "Add", {"c", "b"});
  Add("out", "Softmax", {"d"});
  EXPECT_EQ(Fuse(), 2);
  EXPECT_THAT(Text(), HasSubstr("b = _FusedElementwise(x)"));
  EXPECT_THAT(Text(), HasSubstr("m = MatMul(b, y)"));
  EXPECT_THAT(Text(), HasSubstr("d = _FusedElementwise(b, m)"));
}

TEST_F(ElementwiseTest, ADetourThroughAnotherOpIsNoCycle) {
  Add("a", "Exp", {"x"});
  Add("s", "Softmax", {"a"});
  Add("b", "Add", {"a", "s"});
  EXPECT_EQ(Fuse(), 0);
}

TEST_F(ElementwiseTest, WaitsGoToTheGroup) {
  Add("a", "Exp", {"x", "^z"});
  Add("b", "Neg", {"a", "^y"});
  Add("after", "Softmax", {"y", "^b"});
  EXPECT_EQ(Fuse(), 1);
  EXPECT_THAT(Text(), HasSubstr("b = _FusedElementwise(x, ^y, ^z)"));
  EXPECT_THAT(Text(), HasSubstr("after = Softmax(y, ^b)"));
}

TEST_F(ElementwiseTest, WhatIsWaitedForStays) {
  Add("a", "Exp", {"x"});
  Add("b", "Neg", {"a"});
  Add("after", "Softmax", {"y", "^a"});
  EXPECT_EQ(Fuse(), 0);
}

TEST_F(ElementwiseTest, NodesThatMustRunKeepTheirNames) {
  options_.preserve = {"a", "c"};
  Add("a", "Exp", {"x"});
  Add("b", "Neg", {"a"});
  Add("c", "Exp", {"b"});
  EXPECT_EQ(Fuse(), 1);
  EXPECT_THAT(Text(), HasSubstr("a = Exp(x)"));
  EXPECT_THAT(Text(), HasSubstr("c = _FusedElementwise(a)"));
}

TEST_F(ElementwiseTest, OtherDevicesAndDevicesWithoutTheKernelKeepTheirNodes) {
  Add("a", "Exp", {"x"});
  Add("b", "Neg", {"a"})->set_assigned_device("/job:localhost/replica:0/task:0/device:CPU:1");
  EXPECT_EQ(Fuse(), 0);
  Add("c", "Exp", {"x"});
  Add("d", "Neg", {"c"});
  options_.has_kernel = [](std::string_view type, const NodeProps& props) {
    EXPECT_EQ(type, "CPU");
    return props.op->def.name != "_FusedElementwise";
  };
  EXPECT_EQ(Fuse(), 0);
}

TEST_F(ElementwiseTest, ReferencesAndOtherTypesStay) {
  Add("v", "VariableV2", {}, {{"dtype", DataType::kFloat}, {"shape", PartialShape({2})}});
  Add("a", "Exp", {"v"});
  Add("b", "Neg", {"a"});
  Add("s", "Placeholder", {}, {{"dtype", DataType::kString}});
  Add("t", "Add", {"s", "s"}, {{"T", DataType::kString}});
  Add("u", "Add", {"t", "s"}, {{"T", DataType::kString}});
  Add("i", "Placeholder", {}, {{"dtype", DataType::kInt32}});
  Add("j", "Round", {"i"}, {{"T", DataType::kInt32}});
  Add("k", "Neg", {"j"}, {{"T", DataType::kInt32}});
  EXPECT_EQ(Fuse(), 0);
}

TEST_F(ElementwiseTest, ShapesThatAreKnownToDifferStayApart) {
  Input("column", PartialShape({-1, 1}));
  Input("row", PartialShape({1, 64}));
  Input("some", PartialShape({-1, 64}));
  Add("a", "Exp", {"column"});
  Add("b", "Mul", {"a", "row"});
  Add("c", "Mul", {"some", "row"});
  Add("d", "Add", {"b", "c"});
  Add("scalar", "Const", {}, {{"dtype", DataType::kFloat}, {"value", Tensor::Scalar(1.f)}});
  Add("e", "Neg", {"scalar"});
  Add("f", "Add", {"d", "e"});
  EXPECT_EQ(Fuse(), 3);
  EXPECT_THAT(Text(), HasSubstr("a = Exp(column)"));
  EXPECT_THAT(Text(), HasSubstr("e = Neg(scalar)"));
  EXPECT_THAT(Text(), HasSubstr("f = _FusedElementwise(e, a, row, some)"));
}

TEST_F(ElementwiseTest, ABranchIsFusedWithinItself) {
  Add("p", "Placeholder", {}, {{"dtype", DataType::kBool}});
  Add("switch", "Switch", {"x", "p"});
  Add("a", "Exp", {"switch"});
  Add("b", "Neg", {"a"});
  Add("c", "Log", {"switch:1"});
  Add("d", "Sqrt", {"c"});
  Add("merge", "Merge", {"b", "d"}, {{"T", DataType::kFloat}, {"N", 2}});
  Add("e", "Exp", {"merge"});
  EXPECT_EQ(Fuse(), 2);
  EXPECT_THAT(Text(), HasSubstr("merge = Merge(b, d)"));
  EXPECT_THAT(Text(), HasSubstr("b = _FusedElementwise(switch)"));
  EXPECT_THAT(Text(), HasSubstr("d = _FusedElementwise(switch:1)"));
}

TEST_F(ElementwiseTest, TheBodyOfALoopIsFusedWithinItself) {
  Add("enter", "Enter", {"x"}, {{"T", DataType::kFloat}, {"frame_name", std::string("f")}});
  Add("one", "Enter", {"y"},
      {{"T", DataType::kFloat}, {"frame_name", std::string("f")}, {"is_constant", true}});
  Node* const merge = Add("merge", "Merge", {"enter", "enter"}, {{"T", DataType::kFloat}, {"N", 2}});
  Add("a", "Add", {"merge", "one"});
  Add("b", "Less", {"a", "one"});
  Add("cond", "LoopCond", {"b"}, {});
  Add("switch", "Switch", {"merge", "cond"});
  Add("c", "Exp", {"switch:1"});
  Add("d", "Mul", {"c", "one"});
  Node* const next = Add("next", "NextIteration", {"d"});
  Add("exit", "Exit", {"switch"});
  graph_.RemoveEdge(merge->in_edges()[1]);
  graph_.AddEdge(next, 0, merge, 1);
  EXPECT_EQ(Fuse(), 2);
  EXPECT_THAT(Text(), HasSubstr("cond = LoopCond(b)"));
  EXPECT_THAT(Text(), HasSubstr("next = NextIteration(d)"));
  EXPECT_EQ(Code("d"), "c=Exp(1) d=Mul(2,0)");
}

TEST_F(ElementwiseTest, LongChainsAreCutToProgramsInBounds) {
  std::string last = "x";
  constexpr int kNodes = 3 * ElementwiseProgram::kMaxInstructions;
  for (int i = 0; i < kNodes; ++i) {
    const std::string name = "n" + std::to_string(i);
    Add(name, "Neg", {last});
    last = name;
  }
  EXPECT_EQ(Fuse(), kNodes - 3);
}

TEST_F(ElementwiseTest, WideSumsAreCutToProgramsInBounds) {
  std::string last = "x";
  for (int i = 0; i < 60; ++i) {
    const std::string input = "in" + std::to_string(i), name = "n" + std::to_string(i);
    Input(input, PartialShape());
    Add(name, "Add", {last, input});
    last = name;
  }
  std::vector<std::string> terms(50, "y");
  terms.push_back(last);
  Add("sum", "AddN", terms, {{"T", DataType::kFloat}, {"N", 51}});
  EXPECT_EQ(Fuse(), 60 - 3);
  for (const Node* node : graph_.OpNodes()) {
    if (node->op_name() == "AddN") continue;
    EXPECT_LE(node->num_inputs(), ElementwiseProgram::kMaxInputs) << node->name();
  }
}

}  // namespace
}  // namespace millrace
