// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Conditions and loops over functions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "tests/session/function_fixture.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

using FunctionControlTest = FunctionTest;

AttrMap IfAttrs(DataType cond, const char* then_branch, const char* else_branch) {
  return {{"Tcond", cond},
          {"Tin", Types(1)},
          {"Tout", Types(1)},
          {"then_branch", Fn(then_branch, kFloat)},
          {"else_branch", Fn(else_branch, kFloat)}};
}

TEST_P(FunctionControlTest, IfChoosesByTheTruthOfAnyType) {
  g_.Placeholder("x");
  struct Row {
    const char* name;
    Tensor value;
    bool truth;
  };
  const Row rows[] = {{"b1", Tensor::Scalar(true), true},
                      {"b0", Tensor::Scalar(false), false},
                      {"i", I(-3), true},
                      {"i0", I(0), false},
                      {"d", Tensor::Scalar(0.5), true},
                      {"d0", Tensor::Scalar(-0.0), false},
                      {"nan", F(std::numeric_limits<float>::quiet_NaN()), true},
                      {"u8", Tensor::Scalar(uint8_t{200}), true},
                      {"s", Tensor::Scalar("no"), true},
                      {"s0", Tensor::Scalar(""), false},
                      {"list", Tensor::Vector<int64_t>({0}), true},
                      {"empty", Tensor::Vector<int64_t>({}), false}};
  for (const Row& row : rows) {
    g_.Const(row.name, row.value);
    Node(std::string("if_") + row.name, "StatelessIf", {row.name, "x"},
         IfAttrs(row.value.dtype(), "Neg", "Identity"));
  }
  g_.Const("c", Tensor::Scalar(complex64(1, 0)));
  Node("if_c", "If", {"c", "x"}, IfAttrs(DataType::kComplex64, "Neg", "Identity"));
  Make();
  for (const Row& row : rows) {
    EXPECT_EQ(Value({{"x", F(2)}}, std::string("if_") + row.name), row.truth ? -2.f : 2.f) << row.name;
  }
  EXPECT_THAT(Error({{"x", F(2)}}, "if_c"), HasSubstr("The complex64 cannot be converted to a boolean"));
}

TEST_P(FunctionControlTest, CaseFallsBackToTheLastBranch) {
  g_.Placeholder("i", tensorflow::DT_INT32);
  g_.Placeholder("x");
  Node("case", "Case", {"i", "x"},
       {{"Tin", Types(1)},
        {"Tout", Types(1)},
        {"branches", std::vector{Fn("Neg", kFloat), Fn("Square", kFloat), Fn("Identity", kFloat)}}});
  Make();
  const float expected[] = {3, -3, 9, 3, 3};
  for (int i = -1; i < 4; ++i) EXPECT_EQ(Value({{"i", I(i)}, {"x", F(3)}}, "case"), expected[i + 1]) << i;
}

TEST_P(FunctionControlTest, WhileRunsItsBodyAsLongAsTheConditionHolds) {
  AddSumLoop(&g_);
  Make();
  for (const int n : {-1, 0, 1, 2, 100}) {
    EXPECT_EQ(Value<int32_t>({{"n", I(n)}}, "loop:2"), n <= 0 ? 0 : n * (n - 1) / 2) << n;
    EXPECT_EQ(Value<int32_t>({{"n", I(n)}}, "loop"), std::max(n, 0));
  }
}

TEST_P(FunctionControlTest, AMillionIterationsNeedNoDeeperStack) {
  AddSumLoop(&g_, "While");
  Make();
  // Messages between tasks and copies by streams take longer than an iteration.
  const int n = InCluster() || OnFakeDevices() ? 2'000 : 1'000'000;
  EXPECT_EQ(Value<int32_t>({{"n", I(n)}}, "loop"), n);
}

