// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Gradients of calls, conditions and loops, compared with closed forms and with finite differences.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "autodiff/add_gradients.h"
#include "graph/graph_import.h"
#include "op/attr_codec.h"
#include "session/direct_session.h"
#include "tests/session/def_builder.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

Tensor D(double v) { return Tensor::Scalar(v); }
const AttrMap kDouble = {{"T", DataType::kDouble}};

NameAttrList Fn(std::string name, AttrMap attrs = {}) {
  return {std::move(name), std::make_shared<const AttrMap>(std::move(attrs))};
}
std::vector<DataType> Doubles(size_t n) { return std::vector<DataType>(n, DataType::kDouble); }

// Runs with and without inlining.
class FunctionGradientTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    // Product(x, y) = x * y, sin(x)
    g_.Function(FunctionBuilder("Product")
                    .Arg("x: T")
                    .Arg("y: T")
                    .Ret("xy: T")
                    .Ret("sin: T")
                    .Attr("T: {float, double}")
                    .Node("mul", "Mul", {"x", "y"}, {{"T", "$T"}})
                    .Node("s", "Sin", {"x"}, {{"T", "$T"}})
                    .Return("xy", "mul:z")
                    .Return("sin", "s:y"));
    g_.Placeholder("x", tensorflow::DT_DOUBLE);
    g_.Placeholder("y", tensorflow::DT_DOUBLE);
  }
  void Node(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
            const AttrMap& attrs = {}) {
    AttrMapToProto(attrs, g_.Add(name, op, inputs)->mutable_attr());
  }
  // Adds the gradients of `y` with respect to `xs`, as "grad:0", …; returns the error.
  Status AddGradientsOf(const std::string& y, const std::vector<std::string>& xs) {
    graph_ = std::make_unique<Graph>(OpRegistry::Global());
    MR_RETURN_IF_ERROR(ImportGraphDef(g_.def(), ImportOptions(), graph_.get()));
    const auto output = [&](const std::string& name) {
      const TensorId id = ParseTensorId(name);
      return Output{graph_->FindNode(id.name), id.index};
    };
    std::vector<Output> inputs;
    inputs.reserve(xs.size());
    for (const std::string& x : xs) inputs.push_back(output(x));
    MR_RETURN_IF_ERROR(AddGradients(graph_.get(), {output(y)}, inputs, {}, &grads_));
    return MakeSession();
  }
  // With graph_.
  Status MakeSession() {
    SessionOptions options;
    if (!GetParam()) options.disabled_passes.insert("inline");
    MR_ASSIGN_OR_RETURN(session_, NewSession(options));
    tensorflow::GraphDef def;
    ExportGraphDef(*graph_, &def);
    return session_->Create(def);
  }
  std::string GradientName(size_t i) const {
    return grads_[i].IsSet() ? TensorId{grads_[i].node->name(), grads_[i].index}.ToString() : "";
  }
  double Value(const Session::Feeds& feeds, const std::string& fetch) {
    std::vector<Tensor> out;
    const Status status = session_->Run(feeds, {fetch}, {}, &out);
    EXPECT_TRUE(status.ok()) << status;
    return status.ok() ? out[0].scalar<double>() : NAN;
  }
  double Gradient(const Session::Feeds& feeds, size_t i) { return Value(feeds, GradientName(i)); }
  // Compares the gradients of `y` at (x, y) with finite differences.
  void Check(const std::string& y, double at_x, double at_y) {
    const Status status = AddGradientsOf(y, {"x", "y"});
    ASSERT_TRUE(status.ok()) << status;
    const auto f = [&](double a, double b) { return Value({{"x", D(a)}, {"y", D(b)}}, y); };
    const double h = 1e-5;
    const double dx = (f(at_x + h, at_y) - f(at_x - h, at_y)) / (2 * h);
    const double dy = (f(at_x, at_y + h) - f(at_x, at_y - h)) / (2 * h);
    const Session::Feeds feeds{{"x", D(at_x)}, {"y", D(at_y)}};
    EXPECT_NEAR(Gradient(feeds, 0), dx, 1e-6 * std::max(1.0, std::abs(dx)));
    EXPECT_NEAR(Gradient(feeds, 1), dy, 1e-6 * std::max(1.0, std::abs(dy)));
  }

  // Compares d^n y / dx^n and its derivative in y, for each n up to `orders`, with finite differences.
  void CheckOrders(const std::string& y, int orders, double at_x, double at_y) {
    graph_ = std::make_unique<Graph>(OpRegistry::Global());
    ASSERT_TRUE(ImportGraphDef(g_.def(), ImportOptions(), graph_.get()).ok());
    const std::vector<Output> xs{{graph_->FindNode("x"), 0}, {graph_->FindNode("y"), 0}};
    const TensorId id = ParseTensorId(y);
    std::vector<Output> derivatives{{graph_->FindNode(id.name), id.index}}, by_y;
    for (int n = 1; n <= orders; ++n) {
      const Status status = AddGradients(graph_.get(), {derivatives.back()}, xs, {}, &grads_);
      ASSERT_TRUE(status.ok()) << n << ": " << status;
      ASSERT_TRUE(grads_[0].IsSet() && grads_[1].IsSet()) << n;
      derivatives.push_back(grads_[0]);
      by_y.push_back(grads_[1]);
    }
    ASSERT_TRUE(MakeSession().ok());
    const auto value = [&](const Output& f, double a, double b) {
      return Value({{"x", D(a)}, {"y", D(b)}}, TensorId{f.node->name(), f.index}.ToString());
    };
    const double h = 1e-5;
    for (size_t n = 1; n < derivatives.size(); ++n) {
      const Output& f = derivatives[n - 1];
      const double dx = (value(f, at_x + h, at_y) - value(f, at_x - h, at_y)) / (2 * h);
      const double dy = (value(f, at_x, at_y + h) - value(f, at_x, at_y - h)) / (2 * h);
      EXPECT_NEAR(value(derivatives[n], at_x, at_y), dx, 1e-6 * std::max(1.0, std::abs(dx))) << y << n;
      EXPECT_NEAR(value(by_y[n - 1], at_x, at_y), dy, 1e-6 * std::max(1.0, std::abs(dy))) << y << n;
    }
  }

  DefBuilder g_;
  std::unique_ptr<Graph> graph_;
  std::vector<Output> grads_;
  std::unique_ptr<Session> session_;
};

