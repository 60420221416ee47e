// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Calls of functions that have to wait: for a queue, for other devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "tests/session/function_fixture.h"
#include "tests/session/small_stack.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

class FunctionWaitTest : public FunctionTest {
 protected:
  void Queue(const std::string& name, DataType type = DataType::kFloat, int64_t capacity = -1) {
    Node(name, "FIFOQueueV2", {},
         {{"component_types", Types(1, type)},
          {"shapes", std::vector<PartialShape>{TensorShape()}},
          {"capacity", capacity}});
  }
  void Put(const std::string& name, const std::string& queue, const std::string& value,
           DataType type = DataType::kFloat) {
    Node(name, "QueueEnqueueV2", {queue, value}, {{"Tcomponents", Types(1, type)}});
  }
  // y = x + an element of q
  void TakeAndAdd() {
    g_.Function(FunctionBuilder("Take")
                    .Arg("q: resource")
                    .Arg("x: float")
                    .Ret("y: float")
                    .Stateful()
                    .NoInline()
                    .Node("take", "QueueDequeueV2", {"q"}, {{"component_types", Types(1)}})
                    .Node("add", "Add", {"x", "take:components:0"}, kFloat)
                    .Return("y", "add:z"));
  }
  Status RunFor(int64_t timeout_in_ms, const Session::Feeds& feeds, const std::string& fetch,
                const std::vector<std::string>& targets, float expected) {
    RunOptions options;
    options.timeout_in_ms = timeout_in_ms;
    std::vector<Tensor> out;
    MR_RETURN_IF_ERROR(session_->Run(options, feeds, {fetch}, targets, &out, nullptr));
    EXPECT_EQ(out[0].scalar<float>(), expected);
    return Status();
  }
  // Runs the node with its inputs repeatedly.
  void ExpectServed(const std::string& fetch, const std::vector<std::string>& targets, float expected) {
    Make();
    for (int round = 0; round < 20; ++round) {
      const Status status = RunFor(10'000, {}, fetch, targets, expected);
      ASSERT_TRUE(status.ok()) << status;
    }
  }
  const AttrMap kCallAttrs = {
      {"f", Fn("Take")}, {"Tin", std::vector{DataType::kResource, DataType::kFloat}}, {"Tout", Types(1)}};
};

TEST_P(FunctionWaitTest, WaitingCallsHoldNoThread) {
  constexpr int kCalls = 8;
  TakeAndAdd();
  Queue("q");
  std::vector<std::string> taken, puts;
  for (int i = 0; i < kCalls; ++i) {
    g_.Const(StrCat("value", i), F(static_cast<float>(1 << i)));
    taken.push_back(StrCat("take", i));
    if (i % 2 == 0) {
      Node(taken.back(), "StatefulPartitionedCall", {"q", StrCat("value", i)}, kCallAttrs);
    } else {
      g_.Add(taken.back(), "Take", {"q", StrCat("value", i)});
    }
    puts.push_back(StrCat("put", i));
    Put(puts.back(), "q", StrCat("value", i));
  }
  Node("sum", "AddN", taken, {{"N", kCalls}, {"T", DataType::kFloat}});
  ExpectServed("sum", puts, 2 * 255.f);
}

// A call waits for the result of another call, which waits for a third, and so on.
TEST_P(FunctionWaitTest, CallsThatWaitForOneAnotherNeedNoDeepStack) {
  constexpr int kCalls = 3000;
  g_.Function(FunctionBuilder("Pass")
                  .Arg("from: resource")
                  .Arg("to: resource")
                  .Ret("y: float")
                  .Stateful()
                  .NoInline()
                  .Node("take", "QueueDequeueV2", {"from"}, {{"component_types", Types(1)}})
                  .Node("put", "QueueEnqueueV2", {"to", "take:components:0"}, {{"Tcomponents", Types(1)}})
                  .Node("y", "Identity", {"take:components:0", "^put"}, kFloat)
                  .Return("y", "y:output"));
  std::vector<std::string> passed;
  Queue("q0");
  for (int i = 0; i < kCalls; ++i) {
    Queue(StrCat("q", i + 1));
    passed.push_back(StrCat("pass", i));
    g_.Add(passed.back(), "Pass", {StrCat("q", i), StrCat("q", i + 1)});
  }
  g_.Const("one", F(1));
  Put("put", "q0", "one");
  Node("sum", "AddN", passed, {{"N", kCalls}, {"T", DataType::kFloat}});
  Make();
  const Status status = RunFor(20'000, {}, "sum", {"put"}, kCalls);
  EXPECT_TRUE(status.ok()) << status;
}

TEST_P(FunctionWaitTest, BranchesMayWait) {
  TakeAndAdd();
  g_.Function(FunctionBuilder("Second")
                  .Arg("q: resource")
                  .Arg("x: float")
                  .Ret("y: float")
                  .Node("y", "Identity", {"x"}, kFloat)
                  .Return("y", "y:output"));
  Queue("q");
  g_.Const("one", F(1));
  g_.Const("yes", Tensor::Scalar(true));
  g_.Const("zero", I(0));
  Put("put_a", "q", "one");
  Put("put_b", "q", "one");
  const std::vector<DataType> in{DataType::kResource, DataType::kFloat};
  Node("if", "If", {"yes", "q", "one"},
       {{"Tcond", DataType::kBool},
        {"Tin", in},
        {"Tout", Types(1)},
        {"then_branch", Fn("Take")},
        {"else_branch", Fn("Second")}});
  Node("case", "Case", {"zero", "q", "one"},
       {{"Tin", in}, {"Tout", Types(1)}, {"branches", std::vector{Fn("Take"), Fn("Second")}}});
  Node("sum", "Add", {"if", "case"}, kFloat);
  ExpectServed("sum", {"put_a", "put_b"}, 4);
}

TEST_P(FunctionWaitTest, LoopsMayWaitInEachIteration) {
  TakeAndAdd();
  g_.Function(FunctionBuilder("Go")
                  .Arg("i: int32")
                  .Arg("q: resource")
                  .Arg("x: float")
                  .Ret("go: bool")
                  .Node("n", "Const", {}, ConstOf(I(5)))
                  .Node("less", "Less", {"i", "n:output"}, kInt)
                  .Return("go", "less:z"));
  g_.Function(FunctionBuilder("TakeOne")
                  .Arg("i: int32")
                  .Arg("q: resource")
                  .Arg("x: float")
                  .Ret("i_out: int32")
                  .Ret("q_out: resource")
                  .Ret("x_out: float")
                  .Stateful()
                  .Node("one", "Const", {}, ConstOf(I(1)))
                  .Node("next", "Add", {"i", "one:output"}, kInt)
                  .Node("take", "Take", {"q", "x"})
                  .Return("i_out", "next:z")
                  .Return("q_out", "q")
                  .Return("x_out", "take:y"));
  g_.Function(FunctionBuilder("TakeAt")
                  .Arg("i: int32")
                  .Arg("q: resource")
                  .Arg("x: float")
                  .Ret("q_out: resource")
                  .Ret("x_out: float")
                  .Stateful()
                  .Node("take", "Take", {"q", "x"})
                  .Return("q_out", "q")
                  .Return("x_out", "take:y"));
  Queue("q");
  g_.Const("zero", I(0));
  g_.Const("five", I(5));
  g_.Const("one", I(1));
  g_.Const("x", F(0));
  g_.Const("many", Tensor::Vector<float>({1, 1, 1, 1, 1, 1, 1, 1, 1, 1}));
  Node("put", "QueueEnqueueManyV2", {"q", "many"}, {{"Tcomponents", Types(1)}});
  const std::vector<DataType> types{DataType::kInt32, DataType::kResource, DataType::kFloat};
  Node("while", "While", {"zero", "q", "x"}, {{"T", types}, {"cond", Fn("Go")}, {"body", Fn("TakeOne")}});
  Node("for", "For", {"zero", "five", "one", "q", "x"},
       {{"T", std::vector{DataType::kResource, DataType::kFloat}}, {"body", Fn("TakeAt")}});
  Node("sum", "Add", {"while:2", "for:1"}, kFloat);
  ExpectServed("sum", {"put"}, 10);
}

// Two loops that exchange a token: each waits in each iteration.
TEST_P(FunctionWaitTest, AHundredThousandWaitsNeedNoDeeperStack) {
  const int rounds = InCluster() ? 2'000 : 50'000;
  g_.Function(
      FunctionBuilder("Bounce")
          .Arg("i: int32")
          .Arg("from: resource")
          .Arg("to: resource")
          .Arg("sum: int32")
          .Ret("from_out: resource")
          .Ret("to_out: resource")
          .Ret("sum_out: int32")
          .Stateful()
          .Node("take", "QueueDequeueV2", {"from"}, {{"component_types", Types(1, DataType::kInt32)}})
          .Node("one", "Const", {}, ConstOf(I(1)))
          .Node("next", "Add", {"take:components:0", "one:output"}, kInt)
          .Node("put", "QueueEnqueueV2", {"to", "next:z"}, {{"Tcomponents", Types(1, DataType::kInt32)}})
          .Return("from_out", "from")
          .Return("to_out", "to")
          .Return("sum_out", "next:z"));
  Queue("a", DataType::kInt32, 1);
  Queue("b", DataType::kInt32, 1);
  g_.Const("zero", I(0));
  g_.Const("one", I(1));
  g_.Const("rounds", I(rounds));
  Put("put", "a", "zero", DataType::kInt32);
  const AttrMap attrs{{"T", std::vector{DataType::kResource, DataType::kResource, DataType::kInt32}},
                      {"body", Fn("Bounce")}};
  Node("ping", "For", {"zero", "rounds", "one", "a", "b", "zero"}, attrs);
  Node("pong", "For", {"zero", "rounds", "one", "b", "a", "zero"}, attrs);
  Node("last", "Maximum", {"ping:2", "pong:2"}, kInt);
  Make();
  RunOptions options;
  options.timeout_in_ms = 60'000;
  std::vector<Tensor> out;
  const Status status = session_->Run(options, {}, {"last"}, {"put"}, &out, nullptr);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(out[0].scalar<int32_t>(), 2 * rounds);
}

TEST_P(FunctionWaitTest, CallsWithinCallsMayWait) {
  TakeAndAdd();
  std::string inner = "Take";
  for (int i = 0; i < 100; ++i) {
    const std::string name = StrCat("Level", i);
    g_.Function(FunctionBuilder(name)
                    .Arg("q: resource")
                    .Arg("x: float")
                    .Ret("y: float")
                    .Stateful()
                    .NoInline()
                    .Node("call", inner, {"q", "x"})
                    .Return("y", "call:y"));
    inner = name;
  }
  Queue("q");
  g_.Const("x", F(1));
  Put("put", "q", "x");
  g_.Add("call", inner, {"q", "x"});
  ExpectServed("call", {"put"}, 2);
}

TEST_P(FunctionWaitTest, RecursionThatMayWaitIsBounded) {
  g_.Function(FunctionBuilder("Forever")
                  .Arg("q: resource")
                  .Arg("x: float")
                  .Ret("y: float")
                  .Stateful()
                  .Node("size", "QueueSizeV2", {"q"})
                  .Node("call", "Forever", {"q", "x", "^size"})
                  .Node("take", "QueueDequeueV2", {"q", "^call"}, {{"component_types", Types(1)}})
                  .Return("y", "call:y"));
  Queue("q");
  g_.Const("x", F(1));
  g_.Add("call", "Forever", {"q", "x"});
  Make();
  EXPECT_THAT(Error({}, "call"), HasSubstr("is called at a depth beyond 1000"));
  std::string error;
  CallWithSmallStack([&] { error = Error({}, "call"); });
  EXPECT_THAT(error, HasSubstr("is called at a depth beyond 1000"));
}

TEST_P(FunctionWaitTest, WaitingCallsAreCancelled) {
  TakeAndAdd();
  Queue("q");
  g_.Const("one", F(1));
  for (int i = 0; i < 3; ++i) {
    g_.Add(StrCat("take", i), "Take", {"q", "one"});
    Put(StrCat("put", i), "q", "one");
  }
  Node("sum", "AddN", {"take0", "take1", "take2"}, {{"N", 3}, {"T", DataType::kFloat}});
  // Fails while the calls wait.
  g_.Placeholder("i", tensorflow::DT_INT32);
  g_.Const("params", Tensor::Vector<float>({1}));
  Node("bad", "Gather", {"params", "i"}, {{"Tparams", DataType::kFloat}, {"Tindices", DataType::kInt32}});
  Make();
  for (int round = 0; round < 20; ++round) {
    const Status late = RunFor(5, {}, "sum", {}, 0);
    ASSERT_TRUE(errors::IsDeadlineExceeded(late)) << late;
    const Status failed = RunFor(10'000, {{"i", I(7)}}, "sum", {"bad"}, 0);
    ASSERT_TRUE(errors::IsInvalidArgument(failed)) << failed;
    EXPECT_THAT(failed.message(), HasSubstr("bad"));
  }
  const Status served = RunFor(10'000, {}, "sum", {"put0", "put1", "put2"}, 6);
  EXPECT_TRUE(served.ok()) << "calls that were cancelled took something: " << served;
  // Closing ends waits, whether the Run or Close comes first.
  std::thread closer([this] { session_->Close().IgnoreError("closing can't fail"); });
  const Status closed = RunFor(10'000, {}, "sum", {}, 0);
  closer.join();
  EXPECT_TRUE(errors::IsCancelled(closed)) << closed;
}

TEST_P(FunctionWaitTest, AnErrorBehindTheWaitNamesNodeAndCall) {
  g_.Function(
      FunctionBuilder("TakeIndex")
          .Arg("q: resource")
          .Ret("y: float")
          .Stateful()
          .NoInline()
          .Node("take", "QueueDequeueV2", {"q"}, {{"component_types", Types(1, DataType::kInt32)}})
          .Node("other", "QueueDequeueV2", {"q", "^take"}, {{"component_types", Types(1, DataType::kInt32)}})
          .Node("params", "Const", {}, ConstOf(Tensor::Vector<float>({1})))
          .Node("pick", "Gather", {"params:output", "take:components:0"},
                {{"Tparams", DataType::kFloat}, {"Tindices", DataType::kInt32}})
          .Node("y", "Identity", {"pick:output", "^other"}, kFloat)
          .Return("y", "y:output"));
  Queue("q", DataType::kInt32);
  g_.Const("index", I(9));
  Put("put", "q", "index", DataType::kInt32);
  g_.Add("call", "TakeIndex", {"q"});
  Make();
  for (int round = 0; round < 20; ++round) {
    const Status status = RunFor(10'000, {}, "call", {"put"}, 0);
    ASSERT_TRUE(errors::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("[[{{node pick"));
    EXPECT_THAT(status.message(), HasSubstr("[[call"));
  }
}

TEST_P(FunctionWaitTest, BodiesOverTwoDevices) {
  if (GetParam().cpus < 2) GTEST_SKIP() << "one device";
  g_.Function(FunctionBuilder("There")
                  .Arg("x: float")
                  .Ret("y: float")
                  .NoInline()
                  .Node("neg", "Neg", {"x"}, kFloat, "/cpu:1")
                  .Node("back", "Square", {"neg:y"}, kFloat, "/cpu:0")
                  .Node("again", "Neg", {"back:y"}, kFloat, "/cpu:1")
                  .Return("y", "again:y"));
  g_.Function(FunctionBuilder("Fails")
                  .Arg("x: float")
                  .Ret("y: float")
                  .NoInline()
                  .Node("neg", "Neg", {"x"}, kFloat, "/cpu:1")
                  .Node("check", "CheckNumerics", {"neg:y"},
                        {{"T", DataType::kFloat}, {"message", std::string("not a number")}}, "/cpu:1")
                  .Node("back", "Square", {"check:output"}, kFloat, "/cpu:0")
                  .Return("y", "back:y"));
  g_.Placeholder("x");
  g_.Add("there", "There", {"x"});
  g_.Add("fails", "Fails", {"x"});
  Node("for", "For", {"zero", "rounds", "one", "x"}, {{"T", Types(1)}, {"body", Fn("Step")}});
  g_.Const("zero", I(0));
  g_.Const("one", I(1));
  g_.Const("rounds", I(1000));
  g_.Function(FunctionBuilder("Step")
                  .Arg("i: int32")
                  .Arg("x: float")
                  .Ret("y: float")
                  .Node("call", "There", {"x"})
                  .Node("x_out", "Neg", {"call:y"}, kFloat)
                  .Return("y", "x_out:y"));
  Make();
  for (int round = 0; round < 20; ++round) {
    EXPECT_EQ(Value({{"x", F(3)}}, "there"), -9.f);
    EXPECT_EQ(Value({{"x", F(3)}}, "fails"), 9.f);
    EXPECT_THAT(Error({{"x", F(std::numeric_limits<float>::quiet_NaN())}}, "fails"),
                HasSubstr("not a number"));
  }
  EXPECT_EQ(Value({{"x", F(1)}}, "for"), 1.f);
}

// State stays on its device: its consumers run there, the rest on the device of the nodes.
TEST_P(FunctionWaitTest, ResourcesOfBodiesOverTwoDevices) {
  if (GetParam().cpus < 2) GTEST_SKIP() << "one device";
  const auto reads = [](const char* name, const char* where) {
    return FunctionBuilder(name)
        .Arg("v: resource")
        .Arg("x: float")
        .Ret("y: float")
        .Stateful()
        .NoInline()
        .Node("read", "ReadVariableOp", {"v"}, {{"dtype", DataType::kFloat}}, where)
        .Node("neg", "Neg", {"read:value"}, kFloat, "/cpu:0")
        .Node("y", "Add", {"neg:y", "x"}, kFloat)
        .Return("y", "y:z");
  };
  g_.Function(reads("Reads", ""));
  g_.Function(reads("ReadsElsewhere", "/cpu:0"));
  g_.Placeholder("x");
  tensorflow::NodeDef* v = g_.Add("v", "VarHandleOp", {});
  v->set_device("/cpu:1");
  AttrMapToProto({{"dtype", DataType::kFloat}, {"shape", PartialShape(TensorShape())}}, v->mutable_attr());
  Node("init", "AssignVariableOp", {"v", "x"}, {{"dtype", DataType::kFloat}});
  Node("y", "Reads", {"v", "x"});
  Node("bad", "ReadsElsewhere", {"v", "x"});
  Make();
  std::vector<Tensor> none;
  ASSERT_TRUE(session_->Run({{"x", F(3)}}, {}, {"init"}, &none).ok());
  EXPECT_EQ(Value({{"x", F(1)}}, "y"), -2.f);
  EXPECT_THAT(Error({{"x", F(1)}}, "bad"), HasSubstr("Trying to access resource v located in device"));
}

INSTANTIATE_TEST_SUITE_P(, FunctionWaitTest, FunctionSetups(),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace millrace