TEST_P(FunctionControlTest, LoopsWithoutEndAreCancelled) {
  g_.Function(FunctionBuilder("Always")
                  .Arg("x: float")
                  .Ret("go: bool")
                  .Node("true", "Const", {}, ConstOf(Tensor::Scalar(true)))
                  .Return("go", "true:output"));
  g_.Placeholder("x");
  Node("loop", "While", {"x"}, {{"T", Types(1)}, {"cond", Fn("Always")}, {"body", Fn("Identity", kFloat)}});
  Make();
  RunOptions options;
  options.timeout_in_ms = 20;
  std::vector<Tensor> out;
  const Status timed_out = session_->Run(options, {{"x", F(1)}}, {"loop"}, {}, &out, nullptr);
  EXPECT_TRUE(errors::IsDeadlineExceeded(timed_out)) << timed_out;
  std::thread closer([this] { session_->Close().IgnoreError("closing can't fail"); });
  const Status closed = session_->Run({{"x", F(1)}}, {"loop"}, {}, &out);
  closer.join();
  EXPECT_TRUE(errors::IsCancelled(closed)) << closed;
}

TEST_P(FunctionControlTest, ForCountsInBothDirections) {
  g_.Function(FunctionBuilder("AddIndex")
                  .Arg("i: int32")
                  .Arg("sum: int32")
                  .Ret("total: int32")
                  .Node("add", "Add", {"sum", "i"}, kInt)
                  .Return("total", "add:z"));
  for (const char* name : {"start", "limit", "delta"}) g_.Placeholder(name, tensorflow::DT_INT32);
  g_.Const("zero", I(0));
  Node("for", "For", {"start", "limit", "delta", "zero"},
       {{"T", Types(1, DataType::kInt32)}, {"body", Fn("AddIndex")}});
  Make();
  const auto feeds = [](int start, int limit, int delta) {
    return Session::Feeds{{"start", I(start)}, {"limit", I(limit)}, {"delta", I(delta)}};
  };
  EXPECT_EQ(Value<int32_t>(feeds(0, 5, 1), "for"), 10);
  EXPECT_EQ(Value<int32_t>(feeds(0, 5, 2), "for"), 6);
  EXPECT_EQ(Value<int32_t>(feeds(5, 0, -2), "for"), 9);
  EXPECT_EQ(Value<int32_t>(feeds(3, 3, 0), "for"), 0);
  EXPECT_EQ(Value<int32_t>(feeds(2147483646, 2147483647, 2), "for"), 2147483646) << "no overflow";
  EXPECT_THAT(Error(feeds(0, 5, -1), "for"), HasSubstr("Invalid start/limit/delta: 0 5 -1"));
  EXPECT_THAT(Error(feeds(0, 5, 0), "for"), HasSubstr("Invalid start/limit/delta: 0 5 0"));
}

// A loop of primitives with effects, in a body: the control inputs of the call precede the effects, the
// control outputs follow them.
TEST_P(FunctionControlTest, LoopsInBodiesKeepTheOrderOfEffects) {
  const auto enter = [](DataType type, bool constant) -> AttrMap {
    return {{"T", type}, {"frame_name", std::string("loop")}, {"is_constant", constant}};
  };
  g_.Function(
      FunctionBuilder("CountUp")
          .Arg("v: resource")
          .Arg("n: float")
          .Ret("last: float")
          .Stateful()
          .Node("zero", "Const", {}, ConstOf(F(0)))
          .Node("v_in", "Enter", {"v"}, enter(DataType::kResource, true))
          .Node("n_in", "Enter", {"n"}, enter(DataType::kFloat, true))
          .Node("enter", "Enter", {"zero:output"}, enter(DataType::kFloat, false))
          .Node("merge", "Merge", {"enter:output", "next:output"}, {{"T", DataType::kFloat}, {"N", 2}})
          .Node("less", "Less", {"merge:output", "n_in:output"}, kFloat)
          .Node("cond", "LoopCond", {"less:z"})
          .Node("way", "Switch", {"merge:output", "cond:output"}, kFloat)
          .Node("i", "Identity", {"way:output_true"}, kFloat)
          .Node("one", "Const", {"^i"}, ConstOf(F(1)))
          .Node("add", "AssignAddVariableOp", {"v_in:output", "one:output"}, {{"dtype", DataType::kFloat}})
          .Node("inc", "Add", {"i:output", "one:output", "^add"}, kFloat)
          .Node("next", "NextIteration", {"inc:z"}, kFloat)
          .Node("exit", "Exit", {"way:output_false"}, kFloat)
          .Return("last", "exit:output"));
  Node("v", "VarHandleOp", {}, {{"dtype", DataType::kFloat}, {"shape", PartialShape(TensorShape())}});
  g_.Const("ten", F(10));
  g_.Placeholder("n");
  Node("init", "AssignVariableOp", {"v", "ten"}, {{"dtype", DataType::kFloat}});
  Node("call", "StatefulPartitionedCall", {"v", "n", "^init"},
       {{"f", Fn("CountUp")},
        {"Tin", std::vector{DataType::kResource, DataType::kFloat}},
        {"Tout", Types(1)}});
  Node("read", "ReadVariableOp", {"v", "^call"}, {{"dtype", DataType::kFloat}});
  Make();
  for (const float n : {0.f, 1.f, 3.f, 50.f}) EXPECT_EQ(Value({{"n", F(n)}}, "read"), 10 + n);
}