TEST_P(FunctionGradientTest, CallsByName) {
  Node("call", "Product", {"x", "y"}, kDouble);
  Node("sum", "Add", {"call", "call:1"}, kDouble);
  Check("sum", 0.7, -1.3);
  EXPECT_NEAR(Gradient({{"x", D(2)}, {"y", D(3)}}, 0), 3 + std::cos(2), 1e-12);
  EXPECT_NEAR(Gradient({{"x", D(2)}, {"y", D(3)}}, 1), 2, 1e-12);
}

TEST_P(FunctionGradientTest, UnusedResultsCountAsZero) {
  for (const char* op : {"PartitionedCall", "StatefulPartitionedCall"}) {
    Node(op, op, {"x", "y"}, {{"f", Fn("Product", kDouble)}, {"Tin", Doubles(2)}, {"Tout", Doubles(2)}});
  }
  Check("PartitionedCall:1", 0.7, -1.3);
  EXPECT_NEAR(Gradient({{"x", D(2)}, {"y", D(3)}}, 0), std::cos(2), 1e-12);
  EXPECT_EQ(Gradient({{"x", D(2)}, {"y", D(3)}}, 1), 0);
  Check("StatefulPartitionedCall", 0.7, -1.3);
}

TEST_P(FunctionGradientTest, SymbolicGradientIsTheGradientOfAFunction) {
  g_.Const("one", D(1));
  g_.Const("two", D(2));
  Node("grad", "SymbolicGradient", {"x", "y", "one", "two"},
       {{"f", Fn("Product", kDouble)}, {"Tin", Doubles(4)}, {"Tout", Doubles(2)}});
  // The second derivative of 2 sin x is -2 sin x; that of xy with respect to x and y is 1.
  const Status status = AddGradientsOf("grad", {"x", "y"});
  ASSERT_TRUE(status.ok()) << status;
  const Session::Feeds feeds{{"x", D(0.5)}, {"y", D(3)}};
  EXPECT_NEAR(Value(feeds, "grad"), 3 + 2 * std::cos(0.5), 1e-12);
  EXPECT_NEAR(Value(feeds, "grad:1"), 0.5, 1e-12);
  EXPECT_NEAR(Gradient(feeds, 0), -2 * std::sin(0.5), 1e-12);
  EXPECT_NEAR(Gradient(feeds, 1), 1, 1e-12);
}

