// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Functions in sessions: calls, types, recursion, state, devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <thread>

#include "tests/session/function_fixture.h"
#include "tests/session/small_stack.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

TEST_P(FunctionTest, OneFunctionServesSeveralTypes) {
  g_.Function(Twice());
  g_.Placeholder("f");
  g_.Placeholder("i", tensorflow::DT_INT32);
  g_.Placeholder("c", tensorflow::DT_COMPLEX64);
  Node("named", "Twice", {"f"}, kFloat);
  Node("named_i", "Twice", {"i"}, kInt);
  Call("called", Fn("Twice", {{"T", DataType::kComplex64}}), {"c"}, DataType::kComplex64);
  Make();
  EXPECT_EQ(Value({{"f", F(1.5f)}}, "named"), 3.f);
  EXPECT_EQ(Value<int32_t>({{"i", I(-7)}}, "named_i"), -14);
  EXPECT_EQ(Value<complex64>({{"c", Tensor::Scalar(complex64(1, 2))}}, "called"), complex64(2, 4));
}

TEST_P(FunctionTest, FunctionsCallFunctions) {
  g_.Function(Twice());
  g_.Function(FunctionBuilder("FourTimes")
                  .Arg("x: T")
                  .Ret("y: T")
                  .Attr("T: {float, int32}")
                  .Node("once", "Twice", {"x"}, {{"T", "$T"}})
                  .Node("again", "Twice", {"once:y"}, {{"T", "$T"}})
                  .Return("y", "again:y"));
  g_.Placeholder("x");
  Node("y", "FourTimes", {"x"}, kFloat);
  Make();
  EXPECT_EQ(Value({{"x", F(3)}}, "y"), 12.f);
}

TEST_P(FunctionTest, FunctionsTakeFunctionsAsAttributes) {
  g_.Function(Twice());
  g_.Function(
      FunctionBuilder("Apply")
          .Arg("x: float")
          .Ret("y: float")
          .Attr("g: func")
          .Node("call", "PartitionedCall", {"x"}, {{"f", "$g"}, {"Tin", Types(1)}, {"Tout", Types(1)}})
          .Return("y", "call:output"));
  g_.Placeholder("x");
  Node("y", "Apply", {"x"}, {{"g", Fn("Twice", kFloat)}});
  Node("z", "Apply", {"x"}, {{"g", Fn("Neg", kFloat)}});
  Make();
  EXPECT_EQ(Value({{"x", F(3)}}, "y"), 6.f);
  EXPECT_EQ(Value({{"x", F(3)}}, "z"), -3.f) << "an op stands where a function may";
}