// A branch of primitives with effects, in a body: nodes that wait for the call run after either branch, but
// not if the call itself is in a branch that is not taken.
TEST_P(FunctionControlTest, BranchesWithEffectsInBodiesEndTheCallEitherWay) {
  g_.Function(FunctionBuilder("AddIf")
                  .Arg("v: resource")
                  .Arg("p: bool")
                  .Ret("same: bool")
                  .Stateful()
                  .Node("way", "Switch", {"p", "p"}, {{"T", DataType::kBool}})
                  .Node("taken", "Identity", {"way:output_true"}, {{"T", DataType::kBool}})
                  .Node("one", "Const", {"^taken"}, ConstOf(F(1)))
                  .Node("add", "AssignAddVariableOp", {"v", "one:output"}, {{"dtype", DataType::kFloat}})
                  .Return("same", "p"));
  Node("v", "VarHandleOp", {}, {{"dtype", DataType::kFloat}, {"shape", PartialShape(TensorShape())}});
  g_.Const("ten", F(10));
  g_.Placeholder("p", tensorflow::DT_BOOL);
  g_.Placeholder("q", tensorflow::DT_BOOL);
  Node("init", "AssignVariableOp", {"v", "ten"}, {{"dtype", DataType::kFloat}});
  const AttrMap call = {{"f", Fn("AddIf")},
                        {"Tin", std::vector{DataType::kResource, DataType::kBool}},
                        {"Tout", Types(1, DataType::kBool)}};
  Node("call", "StatefulPartitionedCall", {"v", "p", "^init"}, call);
  Node("read", "ReadVariableOp", {"v", "^call"}, {{"dtype", DataType::kFloat}});
  // The same in the branch that q selects.
  Node("outer", "Switch", {"p", "q"}, {{"T", DataType::kBool}});
  Node("inner_call", "StatefulPartitionedCall", {"v", "outer:1", "^init"}, call);
  Node("seen", "Const", {"^inner_call"}, ConstOf(F(1)));
  Node("otherwise", "Identity", {"outer"}, {{"T", DataType::kBool}});
  Node("unseen", "Const", {"^otherwise"}, ConstOf(F(2)));
  Node("which", "Merge", {"seen", "unseen"}, {{"T", DataType::kFloat}, {"N", 2}});
  Make();
  const auto truth = [](bool b) { return Tensor::Scalar(b); };
  EXPECT_EQ(Value({{"p", truth(true)}}, "read"), 11);
  EXPECT_EQ(Value({{"p", truth(false)}}, "read"), 10);
  for (const bool p : {false, true}) {
    EXPECT_EQ(Value({{"p", truth(p)}, {"q", truth(true)}}, "which"), 1) << p;
    EXPECT_EQ(Value({{"p", truth(p)}, {"q", truth(false)}}, "which"), 2) << p;
  }
}

AttrMap Lowered(AttrMap attrs) {
  attrs.Set("_lower_using_switch_merge", true);
  return attrs;
}