TEST_P(FunctionGradientTest, RegisteredGradientsTakePrecedence) {
  // Wrong on purpose, to show that this one runs.
  g_.Function(FunctionBuilder("ProductGrad")
                  .Arg("x: T")
                  .Arg("y: T")
                  .Arg("dxy: T")
                  .Arg("dsin: T")
                  .Ret("dx: T")
                  .Ret("dy: T")
                  .Attr("T: {float, double}")
                  .Node("neg", "Neg", {"x"}, {{"T", "$T"}})
                  .Return("dx", "neg:y")
                  .Return("dy", "dxy"));
  auto* gradient = g_.mutable_def()->mutable_library()->add_gradient();
  gradient->set_function_name("Product");
  gradient->set_gradient_func("ProductGrad");
  Node("call", "Product", {"x", "y"}, kDouble);
  const Status status = AddGradientsOf("call", {"x", "y"});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(Gradient({{"x", D(2)}, {"y", D(3)}}, 0), -2);
  EXPECT_EQ(Gradient({{"x", D(2)}, {"y", D(3)}}, 1), 1);
}

AttrMap Branches(const char* op_then, const char* op_else) {
  return {{"Tcond", DataType::kBool},
          {"Tin", Doubles(2)},
          {"Tout", Doubles(1)},
          {"then_branch", Fn(op_then, kDouble)},
          {"else_branch", Fn(op_else, kDouble)}};
}

TEST_P(FunctionGradientTest, IfTakesTheGradientOfTheBranch) {
  g_.Const("zero", D(0));
  Node("positive", "Greater", {"x", "zero"}, kDouble);
  Node("if", "StatelessIf", {"positive", "x", "y"}, Branches("Mul", "Sub"));
  Node("stateful", "If", {"positive", "x", "y"}, Branches("Mul", "Sub"));
  Check("if", 0.7, -1.3);
  EXPECT_EQ(Gradient({{"x", D(-2)}, {"y", D(3)}}, 1), -1);
  EXPECT_EQ(Gradient({{"x", D(2)}, {"y", D(3)}}, 1), 2);
  Check("stateful", -0.7, -1.3);
}

TEST_P(FunctionGradientTest, CaseTakesTheGradientOfTheBranch) {
  g_.Placeholder("i", tensorflow::DT_INT32);
  Node("case", "Case", {"i", "x", "y"},
       {{"Tin", Doubles(2)},
        {"Tout", Doubles(1)},
        {"branches", std::vector{Fn("Mul", kDouble), Fn("Sub", kDouble), Fn("Add", kDouble)}}});
  const Status status = AddGradientsOf("case", {"y"});
  ASSERT_TRUE(status.ok()) << status;
  const double expected[] = {2, -1, 1};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Gradient({{"i", Tensor::Scalar(i)}, {"x", D(2)}, {"y", D(3)}}, 0), expected[i]) << i;
  }
}

// The functions of: i from 0 to 5: x = x * y + sin x
void AddLoopFunctions(DefBuilder* g) {
  const AttrMap integer{{"T", DataType::kInt32}};
  const auto constant = [](int32_t v) -> AttrMap {
    return {{"dtype", DataType::kInt32}, {"value", Tensor::Scalar(v)}};
  };
  g->Function(FunctionBuilder("Below5")
                  .Arg("i: int32")
                  .Arg("x: double")
                  .Arg("y: double")
                  .Ret("go: bool")
                  .Node("five", "Const", {}, constant(5))
                  .Node("less", "Less", {"i", "five:output"}, integer)
                  .Return("go", "less:z"));
  g->Function(FunctionBuilder("Body")
                  .Arg("i: int32")
                  .Arg("x: double")
                  .Arg("y: double")
                  .Ret("i_next: int32")
                  .Ret("x_next: double")
                  .Ret("y_same: double")
                  .Node("one", "Const", {}, constant(1))
                  .Node("inc", "Add", {"i", "one:output"}, integer)
                  .Node("mul", "Mul", {"x", "y"}, kDouble)
                  .Node("sin", "Sin", {"x"}, kDouble)
                  .Node("add", "Add", {"mul:z", "sin:y"}, kDouble)
                  .Return("i_next", "inc:z")
                  .Return("x_next", "add:z")
                  .Return("y_same", "y"));
  g->Const("zero", Tensor::Scalar(int32_t{0}));
}
AttrMap LoopAttrs(const char* body = "Body") {
  return {{"T", std::vector{DataType::kInt32, DataType::kDouble, DataType::kDouble}},
          {"cond", Fn("Below5")},
          {"body", Fn(body)}};
}

