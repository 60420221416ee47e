// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// State that concurrent calls of one function must not share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <utility>

#include "tests/session/function_fixture.h"

namespace millrace {
namespace {

class FunctionScopeTest : public FunctionTest {
 protected:
  FunctionScopeTest() {
    for (const char* queue : {"begun", "go"}) {
      Node(queue, "FIFOQueueV2", {},
           {{"component_types", Types(1)}, {"shapes", std::vector<PartialShape>{TensorShape()}}});
    }
    g_.Const("one", F(1));
    g_.Const("two", F(2));
    g_.Const("ten", F(10));
    g_.Const("both", I(2));
    Node("all_begun", "QueueDequeueManyV2", {"begun", "both"}, {{"component_types", Types(1)}});
    for (const char* put : {"put_a", "put_b"})
      Node(put, "QueueEnqueueV2", {"go", "ten"}, {{"Tcomponents", Types(1)}});
  }
  // x + an element of `go`, in a temporary variable that exists while the call waits. Signals when it
  // waits.
  static FunctionBuilder Hold(const char* name, const char* var_name) {
    return FunctionBuilder(name)
        .Arg("begun: resource")
        .Arg("go: resource")
        .Arg("x: float")
        .Ret("y: float")
        .Stateful()
        .Node("tmp", "TemporaryVariable", {},
              {{"shape", PartialShape(TensorShape())},
               {"dtype", DataType::kFloat},
               {"var_name", std::string(var_name)}})
        .Node("set", "Assign", {"tmp:ref", "x"}, kFloat)
        .Node("say", "QueueEnqueueV2", {"begun", "x", "^set"}, {{"Tcomponents", Types(1)}})
        .Node("take", "QueueDequeueV2", {"go", "^say"}, {{"component_types", Types(1)}})
        .Node("add", "AssignAdd", {"set:output_ref", "take:components:0"}, kFloat)
        .Node("end", "DestroyTemporaryVariable", {"add:output_ref"},
              {{"T", DataType::kFloat}, {"var_name", std::string(*var_name == 0 ? "tmp" : var_name)}})
        .Return("y", "end:value");
  }
  void CallTwice(const NameAttrList& f) {
    const AttrMap attrs{{"f", f},
                        {"Tin", std::vector{DataType::kResource, DataType::kResource, DataType::kFloat}},
                        {"Tout", Types(1)}};
    Node("a", "StatefulPartitionedCall", {"begun", "go", "one"}, attrs);
    Node("b", "StatefulPartitionedCall", {"begun", "go", "two"}, attrs);
    Node("sum", "Add", {"a", "b"}, kFloat);
  }
  void ExpectBothRun() {
    Make();
    for (int round = 0; round < 3; ++round) {
      RunOptions limited;
      limited.timeout_in_ms = 20'000;
      std::vector<Tensor> sum;
      Status status;
      std::thread run([&] { status = session_->Run(limited, {}, {"sum"}, {}, &sum, nullptr); });
      // Neither continues before both have begun.
      const Status begun = session_->Run(limited, {}, {}, {"all_begun"}, nullptr, nullptr);
      const Status put = session_->Run(limited, {}, {}, {"put_a", "put_b"}, nullptr, nullptr);
      run.join();
      ASSERT_TRUE(begun.ok()) << begun << status;
      ASSERT_TRUE(put.ok()) << put;
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(sum[0].scalar<float>(), 23);
    }
  }
};

TEST_P(FunctionScopeTest, CallsHaveTemporaryVariablesOfTheirOwn) {
  g_.Function(Hold("Hold", "t").NoInline());
  CallTwice(Fn("Hold"));
  ExpectBothRun();
}

TEST_P(FunctionScopeTest, CallsInPlaceHaveThemToo) {
  g_.Function(Hold("Hold", "t"));
  CallTwice(Fn("Hold"));
  ExpectBothRun();
}

TEST_P(FunctionScopeTest, ATemporaryVariableMayBeCalledAsItsNode) {
  g_.Function(Hold("Hold", ""));
  CallTwice(Fn("Hold"));
  ExpectBothRun();
}

TEST_P(FunctionScopeTest, CallsWithinCallsHaveThemToo) {
  g_.Function(Hold("Hold", "t").NoInline());
  g_.Function(FunctionBuilder("Outer")
                  .Arg("begun: resource")
                  .Arg("go: resource")
                  .Arg("x: float")
                  .Ret("y: float")
                  .Stateful()
                  .NoInline()
                  .Node("inner", "Hold", {"begun", "go", "x"})
                  .Return("y", "inner:y"));
  CallTwice(Fn("Outer"));
  ExpectBothRun();
}

// A partition only gets the functions that it needs from a library of thousands.
TEST_P(FunctionScopeTest, PartitionsHaveTheFunctionsThatTheyReach) {
  const auto passes_on = [](const char* name, const char* to) {
    return FunctionBuilder(name)
        .Arg("x: float")
        .Ret("y: float")
        .NoInline()
        .Node("call", "PartitionedCall", {"x"},
              {{"f", Fn(to, kFloat)}, {"Tin", Types(1)}, {"Tout", Types(1)}})
        .Return("y", "call:output:0");
  };
  for (const auto& [name, to] :
       {std::pair("Near", "Far"), std::pair("Far", "Neg"), std::pair("FarGrad", "Helper"),
        std::pair("Helper", "Abs"), std::pair("Other", "Far"), std::pair("Alone", "Neg")}) {
    g_.Function(passes_on(name, to));
  }
  auto* gradient = g_.mutable_def()->mutable_library()->add_gradient();
  gradient->set_function_name("Far");
  gradient->set_gradient_func("FarGrad");
  g_.Placeholder("x");
  Node("near", "Near", {"x"});
  g_.Float("plain", "Neg", {"x"});
  Make();
  const auto functions_of = [&](const std::string& fetch) {
    RunOptions options;
    options.output_partition_graphs = true;
    RunMetadata metadata;
    std::vector<Tensor> out;
    const Status status = session_->Run(options, {{"x", F(1)}}, {fetch}, {}, &out, &metadata);
    EXPECT_TRUE(status.ok()) << status;
    std::set<std::string> names;
    for (const std::string& bytes : metadata.partition_graphs) {
      tensorflow::GraphDef def;
      EXPECT_TRUE(def.ParseFromString(bytes));
      for (const auto& f : def.library().function()) names.insert(f.signature().name());
    }
    return names;
  };
  EXPECT_THAT(functions_of("plain"), ::testing::IsEmpty());
  EXPECT_THAT(functions_of("near"), ::testing::ElementsAre("Far", "FarGrad", "Helper", "Near"));
}

// They can't be on one device, so neither can the call.
TEST_P(FunctionScopeTest, ResourcesOnTwoDevicesAreRefusedByName) {
  if (GetParam().cpus < 2) GTEST_SKIP() << "one device";
  g_.Function(FunctionBuilder("SumOfBoth")
                  .Arg("v: resource")
                  .Arg("w: resource")
                  .Ret("y: float")
                  .Stateful()
                  .NoInline()
                  .Node("a", "ReadVariableOp", {"v"}, {{"dtype", DataType::kFloat}})
                  .Node("b", "ReadVariableOp", {"w"}, {{"dtype", DataType::kFloat}})
                  .Node("y", "Add", {"a:value", "b:value"}, kFloat)
                  .Return("y", "y:z"));
  for (const auto& [name, device] : {std::pair("v", "/cpu:0"), std::pair("w", "/cpu:1")}) {
    Node(name, "VarHandleOp", {}, {{"dtype", DataType::kFloat}, {"shape", PartialShape(TensorShape())}});
    g_.mutable_def()->mutable_node()->rbegin()->set_device(device);
    Node(StrCat("init_", name), "AssignVariableOp", {name, "one"}, {{"dtype", DataType::kFloat}});
  }
  Node("call", "SumOfBoth", {"v", "w"});
  SessionOptions options;
  options.device_count["CPU"] = 2;
  const auto session = NewSession(options);
  Status status = (*session)->Create(g_.def());
  std::vector<Tensor> out;
  if (status.ok()) status = (*session)->Run({}, {"call"}, {}, &out);
  EXPECT_TRUE(errors::IsInvalidArgument(status)) << status;
  EXPECT_THAT(status.message(),
              ::testing::HasSubstr("resource connection (requiring them to be on the same"));
}

INSTANTIATE_TEST_SUITE_P(, FunctionScopeTest, FunctionSetups(),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace millrace