TEST_P(FunctionTest, ListArgumentsAndSeveralResults) {
  g_.Function(FunctionBuilder("SumAndList")
                  .Arg("xs: N * float")
                  .Arg("ys: L")
                  .Ret("sum: float")
                  .Ret("same: L")
                  .Attr("N: int >= 1")
                  .Attr("L: list(type)")
                  .Node("add", "AddN", {"xs"}, {{"N", "$N"}, {"T", DataType::kFloat}})
                  .Return("sum", "add:sum")
                  .Return("same", "ys"));
  for (const char* name : {"a", "b", "c"}) g_.Placeholder(name);
  g_.Placeholder("i", tensorflow::DT_INT32);
  Node("call", "SumAndList", {"a", "b", "c", "i", "a"},
       {{"N", 3}, {"L", std::vector{DataType::kInt32, DataType::kFloat}}});
  Make();
  std::vector<Tensor> out;
  const Status status = session_->Run({{"a", F(1)}, {"b", F(2)}, {"c", F(4)}, {"i", I(9)}},
                                      {"call:2", "call", "call:1"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(out[0].scalar<float>(), 1.f);
  EXPECT_EQ(out[1].scalar<float>(), 7.f);
  EXPECT_EQ(out[2].scalar<int32_t>(), 9);
}

// n <= 1 ? 1 : n * Factorial(n - 1)
void AddFactorial(DefBuilder* g) {
  g->Function(FunctionBuilder("One")
                  .Arg("n: int32")
                  .Ret("r: int32")
                  .Node("one", "Const", {}, ConstOf(I(1)))
                  .Return("r", "one:output"));
  g->Function(FunctionBuilder("Step")
                  .Arg("n: int32")
                  .Ret("r: int32")
                  .Node("one", "Const", {}, ConstOf(I(1)))
                  .Node("less", "Sub", {"n", "one:output"}, kInt)
                  .Node("rest", "Factorial", {"less:z"})
                  .Node("mul", "Mul", {"n", "rest:r"}, kInt)
                  .Return("r", "mul:z"));
  g->Function(FunctionBuilder("Factorial")
                  .Arg("n: int32")
                  .Ret("r: int32")
                  .Node("one", "Const", {}, ConstOf(I(1)))
                  .Node("more", "Greater", {"n", "one:output"}, kInt)
                  .Node("if", "StatelessIf", {"more:z", "n"},
                        {{"Tcond", DataType::kBool},
                         {"Tin", Types(1, DataType::kInt32)},
                         {"Tout", Types(1, DataType::kInt32)},
                         {"then_branch", Fn("Step")},
                         {"else_branch", Fn("One")}})
                  .Return("r", "if:output"));
}

TEST_P(FunctionTest, FunctionsCallThemselves) {
  AddFactorial(&g_);
  g_.Placeholder("n", tensorflow::DT_INT32);
  Node("f", "Factorial", {"n"});
  Make();
  int32_t expected = 1;
  for (int32_t n = 0; n <= 12; ++n) {
    expected *= std::max(n, 1);
    EXPECT_EQ(Value<int32_t>({{"n", I(n)}}, "f"), expected);
  }
}

TEST_P(FunctionTest, RecursionWithoutEndIsAnError) {
  AddFactorial(&g_);
  g_.Function(FunctionBuilder("Forever")
                  .Arg("n: int32")
                  .Ret("r: int32")
                  .Node("again", "Forever", {"n"})
                  .Return("r", "again:r"));
  g_.Placeholder("n", tensorflow::DT_INT32);
  Node("f", "Factorial", {"n"});
  Node("ever", "Forever", {"n"});
  Make();
  EXPECT_THAT(Error({{"n", I(1)}}, "ever"), HasSubstr("Function 'Forever' is called at a depth beyond 1000"));
  EXPECT_THAT(Error({{"n", I(100'000)}}, "f"), HasSubstr("is called at a depth beyond 1000"));
  EXPECT_EQ(Value<int32_t>({{"n", I(3)}}, "f"), 6) << "the session continues";
}

TEST_P(FunctionTest, RecursionFitsIntoAnyStack) {
  AddFactorial(&g_);
  g_.Placeholder("n", tensorflow::DT_INT32);
  Node("f", "Factorial", {"n"});
  Make();
  int32_t product = -1;
  std::string error;
  CallWithSmallStack([&] {
    product = Value<int32_t>({{"n", I(900)}}, "f");
    error = Error({{"n", I(100'000)}}, "f");
  });
  EXPECT_EQ(product, 0) << "900! modulo 2^32";
  EXPECT_THAT(error, HasSubstr("is called at a depth beyond 1000"));
}

TEST_P(FunctionTest, FunctionsCallEachOther) {
  // Even(n) = n == 0 ? true : Odd(n - 1), Odd(n) = n == 0 ? false : Even(n - 1), on 0 and 1.
  const auto constant = [](const char* name, int32_t value) {
    return FunctionBuilder(name)
        .Arg("n: int32")
        .Ret("r: int32")
        .Node("c", "Const", {}, ConstOf(I(value)))
        .Return("r", "c:output");
  };
  const auto less = [](const char* name, const char* other) {
    return FunctionBuilder(name)
        .Arg("n: int32")
        .Ret("r: int32")
        .Node("one", "Const", {}, ConstOf(I(1)))
        .Node("less", "Sub", {"n", "one:output"}, kInt)
        .Node("call", other, {"less:z"})
        .Return("r", "call:r");
  };
  const auto parity = [](const char* name, const char* step, const char* end) {
    return FunctionBuilder(name)
        .Arg("n: int32")
        .Ret("r: int32")
        .Node("if", "If", {"n", "n"},
              {{"Tcond", DataType::kInt32},
               {"Tin", Types(1, DataType::kInt32)},
               {"Tout", Types(1, DataType::kInt32)},
               {"then_branch", Fn(step)},
               {"else_branch", Fn(end)}})
        .Return("r", "if:output");
  };
  g_.Function(constant("True", 1));
  g_.Function(constant("False", 0));
  g_.Function(less("OddOfLess", "Odd"));
  g_.Function(less("EvenOfLess", "Even"));
  g_.Function(parity("Even", "OddOfLess", "True"));
  g_.Function(parity("Odd", "EvenOfLess", "False"));
  g_.Placeholder("n", tensorflow::DT_INT32);
  Node("even", "Even", {"n"});
  Make();
  for (int32_t n = 0; n < 20; ++n) EXPECT_EQ(Value<int32_t>({{"n", I(n)}}, "even"), n % 2 == 0 ? 1 : 0);
}

TEST_P(FunctionTest, CallsShareTheStateOfAVariable) {
  g_.Function(FunctionBuilder("Count")
                  .Arg("by: float")
                  .Ret("total: float")
                  .Stateful()
                  .Node("v", "VarHandleOp", {},
                        {{"dtype", DataType::kFloat}, {"shape", PartialShape{}}, {"shared_name", "counter"}},
                        DeviceOfSharedState())
                  .Node("add", "AssignAddVariableOp", {"v:resource", "by"}, {{"dtype", DataType::kFloat}})
                  .Node("read", "ReadVariableOp", {"v:resource", "^add"}, {{"dtype", DataType::kFloat}})
                  .Return("total", "read:value"));
  g_.Const("zero", F(0));
  g_.Placeholder("by");
  const AttrMap of_variable{
      {"dtype", DataType::kFloat}, {"shape", PartialShape{}}, {"shared_name", "counter"}};
  auto* const handle = g_.Node("v", "VarHandleOp", {}, of_variable);
  handle->set_device(DeviceOfSharedState());
  Node("init", "AssignVariableOp", {"v", "zero"}, {{"dtype", DataType::kFloat}});
  Node("first", "Count", {"by"});
  Node("second", "Count", {"first"});
  Make();
  std::vector<Tensor> none;
  ASSERT_TRUE(session_->Run({}, {}, {"init"}, &none).ok());
  EXPECT_EQ(Value({{"by", F(1)}}, "first"), 1.f);
  EXPECT_EQ(Value({{"by", F(1)}}, "second"), 4.f) << "1 + 1 = 2, and 2 on top of that";
}

TEST_P(FunctionTest, SideEffectsHappenEvenIfTheResultIsNotUsed) {
  g_.Function(FunctionBuilder("Bump")
                  .Arg("v: resource")
                  .Stateful()
                  .Node("one", "Const", {}, ConstOf(F(1)))
                  .Node("add", "AssignAddVariableOp", {"v", "one:output"}, {{"dtype", DataType::kFloat}})
                  .ControlReturn("done", "add"));
  g_.Const("zero", F(0));
  Node("v", "VarHandleOp", {}, {{"dtype", DataType::kFloat}, {"shape", PartialShape{}}});
  Node("init", "AssignVariableOp", {"v", "zero"}, {{"dtype", DataType::kFloat}});
  Node("bump", "Bump", {"v"});
  Node("read", "ReadVariableOp", {"v", "^bump"}, {{"dtype", DataType::kFloat}});
  Make();
  std::vector<Tensor> none;
  ASSERT_TRUE(session_->Run({}, {}, {"init"}, &none).ok());
  ASSERT_TRUE(session_->Run({}, {}, {"bump"}, &none).ok());
  EXPECT_EQ(Value({}, "read"), 2.f) << "the read comes after the call";
}

TEST_P(FunctionTest, ControlOutputsRunWhateverIsUsed) {
  const auto checked = [](const char* name) {
    return FunctionBuilder(name)
        .Arg("x: float")
        .Ret("y: float")
        .Node("check", "CheckNumerics", {"x"},
              {{"T", DataType::kFloat}, {"message", std::string("seen by the control output")}})
        .Node("one", "Const", {}, ConstOf(F(1)))
        .Return("y", "one:output")
        .ControlReturn("checked", "check");
  };
  g_.Function(checked("Inlined"));
  g_.Function(checked("Called").NoInline());
  g_.Function(FunctionBuilder("Outer")
                  .Arg("x: float")
                  .Ret("y: float")
                  .NoInline()
                  .Node("call", "Inlined", {"x"})
                  .Node("one", "Const", {}, ConstOf(F(1)))
                  .Return("y", "one:output")
                  .ControlReturn("called", "call"));
  g_.Placeholder("x");
  for (const char* name : {"Inlined", "Called", "Outer"}) Node(std::string("call_") + name, name, {"x"});
  Make();
  for (const char* name : {"call_Inlined", "call_Called", "call_Outer"}) {
    EXPECT_EQ(Value({{"x", F(2)}}, name), 1.f) << name;
    EXPECT_THAT(Error({{"x", F(std::numeric_limits<float>::infinity())}}, name),
                HasSubstr("seen by the control output"))
        << name;
  }
}

// Names and devices of the nodes that one traced Run of "y" has run, sorted.
std::vector<std::string> TracedNodes(Session& session, const Session::Feeds& feeds,
                                     const std::vector<std::string>& targets) {
  RunOptions options;
  options.trace_level = RunOptions::TraceLevel::kFull;
  options.timeout_in_ms = 10'000;
  RunMetadata metadata;
  std::vector<Tensor> out;
  const Status status = session.Run(options, feeds, {"y"}, targets, &out, &metadata);
  EXPECT_TRUE(status.ok()) << status;
  std::vector<std::string> names;
  for (const DeviceStats& device : metadata.devices) {
    for (const NodeStats& node : device.nodes) {
      EXPECT_LE(node.scheduled_ns, node.start_ns) << node.node;
      EXPECT_LE(node.start_ns, node.end_ns) << node.node;
      names.push_back(node.node + "@" + device.device.substr(device.device.rfind(':') + 1));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST_P(FunctionTest, NodesOfCalledFunctionsAreTraced) {
  if (NodesAreSpread()) GTEST_SKIP() << "is about which device a node runs on";
  g_.Function(Twice().NoInline());
  g_.Function(FunctionBuilder("Outer")
                  .Arg("x: float")
                  .Arg("q: resource")
                  .Ret("y: float")
                  .Stateful()
                  .NoInline()
                  .Node("call", "Twice", {"x"}, kFloat)
                  .Node("take", "QueueDequeueV2", {"q", "^call"}, {{"component_types", Types(1)}})
                  .Node("last", "Sub", {"call:y", "take:components:0"}, kFloat)
                  .Return("y", "last:z"));
  g_.Placeholder("x");
  Node("q", "FIFOQueueV2", {}, {{"component_types", Types(1)}});
  Node("put", "QueueEnqueueV2", {"q", "x"}, {{"Tcomponents", Types(1)}});
  Node("y", "Outer", {"x", "q"});
  Make();
  for (int round = 0; round < 3; ++round) {
    const std::vector<std::string> names = TracedNodes(*session_, {{"x", F(1)}}, {"put"});
    for (const char* name : {"Twice/sum@0", "Outer/call@0", "Outer/take@0", "Outer/last@0", "y@0", "put@0"})
      EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
  }
}

TEST_P(FunctionTest, FunctionsAreTracedWhereTheyRun) {
  if (GetParam().cpus < 2) GTEST_SKIP() << "one device";
  if (NodesAreSpread()) GTEST_SKIP() << "is about which device a node runs on";
  g_.Function(FunctionBuilder("There")
                  .Arg("x: float")
                  .Ret("y: float")
                  .NoInline()
                  .Node("neg", "Neg", {"x"}, kFloat, "/cpu:1")
                  .Return("y", "neg:y"));
  g_.Placeholder("x");
  Node("y", "There", {"x"});
  Make();
  const std::vector<std::string> names = TracedNodes(*session_, {{"x", F(1)}}, {});
  EXPECT_EQ(std::count(names.begin(), names.end(), "There/neg@1"), 1);
  EXPECT_EQ(std::count(names.begin(), names.end(), "y@0"), 1);
}

TEST_P(FunctionTest, WrongSignaturesAreRefusedByTheCall) {
  g_.Function(Twice());
  g_.Placeholder("x");
  Node("types", "PartitionedCall", {"x"}, {{"f", Fn("Twice", kInt)}, {"Tin", Types(1)}, {"Tout", Types(1)}});
  Node("count", "PartitionedCall", {"x", "x"},
       {{"f", Fn("Twice", kFloat)}, {"Tin", Types(2)}, {"Tout", Types(1)}});
  Node("gone", "PartitionedCall", {"x"}, {{"f", Fn("Gone")}, {"Tin", Types(1)}, {"Tout", Types(1)}});
  Node("unbound", "PartitionedCall", {"x"}, {{"f", Fn("Twice")}, {"Tin", Types(1)}, {"Tout", Types(1)}});
  Make();
  EXPECT_THAT(Error({{"x", F(1)}}, "types"), HasSubstr("Function 'Twice' takes [int32] and returns [int32], "
                                                       "called with [float] for [float]"));
  EXPECT_THAT(Error({{"x", F(1)}}, "count"), HasSubstr("called with [float, float] for [float]"));
  EXPECT_THAT(Error({{"x", F(1)}}, "gone"), HasSubstr("Function Gone is not defined."));
  EXPECT_THAT(Error({{"x", F(1)}}, "unbound"), HasSubstr("Attr T is not found from Op<name=Twice"));
}

TEST_P(FunctionTest, ErrorsNameTheNodeInsideAndTheCall) {
  g_.Function(FunctionBuilder("Product")
                  .Arg("x: float")
                  .Ret("y: float")
                  .Node("inside", "MatMul", {"x", "x"}, kFloat)
                  .Return("y", "inside:product"));
  g_.Placeholder("x");
  Node("call_site", "StatelessIf", {"x", "x"},
       {{"Tcond", DataType::kFloat},
        {"Tin", Types(1)},
        {"Tout", Types(1)},
        {"then_branch", Fn("Product")},
        {"else_branch", Fn("Product")}});
  Make();
  const std::string error = Error({{"x", Tensor(DataType::kFloat, TensorShape({2, 3}))}}, "call_site");
  EXPECT_THAT(error, HasSubstr("[[{{node inside}}]]"));
  EXPECT_THAT(error, HasSubstr("[[call_site]]"));
}

TEST_P(FunctionTest, ManyThreadsCallAtTheSameTime) {
  AddFactorial(&g_);
  AddSumLoop(&g_);
  g_.Placeholder("m", tensorflow::DT_INT32);
  Node("f", "Factorial", {"m"});
  Make();
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int k = 0; k < 20; ++k) {
        std::vector<Tensor> out;
        const Status status = session_->Run({{"m", I(5)}, {"n", I(t + k)}}, {"f", "loop:2"}, {}, &out);
        const int n = t + k;
        if (status.ok() && out[0].scalar<int32_t>() == 120 && out[1].scalar<int32_t>() == n * (n - 1) / 2)
          ++right;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(right, 8 * 20);
}

TEST_P(FunctionTest, ExtendAddsFunctions) {
  g_.Function(Twice());
  g_.Placeholder("x");
  Node("y", "Twice", {"x"}, kFloat);
  Make();
  EXPECT_EQ(Value({{"x", F(1)}}, "y"), 2.f);
  DefBuilder more;
  more.Function(Twice());
  more.Function(FunctionBuilder("Eight")
                    .Arg("x: float")
                    .Ret("y: float")
                    .Node("a", "Twice", {"x"}, kFloat)
                    .Node("b", "Twice", {"a:y"}, kFloat)
                    .Node("c", "Twice", {"b:y"}, kFloat)
                    .Return("y", "c:y"));
  more.Add("z", "Eight", {"y"});
  const Status extended = session_->Extend(more.def());
  ASSERT_TRUE(extended.ok()) << extended;
  EXPECT_EQ(Value({{"x", F(1)}}, "z"), 16.f);

  DefBuilder other;
  other.Function(FunctionBuilder("Twice").Arg("x: float").Ret("y: float").Return("y", "x"));
  const Status refused = session_->Extend(other.def());
  EXPECT_TRUE(errors::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(refused.message(),
              HasSubstr("Cannot add function 'Twice' because a different function with the "
                        "same name already exists."));
  EXPECT_EQ(Value({{"x", F(1)}}, "y"), 2.f);
}

TEST_P(FunctionTest, NodesOfAFunctionMayBeOnTwoDevices) {
  if (GetParam().cpus < 2) GTEST_SKIP() << "needs two devices";
  g_.Function(FunctionBuilder("Spread")
                  .Arg("x: float")
                  .Ret("y: float")
                  .Node("a", "Neg", {"x"}, kFloat, "/cpu:1")
                  .Node("b", "Square", {"a:y"}, kFloat, "/cpu:0")
                  .Node("c", "Add", {"a:y", "b:y"}, kFloat, "/cpu:1")
                  .Return("y", "c:z"));
  g_.Function(FunctionBuilder("Below")
                  .Arg("x: float")
                  .Ret("go: bool")
                  .Node("limit", "Const", {}, ConstOf(F(1000)))
                  .Node("less", "Less", {"x", "limit:output"}, kFloat)
                  .Return("go", "less:z"));
  g_.Placeholder("x");
  Node("y", "Spread", {"x"});
  Node("loop", "While", {"x"}, {{"T", Types(1)}, {"cond", Fn("Below")}, {"body", Fn("Spread")}});
  Make();
  EXPECT_EQ(Value({{"x", F(3)}}, "y"), 6.f);
  EXPECT_EQ(Value({{"x", F(3)}}, "loop"), 756030.f) << "3, 6, 30, 870, 756030";
}

TEST_P(FunctionTest, RemoteCallRunsOnTheNamedDevice) {
  g_.Function(Twice());
  g_.Placeholder("x");
  g_.Placeholder("where", tensorflow::DT_STRING);
  Node("call", "RemoteCall", {"where", "x"},
       {{"f", Fn("Twice", kFloat)}, {"Tin", Types(1)}, {"Tout", Types(1)}});
  Make();
  for (int cpu = 0; cpu < GetParam().cpus; ++cpu) {
    EXPECT_EQ(Value({{"where", Tensor::Scalar(StrCat("/cpu:", cpu))}, {"x", F(2)}}, "call"), 4.f);
  }
  EXPECT_EQ(
      Value({{"where", Tensor::Scalar("/job:localhost/replica:0/task:0/device:CPU:0")}, {"x", F(2)}}, "call"),
      4.f);
  EXPECT_THAT(Error({{"where", Tensor::Scalar("/job:worker/task:3/cpu:0")}, {"x", F(2)}}, "call"),
              HasSubstr("Device '/job:worker/task:3/cpu:0' is not one of this "));
  EXPECT_THAT(Error({{"where", Tensor::Scalar("nonsense")}, {"x", F(2)}}, "call"),
              HasSubstr("Malformed device specification 'nonsense'"));
}

INSTANTIATE_TEST_SUITE_P(, FunctionTest, FunctionSetups(),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace millrace