TEST_P(FunctionGradientTest, WhileRunsTheGradientOfItsBodyBackwards) {
  AddLoopFunctions(&g_);
  for (const char* op : {"StatelessWhile", "While"}) {
    Node(op, op, {"zero", "x", "y"}, LoopAttrs());
    Check(std::string(op) + ":1", 0.7, 0.9);
  }
}

TEST_P(FunctionGradientTest, WhileHasGradientsOfHigherOrder) {
  AddLoopFunctions(&g_);
  for (const char* op : {"StatelessWhile", "While"}) {
    Node(op, op, {"zero", "x", "y"}, LoopAttrs());
    CheckOrders(std::string(op) + ":1", 3, 0.3, 0.6);
  }
}

TEST_P(FunctionGradientTest, ListsGoThroughLoops) {
  // while i < 3: list, x = push(list, x), x * y; their sum is x + xy + xyy
  const AttrMap dtype = {{"element_dtype", DataType::kDouble}};
  const AttrMap types = {{"element_dtype", DataType::kDouble}, {"shape_type", DataType::kInt32}};
  const auto signature = [](const char* name) {
    FunctionBuilder f(name);
    f.Arg("i: int32").Arg("list: variant").Arg("x: double").Arg("y: double");
    return f;
  };
  g_.Function(signature("ListUnder")
                  .Ret("b: bool")
                  .Node("three", "Const", {}, {{"dtype", DataType::kInt32}, {"value", Tensor::Scalar(3)}})
                  .Node("less", "Less", {"i", "three:output"}, {{"T", DataType::kInt32}})
                  .Return("b", "less:z"));
  g_.Function(signature("ListBody")
                  .Ret("i_next: int32")
                  .Ret("list_next: variant")
                  .Ret("x_next: double")
                  .Ret("y_same: double")
                  .Node("one", "Const", {}, {{"dtype", DataType::kInt32}, {"value", Tensor::Scalar(1)}})
                  .Node("inc", "Add", {"i", "one:output"}, {{"T", DataType::kInt32}})
                  .Node("push", "TensorListPushBack", {"list", "x"}, dtype)
                  .Node("mul", "Mul", {"x", "y"}, kDouble)
                  .Return("i_next", "inc:z")
                  .Return("list_next", "push:output_handle")
                  .Return("x_next", "mul:z")
                  .Return("y_same", "y"));
  g_.Const("start", Tensor::Scalar(0));
  g_.Const("any", Tensor::Scalar(-1));
  g_.Const("scalar", Tensor(DataType::kInt32, TensorShape({0})));
  Node("empty", "EmptyTensorList", {"any", "any"}, types);
  for (const char* op : {"StatelessWhile", "While"}) {
    const std::string name = StrCat("lists_", op);
    Node(name, op, {"start", "empty", "x", "y"},
         {{"T",
           std::vector<DataType>{DataType::kInt32, DataType::kVariant, DataType::kDouble, DataType::kDouble}},
          {"cond", Fn("ListUnder")},
          {"body", Fn("ListBody")}});
    Node(name + "_stack", "TensorListStack", {name + ":1", "scalar"}, dtype);
    Node(name + "_sum", "Sum", {name + "_stack", "start"},
         {{"T", DataType::kDouble}, {"Tidx", DataType::kInt32}});
    Check(name + "_sum", 0.7, 0.9);
  }
}