TEST_P(FunctionControlTest, LoweredConditionsGiveTheSame) {
  g_.Placeholder("x");
  g_.Placeholder("p", tensorflow::DT_BOOL);
  g_.Placeholder("i", tensorflow::DT_INT32);
  Node("if", "StatelessIf", {"p", "x"}, Lowered(IfAttrs(DataType::kBool, "Neg", "Square")));
  // A branch that uses no input, and a condition within another.
  g_.Function(FunctionBuilder("Seven")
                  .Arg("x: float")
                  .Ret("y: float")
                  .Node("c", "Const", {}, ConstOf(F(7)))
                  .Return("y", "c:output"));
  g_.Function(FunctionBuilder("Inner")
                  .Arg("x: float")
                  .Ret("y: float")
                  .Node("zero", "Const", {}, ConstOf(F(0)))
                  .Node("positive", "Greater", {"x", "zero:output"}, kFloat)
                  .Node("if", "StatelessIf", {"positive:z", "x"},
                        Lowered({{"Tcond", DataType::kBool},
                                 {"Tin", Types(1)},
                                 {"Tout", Types(1)},
                                 {"then_branch", Fn("Seven")},
                                 {"else_branch", Fn("Neg", kFloat)}}))
                  .Return("y", "if:output"));
  Node("case", "Case", {"i", "x"},
       Lowered({{"Tin", Types(1)},
                {"Tout", Types(1)},
                {"branches", std::vector{Fn("Seven"), Fn("Inner"), Fn("Square", kFloat)}}}));
  Node("sum", "Add", {"case", "if"}, kFloat);
  g_.Add("after", "NoOp", {"^case", "^if"});
  Make();
  for (const float x : {-3.f, 3.f}) {
    for (const bool p : {false, true}) {
      for (const int i : {-1, 0, 1, 2, 5}) {
        const float by_if = p ? -x : x * x;
        const float by_case = i == 0 ? 7.f : i == 1 ? (x > 0 ? 7.f : -x) : x * x;
        const Session::Feeds feeds{{"x", F(x)}, {"p", Tensor::Scalar(p)}, {"i", I(i)}};
        EXPECT_EQ(Value(feeds, "sum"), by_if + by_case) << x << " " << p << " " << i;
        std::vector<Tensor> none;
        EXPECT_TRUE(session_->Run(feeds, {}, {"after"}, &none).ok());
      }
    }
  }
}

TEST_P(FunctionControlTest, LoweredLoopsGiveTheSame) {
  AddSumLoop(&g_);
  AttrMapToProto(Lowered({{"T", Types(3, DataType::kInt32)}, {"cond", Fn("Under")}, {"body", Fn("AddUp")}}),
                 g_.Add("lowered", "While", {"zero", "n", "zero"})->mutable_attr());
  // A loop in the body of a loop: the sum over k < n of the sums up to k.
  g_.Function(
      FunctionBuilder("InnerSum")
          .Arg("i: int32")
          .Arg("n: int32")
          .Arg("sum: int32")
          .Ret("next: int32")
          .Ret("same: int32")
          .Ret("total: int32")
          .Node("one", "Const", {}, ConstOf(I(1)))
          .Node("zero", "Const", {}, ConstOf(I(0)))
          .Node("inc", "Add", {"i", "one:output"}, kInt)
          .Node("loop", "While", {"zero:output", "i", "sum"},
                Lowered({{"T", Types(3, DataType::kInt32)}, {"cond", Fn("Under")}, {"body", Fn("AddUp")}}))
          .Return("next", "inc:z")
          .Return("same", "n")
          .Return("total", "loop:output:2"));
  AttrMapToProto(
      Lowered({{"T", Types(3, DataType::kInt32)}, {"cond", Fn("Under")}, {"body", Fn("InnerSum")}}),
      g_.Add("nested", "StatelessWhile", {"zero", "n", "zero"})->mutable_attr());
  Make();
  for (const int n : {0, 1, 2, 20}) {
    EXPECT_EQ(Value<int32_t>({{"n", I(n)}}, "lowered:2"), n * (n - 1) / 2) << n;
    EXPECT_EQ(Value<int32_t>({{"n", I(n)}}, "nested:2"), n * (n - 1) * (n - 2) / 6) << n;
  }
}

TEST_P(FunctionControlTest, FakeParamIsAnEmptyPlaceHolder) {
  Node("p", "FakeParam", {}, {{"dtype", DataType::kFloat}, {"shape", PartialShape{2, -1}}});
  Node("known", "FakeParam", {}, {{"dtype", DataType::kString}, {"shape", PartialShape{2}}});
  Make();
  EXPECT_EQ(Run({}, "p")->shape(), TensorShape({2, 0}));
  EXPECT_EQ(Run({}, "known")->shape(), TensorShape({2}));
}

INSTANTIATE_TEST_SUITE_P(, FunctionControlTest, FunctionSetups(),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace millrace
