// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The graph after inlining and lowering.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile/lower/function_calls.h"
#include "compile/optimize/inline.h"
#include "compile/optimize/inline_cleanup.h"
#include "graph/function_gradient.h"
#include "graph/graph_import.h"
#include "graph/testing.h"
#include "op/attr_codec.h"
#include "tests/session/def_builder.h"

namespace millrace {
namespace {

const AttrMap kFloat = {{"T", DataType::kFloat}};

NameAttrList Fn(std::string name, AttrMap attrs = {}) {
  return {std::move(name), std::make_shared<const AttrMap>(std::move(attrs))};
}
AttrMap CallOf(const NameAttrList& f, size_t inputs, size_t outputs) {
  return {{"f", f},
          {"Tin", std::vector<DataType>(inputs, DataType::kFloat)},
          {"Tout", std::vector<DataType>(outputs, DataType::kFloat)}};
}

FunctionBuilder Twice() {
  return FunctionBuilder("Twice")
      .Arg("x: T")
      .Ret("y: T")
      .Attr("T: {float, int32}")
      .Node("same", "Identity", {"x"}, {{"T", "$T"}})
      .Node("unused", "Neg", {"x"}, {{"T", "$T"}})
      .Node("sum", "Add", {"same:output", "x"}, {{"T", "$T"}})
      .Return("y", "sum:z");
}

class InlineTest : public ::testing::Test {
 protected:
  void Node(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
            const AttrMap& attrs = {}) {
    AttrMapToProto(attrs, g_.Add(name, op, inputs)->mutable_attr());
  }
  // The graph after inlining, one node per line.
  std::string Inlined(const InlineOptions& options = {}) {
    const Status imported = ImportGraphDef(g_.def(), ImportOptions(), &graph_);
    EXPECT_TRUE(imported.ok()) << imported;
    const auto result = InlineFunctions(&graph_, options);
    EXPECT_TRUE(result.ok()) << result.status();
    if (result.ok()) result_ = *result;
    const Status valid = graph_.Validate();
    EXPECT_TRUE(valid.ok()) << valid;
    return GraphText(graph_);
  }
  DefBuilder g_;
  Graph graph_{OpRegistry::Global()};
  InlineResult result_;
};

TEST_F(InlineTest, TheBodyTakesThePlaceOfTheCall) {
  g_.Function(Twice());
  g_.Placeholder("x");
  Node("a", "Twice", {"x"}, kFloat);
  Node("b", "PartitionedCall", {"a"}, CallOf(Fn("Twice", kFloat), 1, 1));
  Node("c", "Neg", {"b"}, kFloat);
  EXPECT_EQ(Inlined(), "x = Placeholder()\nc = Neg(b/sum)\na/sum = Add(x, x)\nb/sum = Add(a/sum, a/sum)\n");
  EXPECT_EQ(result_.inlined, 2);
}

TEST_F(InlineTest, CallsWithinBodiesAreInlinedToo) {
  g_.Function(Twice());
  g_.Function(FunctionBuilder("Outer")
                  .Arg("x: float")
                  .Ret("y: float")
                  .Ret("same: float")
                  .Node("in", "Twice", {"x"}, kFloat)
                  .Return("y", "in:y")
                  .Return("same", "x"));
  g_.Placeholder("x");
  Node("a", "Outer", {"x"});
  Node("c", "Add", {"a", "a:1"}, kFloat);
  EXPECT_EQ(Inlined(), "x = Placeholder()\nc = Add(a/in/sum, x)\na/in/sum = Add(x, x)\n");
}

TEST_F(InlineTest, WhatIsMarkedOrRecursiveStaysACall) {
  g_.Function(Twice().NoInline());
  g_.Function(
      FunctionBuilder("Again").Arg("x: float").Ret("y: float").Node("a", "Again", {"x"}).Return("y", "a:y"));
  g_.Placeholder("x");
  Node("a", "Twice", {"x"}, kFloat);
  Node("r", "Again", {"x"});
  AttrMap marked = CallOf(Fn("Neg", kFloat), 1, 1);
  marked.Set("_noinline", true);
  Node("m", "PartitionedCall", {"x"}, marked);
  Node("wrong", "PartitionedCall", {"x"}, CallOf(Fn("Gone"), 1, 1));
  EXPECT_EQ(Inlined(),
            "x = Placeholder()\na = Twice(x)\nm = PartitionedCall(x)\nwrong = PartitionedCall(x)\nr/a = "
            "Again(x)\n");
  ASSERT_TRUE(RewriteNamedCalls(&graph_).ok());
  EXPECT_EQ(GraphText(graph_),
            "x = Placeholder()\nm = PartitionedCall(x)\nwrong = PartitionedCall(x)\na = "
            "PartitionedCall(x)\nr/a = PartitionedCall(x)\n");
}

TEST_F(InlineTest, GrowthIsBounded) {
  g_.Function(Twice());
  std::string inner = "Twice";
  for (int i = 0; i < 40; ++i) {
    const std::string name = StrCat("F", i);
    g_.Function(FunctionBuilder(name)
                    .Arg("x: float")
                    .Ret("y: float")
                    .Node("a", "PartitionedCall", {"x"}, CallOf(Fn(inner, kFloat), 1, 1))
                    .Node("b", "PartitionedCall", {"a:output"}, CallOf(Fn(inner, kFloat), 1, 1))
                    .Return("y", "b:output"));
    inner = name;
  }
  g_.Placeholder("x");
  Node("call", inner, {"x"});
  InlineOptions options;
  options.max_added_nodes = 1000;
  Inlined(options);
  EXPECT_LT(graph_.num_nodes(), 2000);
}

// Names grow with each level, and the total of all names with the square of the levels.
TEST_F(InlineTest, GrowthOfNamesIsBounded) {
  constexpr int kLevels = 3000;
  for (int i = 0; i < kLevels; ++i) {
    FunctionBuilder f(StrCat("F", i));
    f.Arg("x: float").Ret("y: float").Node("neg", "Neg", {"x"}, kFloat);
    if (i + 1 < kLevels) {
      g_.Function(f.Node("inner", StrCat("F", i + 1), {"neg:y"}).Return("y", "inner:y"));
    } else {
      g_.Function(f.Return("y", "neg:y"));
    }
  }
  g_.Placeholder("x");
  Node("call", "F0", {"x"});
  InlineOptions options;
  options.max_added_name_bytes = 100'000;
  Inlined(options);
  size_t bytes = 0;
  for (const millrace::Node* node : graph_.OpNodes()) bytes += node->name().size();
  EXPECT_GT(result_.inlined, 50);
  EXPECT_LT(bytes, 110'000u);
}

TEST_F(InlineTest, OrderDevicesAndNamesAreKept) {
  g_.Function(
      FunctionBuilder("Bump")
          .Arg("by: float")
          .Ret("out: float")
          .Stateful()
          .Node("v", "VarHandleOp", {}, {{"dtype", DataType::kFloat}, {"shape", PartialShape{}}}, "/cpu:0")
          .Node("add", "AssignAddVariableOp", {"v:resource", "by"}, {{"dtype", DataType::kFloat}})
          .Node("near", "Identity", {"by"},
                {{"T", DataType::kFloat}, {"_class", std::vector<std::string>{"loc:@v"}}}, "/cpu:0")
          .Return("out", "near:output"));
  g_.Placeholder("x");
  g_.Add("before", "NoOp", {});
  Node("call", "Bump", {"x", "^before"});
  g_.Add("after", "NoOp", {"^call"});
  const std::string text = Inlined();
  EXPECT_THAT(text, ::testing::HasSubstr("call/input_control_node = NoOp(^before)"));
  EXPECT_THAT(text, ::testing::HasSubstr("call/v = VarHandleOp(^call/input_control_node) @/cpu:0"));
  EXPECT_THAT(text,
              ::testing::HasSubstr("call/add = AssignAddVariableOp(call/v, x, ^call/input_control_node)"));
  EXPECT_THAT(text, ::testing::HasSubstr("call/output_control_node = NoOp("));
  EXPECT_THAT(text, ::testing::HasSubstr("after = NoOp(^call/output_control_node)"));
  const auto* v = graph_.FindNode("call/v");
  ASSERT_NE(v, nullptr);
  EXPECT_EQ(*v->Attr<std::string>("shared_name"), "v") << "the variable stays that of the function";
  const auto* near = graph_.FindNode("call/near");
  ASSERT_NE(near, nullptr);
  EXPECT_EQ(*near->Attr<std::vector<std::string>>("_class"), std::vector<std::string>{"loc:@call/v"});
}

// Nodes that share a resource share a device, too: all of them leave the device of the call if one has no
// kernel there, or if the body places one on another device.
TEST_F(InlineTest, NodesOfOneResourceLeaveTheDeviceOfTheCallTogether) {
  const AttrMap dtype = {{"dtype", DataType::kFloat}};
  const AttrMap variable = {{"dtype", DataType::kFloat}, {"shape", PartialShape{}}};
  g_.Function(FunctionBuilder("F")
                  .Arg("n: int32")
                  .Arg("x: float")
                  .Ret("y: float")
                  .Ret("size: int32")
                  .Stateful()
                  .Node("array", "TensorArrayV3", {"n"}, dtype)
                  .Node("size", "TensorArraySizeV3", {"array:handle", "array:flow"})
                  .Node("placed", "VarHandleOp", {}, variable, "/cpu:0")
                  .Node("read", "ReadVariableOp", {"placed:resource"}, dtype)
                  .Node("v", "VarHandleOp", {}, variable)
                  .Node("add", "AssignAddVariableOp", {"v:resource", "x"}, dtype)
                  .Node("neg", "Neg", {"read:value", "^add"}, kFloat)
                  .Return("y", "neg:y")
                  .Return("size", "size:size"));
  g_.Node("n", "Placeholder", {}, {{"dtype", DataType::kInt32}});
  g_.Placeholder("x");
  g_.Add("call", "F", {"n", "x"})->set_device("/job:w/replica:0/task:1/device:X:0");
  InlineOptions options;
  options.has_kernel = [](std::string_view type, const NodeProps& props) {
    return type == "CPU" || props.op->def.name != "TensorArrayV3";
  };
  Inlined(options);
  const auto device = [this](const std::string& name) {
    const auto* node = graph_.FindNode("call/" + name);
    return node == nullptr ? "no such node" : node->requested_device();
  };
  EXPECT_EQ(device("array"), "/job:w/replica:0/task:1");
  EXPECT_EQ(device("size"), "/job:w/replica:0/task:1");
  EXPECT_EQ(device("placed"), "/cpu:0");
  EXPECT_EQ(device("read"), "") << "where the variable is";
  for (const char* name : {"v", "add", "neg"})
    EXPECT_EQ(device(name), "/job:w/replica:0/task:1/device:X:0") << name;
}

TEST_F(InlineTest, CleanUpsRemoveWhatInstantiationLeaves) {
  FunctionBody body;
  body.graph = std::make_unique<Graph>(OpRegistry::Global());
  Graph* g = body.graph.get();
  AddTestNode(g, "x", "_Arg", {}, {{"T", DataType::kFloat}, {"index", 0}});
  const std::vector<DataType> two(2, DataType::kFloat);
  AddTestNode(g, "array", "_ListToArray", {"x", "x"}, {{"Tin", two}, {"T", DataType::kFloat}, {"N", 2}});
  AddTestNode(g, "list", "_ArrayToList", {"array", "array:1"},
              {{"out_types", two}, {"T", DataType::kFloat}, {"N", 2}});
  AddTestNode(g, "dead", "Neg", {"x"}, kFloat);
  AddTestNode(g, "same", "Identity", {"list:1"}, kFloat);
  AddTestNode(g, "placed", "Identity", {"same"}, kFloat, "/cpu:1");
  AddTestNode(g, "waits", "Identity", {"placed", "^same"}, kFloat);
  AddTestNode(g, "y", "_Retval", {"waits"}, {{"T", DataType::kFloat}, {"index", 0}});
  ASSERT_TRUE(IndexBody(&body).ok());
  CleanUpBody(&body);
  EXPECT_EQ(GraphText(*g),
            "x = _Arg()\nplaced = Identity(x) @/cpu:1\nwaits = Identity(placed, ^x)\ny = _Retval(waits)\n");
}

TEST_F(InlineTest, ListConvertersThatWaitBecomeIdentities) {
  FunctionBody body;
  body.graph = std::make_unique<Graph>(OpRegistry::Global());
  Graph* g = body.graph.get();
  const AttrMap one{{"Tin", std::vector<DataType>{DataType::kFloat}}, {"T", DataType::kFloat}, {"N", 1}};
  AddTestNode(g, "x", "_Arg", {}, {{"T", DataType::kFloat}, {"index", 0}});
  AddTestNode(g, "before", "NoOp", {});
  AddTestNode(g, "array", "_ListToArray", {"x", "^before"}, one);
  AddTestNode(g, "after", "Neg", {"x", "^array"}, kFloat);
  AddTestNode(g, "kept", "_ListToArray", {"x"}, one);
  AddTestNode(g, "y", "_Retval", {"array"}, {{"T", DataType::kFloat}, {"index", 0}});
  AddTestNode(g, "z", "_Retval", {"after"}, {{"T", DataType::kFloat}, {"index", 1}});
  ASSERT_TRUE(IndexBody(&body).ok());
  body.control_rets.push_back(g->FindNode("kept"));
  CleanUpBody(&body);
  EXPECT_TRUE(g->Validate().ok());
  const std::string text = GraphText(*g);
  for (const char* line : {"after = Neg(x, ^array_1)\n", "y = _Retval(array_1)\n",
                           "array_1 = Identity(x, ^before)\n", "kept = _ListToArray(x)\n"})
    EXPECT_THAT(text, ::testing::HasSubstr(line)) << text;
}

AttrMap Lowered(AttrMap attrs) {
  attrs.Set("_lower_using_switch_merge", true);
  return attrs;
}

TEST_F(InlineTest, IfBecomesSwitchAndMerge) {
  g_.Placeholder("x");
  g_.Placeholder("p", tensorflow::DT_BOOL);
  g_.Add("before", "NoOp", {});
  const AttrMap attrs{{"Tcond", DataType::kBool},
                      {"Tin", std::vector<DataType>{DataType::kFloat}},
                      {"Tout", std::vector<DataType>{DataType::kFloat}},
                      {"then_branch", Fn("Neg", kFloat)},
                      {"else_branch", Fn("Square", kFloat)}};
  Node("if", "StatelessIf", {"p", "x", "^before"}, Lowered(attrs));
  Node("kept", "StatelessIf", {"p", "x"}, attrs);
  g_.Add("after", "NoOp", {"^if"});
  const std::string text = Inlined();
  EXPECT_EQ(result_.lowered, 1);
  EXPECT_EQ(result_.inlined, 2);
  for (const char* line :
       {"kept = StatelessIf(p, x)", "after = NoOp(^if/done)", "if/then_switch = Switch(p, p, ^before)",
        "if/then_input_0 = Switch(x, p, ^before)", "if/else_input_0 = Switch(x, p, ^before)",
        "if/then/Neg = Neg(if/then_input_0:1)", "if/else/Square = Square(if/else_input_0)",
        "if/output_0 = Merge(if/else/Square, if/then/Neg)"})
    EXPECT_THAT(text, ::testing::HasSubstr(line));
}

TEST_F(InlineTest, WhileBecomesALoop) {
  g_.Function(FunctionBuilder("Below")
                  .Arg("x: float")
                  .Ret("go: bool")
                  .Node("ten", "Const", {}, {{"dtype", DataType::kFloat}, {"value", Tensor::Scalar(10.f)}})
                  .Node("less", "Less", {"x", "ten:output"}, kFloat)
                  .Return("go", "less:z"));
  g_.Function(Twice());
  g_.Placeholder("x");
  Node("loop", "StatelessWhile", {"x"},
       Lowered({{"T", std::vector<DataType>{DataType::kFloat}},
                {"cond", Fn("Below")},
                {"body", Fn("Twice", kFloat)}}));
  Node("y", "Neg", {"loop"}, kFloat);
  const std::string text = Inlined();
  EXPECT_EQ(result_.lowered, 1);
  EXPECT_EQ(result_.inlined, 2);
  for (const char* line :
       {"y = Neg(loop/exit_0)", "loop/enter_0 = Enter(x)", "loop/merge_0 = Merge(loop/enter_0, loop/next_0)",
        "loop/cond/ten = Const(^loop/cond/input_control_node)", "loop/loop_cond = LoopCond(loop/cond/less)",
        "loop/switch_0 = Switch(loop/merge_0, loop/loop_cond)", "loop/exit_0 = Exit(loop/switch_0)",
        "loop/body/sum = Add(loop/switch_0:1, loop/switch_0:1)",
        "loop/next_0 = NextIteration(loop/body/sum)"})
    EXPECT_THAT(text, ::testing::HasSubstr(line));
}

}  // namespace
}  // namespace millrace