TEST_P(FunctionGradientTest, ALoopInALoopHasGradientsOfHigherOrder) {
  AddLoopFunctions(&g_);
  g_.Function(FunctionBuilder("Outer")
                  .Arg("i: int32")
                  .Arg("x: double")
                  .Arg("y: double")
                  .Ret("i_next: int32")
                  .Ret("x_next: double")
                  .Ret("y_same: double")
                  .Node("three", "Const", {}, {{"dtype", DataType::kInt32}, {"value", Tensor::Scalar(3)}})
                  .Node("inc", "Add", {"i", "three:output"}, {{"T", DataType::kInt32}})
                  .Node("inner", "StatelessWhile", {"inc:z", "x", "y"}, LoopAttrs())
                  .Node("add", "Sub", {"inner:output:1", "x"}, kDouble)
                  .Return("i_next", "inc:z")
                  .Return("x_next", "add:z")
                  .Return("y_same", "y"));
  Node("loop", "StatelessWhile", {"zero", "x", "y"}, LoopAttrs("Outer"));
  CheckOrders("loop:1", 2, 0.3, 0.6);
}

TEST_P(FunctionGradientTest, ACallOfALoopHasGradientsOfHigherOrder) {
  AddLoopFunctions(&g_);
  g_.Function(FunctionBuilder("Call")
                  .Arg("x: double")
                  .Arg("y: double")
                  .Ret("z: double")
                  .Node("start", "Const", {}, {{"dtype", DataType::kInt32}, {"value", Tensor::Scalar(2)}})
                  .Node("loop", "StatelessWhile", {"start:output", "x", "y"}, LoopAttrs())
                  .Return("z", "loop:output:1"));
  Node("call", "Call", {"x", "y"});
  CheckOrders("call", 2, 0.3, 0.6);
}

TEST_P(FunctionGradientTest, BranchesHaveGradientsOfHigherOrder) {
  AddLoopFunctions(&g_);
  // x sin(xy), and a loop
  g_.Function(FunctionBuilder("Wave")
                  .Arg("x: double")
                  .Arg("y: double")
                  .Ret("z: double")
                  .Node("xy", "Mul", {"x", "y"}, kDouble)
                  .Node("sin", "Sin", {"xy:z"}, kDouble)
                  .Node("mul", "Mul", {"x", "sin:y"}, kDouble)
                  .Return("z", "mul:z"));
  g_.Function(FunctionBuilder("Looped")
                  .Arg("x: double")
                  .Arg("y: double")
                  .Ret("z: double")
                  .Node("start", "Const", {}, {{"dtype", DataType::kInt32}, {"value", Tensor::Scalar(2)}})
                  .Node("loop", "StatelessWhile", {"start:output", "x", "y"}, LoopAttrs())
                  .Return("z", "loop:output:1"));
  g_.Const("minus", D(-1));
  Node("positive", "Greater", {"x", "minus"}, kDouble);
  AttrMap branches = Branches("Wave", "Looped");
  for (const char* branch : {"then_branch", "else_branch"})
    branches.Set(branch, Fn(branch[0] == 't' ? "Wave" : "Looped"));
  Node("if", "StatelessIf", {"positive", "x", "y"}, branches);
  CheckOrders("if", 3, 0.3, 0.6);
  CheckOrders("if", 2, -1.3, 0.6);
  g_.Const("one", Tensor::Scalar(int32_t{1}));
  for (const char* index : {"zero", "one"}) {
    Node(StrCat("case_", index), "Case", {index, "x", "y"},
         {{"Tin", Doubles(2)}, {"Tout", Doubles(1)}, {"branches", std::vector{Fn("Wave"), Fn("Looped")}}});
    CheckOrders(StrCat("case_", index), 2, 0.3, 0.6);
  }
}

TEST_P(FunctionGradientTest, ListConvertersPassGradientsOn) {
  const AttrMap array{{"Tin", Doubles(2)}, {"T", DataType::kDouble}, {"N", 2}};
  const AttrMap list{{"out_types", Doubles(2)}, {"T", DataType::kDouble}, {"N", 2}};
  g_.Function(FunctionBuilder("Convert")
                  .Arg("x: double")
                  .Arg("y: double")
                  .Ret("z: double")
                  .Node("array", "_ListToArray", {"x", "y"}, array)
                  .Node("list", "_ArrayToList", {"array:output"}, list)
                  .Node("sub", "Sub", {"list:output:0", "list:output:1"}, kDouble)
                  .Return("z", "sub:z"));
  Node("call", "Convert", {"x", "y"});
  Check("call", 0.7, -1.3);
}

TEST_P(FunctionGradientTest, RecursiveFunctionsAreDifferentiated) {
  // Power(n, x) = n > 0 ? x * Power(n - 1, x) : 1
  const std::vector<DataType> in{DataType::kInt32, DataType::kDouble};
  g_.Function(FunctionBuilder("One")
                  .Arg("n: int32")
                  .Arg("x: double")
                  .Ret("y: double")
                  .Node("one", "OnesLike", {"x"}, kDouble)
                  .Return("y", "one:y"));
  g_.Function(FunctionBuilder("Step")
                  .Arg("n: int32")
                  .Arg("x: double")
                  .Ret("y: double")
                  .Node("one", "OnesLike", {"n"}, {{"T", DataType::kInt32}})
                  .Node("less", "Sub", {"n", "one:y"}, {{"T", DataType::kInt32}})
                  .Node("rest", "Power", {"less:z", "x"})
                  .Node("mul", "Mul", {"x", "rest:y"}, kDouble)
                  .Return("y", "mul:z"));
  g_.Function(FunctionBuilder("Power")
                  .Arg("n: int32")
                  .Arg("x: double")
                  .Ret("y: double")
                  .Node("if", "StatelessIf", {"n", "n", "x"},
                        {{"Tcond", DataType::kInt32},
                         {"Tin", in},
                         {"Tout", Doubles(1)},
                         {"then_branch", Fn("Step")},
                         {"else_branch", Fn("One")}})
                  .Return("y", "if:output"));
  g_.Placeholder("n", tensorflow::DT_INT32);
  Node("power", "Power", {"n", "x"});
  const Status status = AddGradientsOf("power", {"x"});
  ASSERT_TRUE(status.ok()) << status;
  for (int n = 0; n < 6; ++n) {
    EXPECT_NEAR(Gradient({{"n", Tensor::Scalar(n)}, {"x", D(1.5)}}, 0), n * std::pow(1.5, n - 1), 1e-12) << n;
  }
}

TEST_P(FunctionGradientTest, RandomNumbersAreDrawnOnce) {
  g_.Function(FunctionBuilder("Noisy")
                  .Arg("x: double")
                  .Ret("y: double")
                  .Stateful()
                  .Node("shape", "Shape", {"x"}, kDouble)
                  .Node("noise", "RandomUniform", {"shape:output"},
                        {{"T", DataType::kInt32}, {"dtype", DataType::kDouble}})
                  .Node("mul", "Mul", {"x", "noise:output"}, kDouble)
                  .Return("y", "mul:z"));
  Node("call", "Noisy", {"x"});
  ASSERT_TRUE(AddGradientsOf("call", {"x"}).ok());
  std::vector<Tensor> out;
  ASSERT_TRUE(session_->Run({{"x", D(2)}}, {"call:0", GradientName(0)}, {}, &out).ok());
  const double noise = out[1].scalar<double>();
  EXPECT_GT(noise, 0);
  EXPECT_LT(noise, 1);
  EXPECT_DOUBLE_EQ(out[0].scalar<double>(), 2 * noise);
}

TEST_P(FunctionGradientTest, VariablesBehindResourcesAreDifferentiated) {
  g_.Function(FunctionBuilder("Scale")
                  .Arg("v: resource")
                  .Arg("x: double")
                  .Ret("y: double")
                  .Stateful()
                  .Node("read", "ReadVariableOp", {"v"}, {{"dtype", DataType::kDouble}})
                  .Node("mul", "Mul", {"read:value", "x"}, kDouble)
                  .Return("y", "mul:z"));
  Node("v", "VarHandleOp", {}, {{"dtype", DataType::kDouble}, {"shape", PartialShape{}}});
  g_.Const("three", D(3));
  Node("init", "AssignVariableOp", {"v", "three"}, {{"dtype", DataType::kDouble}});
  Node("call", "Scale", {"v", "x"});
  const Status status = AddGradientsOf("call", {"v", "x"});
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_TRUE(session_->Run({}, {}, {"init"}, nullptr).ok());
  EXPECT_EQ(Gradient({{"x", D(5)}}, 0), 5);
  EXPECT_EQ(Gradient({{"x", D(5)}}, 1), 3);
}

// A call may return the handle of a variable.
TEST_P(FunctionGradientTest, WhatACallHandsOutIsNotChangedTwice) {
  g_.Function(
      FunctionBuilder("Handle")
          .Ret("v: resource")
          .Stateful()
          .NoInline()
          .Node("v", "VarHandleOp", {},
                {{"dtype", DataType::kDouble}, {"shape", PartialShape{}}, {"shared_name", std::string("v")}},
                DeviceOfSharedState())
          .Return("v", "v:resource"));
  g_.Function(FunctionBuilder("Bump")
                  .Arg("x: double")
                  .Ret("y: double")
                  .Stateful()
                  .NoInline()
                  .Node("v", "Handle", {})
                  .Node("bump", "AssignAddVariableOp", {"v:v", "x"}, {{"dtype", DataType::kDouble}},
                        DeviceOfSharedState())
                  .Node("held", "Identity", {"x", "^bump"}, kDouble)
                  .Node("y", "Mul", {"held:output", "x"}, kDouble)
                  .Return("y", "y:z"));
  const AttrMap of_variable{
      {"dtype", DataType::kDouble}, {"shape", PartialShape{}}, {"shared_name", std::string("v")}};
  auto* const handle = g_.Node("v", "VarHandleOp", {}, of_variable);
  handle->set_device(DeviceOfSharedState());
  g_.Const("three", D(3));
  Node("init", "AssignVariableOp", {"v", "three"}, {{"dtype", DataType::kDouble}});
  Node("read", "ReadVariableOp", {"v"}, {{"dtype", DataType::kDouble}});
  Node("call", "Bump", {"x"});
  ASSERT_TRUE(AddGradientsOf("call", {"x"}).ok());
  ASSERT_TRUE(session_->Run({}, {}, {"init"}, nullptr).ok());
  std::vector<Tensor> out;
  ASSERT_EQ(session_->Run({{"x", D(1)}}, {GradientName(0), "call:0"}, {}, &out), Status());
  EXPECT_DOUBLE_EQ(out[0].scalar<double>(), 2);
  EXPECT_DOUBLE_EQ(out[1].scalar<double>(), 1);
  ASSERT_TRUE(session_->Run({}, {"read:0"}, {}, &out).ok());
  EXPECT_DOUBLE_EQ(out[0].scalar<double>(), 4);
}

TEST_P(FunctionGradientTest, ForAndRemoteCallHaveNone) {
  g_.Function(FunctionBuilder("Keep")
                  .Arg("i: int32")
                  .Arg("x: double")
                  .Ret("y: double")
                  .Node("same", "Identity", {"x"}, kDouble)
                  .Return("y", "same:output"));
  g_.Const("zero", Tensor::Scalar<int32_t>(0));
  g_.Const("one", Tensor::Scalar<int32_t>(1));
  g_.Const("where", Tensor::Scalar("/cpu:0"));
  Node("for", "For", {"zero", "one", "one", "x"}, {{"T", Doubles(1)}, {"body", Fn("Keep")}});
  Node("remote", "RemoteCall", {"where", "x", "y"},
       {{"f", Fn("Product", kDouble)}, {"Tin", Doubles(2)}, {"Tout", Doubles(2)}});
  EXPECT_THAT(AddGradientsOf("for", {"x"}).message(), HasSubstr("No gradient defined for op: For"));
  EXPECT_THAT(AddGradientsOf("remote", {"x"}).message(), HasSubstr("No gradient defined for op: RemoteCall"));
}

INSTANTIATE_TEST_SUITE_P(, FunctionGradientTest, ::testing::Bool(),
                         [](const auto& row) { return row.param ? "Inlined" : "Called"; });

}  // namespace
}  // namespace millrace
