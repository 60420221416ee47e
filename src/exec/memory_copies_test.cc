// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/memory_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/notification.h"
#include "device/fake_device_testing.h"
#include "exec/executor.h"
#include "kernel/resource.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

void RegisterOps(OpRegistry& ops) {
  for (const char* op : {"HostSource", "DeviceSource"})
    ASSERT_TRUE(ops.Register(OpBuilder(op).Output("y: float")).ok());
  for (const char* op : {"HostSink", "DeviceSink"})
    ASSERT_TRUE(ops.Register(OpBuilder(op).Input("x: float")).ok());
  ASSERT_TRUE(ops.Register(OpBuilder("DeviceSend").Input("x: float").Traits({.is_send = true})).ok());
  ASSERT_TRUE(ops.Register(OpBuilder("HostState").Output("ref: Ref(float)")).ok());
  ASSERT_TRUE(ops.Register(OpBuilder("DeviceUpdate").Input("ref: Ref(float)")).ok());
  ASSERT_TRUE(ops.Register(OpBuilder("NoOp")).ok());
  ASSERT_TRUE(ops.Register(OpBuilder("Identity").Input("input: T").Output("output: T").Attr("T: type")).ok());
  const auto flow = [](const char* op) { return OpBuilder(op).Traits({.is_control_flow = true}); };
  ASSERT_TRUE(ops.Register(flow("Switch")
                               .Input("data: T")
                               .Input("pred: bool")
                               .Output("output_false: T")
                               .Output("output_true: T")
                               .Attr("T: type"))
                  .ok());
}

// Nodes named Host… have all tensors in host memory, others in the device's.
StatusOr<KernelMemory> MemoryByName(const Node& node) {
  const bool host = node.op_name().starts_with("Host");
  KernelMemory memory;
  memory.host_inputs.assign(static_cast<size_t>(node.num_inputs()), host);
  memory.host_outputs.assign(static_cast<size_t>(node.num_outputs()), host);
  return memory;
}

const auto kMemoryByName = [](const Node& node) { return MemoryByName(node); };

class MemoryCopiesTest : public ::testing::Test {
 protected:
  MemoryCopiesTest() : graph_(std::make_unique<Graph>(Init(ops_))) {}
  static OpRegistry& Init(OpRegistry& ops) {
    RegisterOps(ops);
    return ops;
  }
  Node* Add(const std::string& op, const std::vector<Node*>& inputs, AttrMap attrs = {}) {
    auto node = graph_->AddNode(StrCat("n", count_++), op, std::move(attrs));
    EXPECT_TRUE(node.ok()) << node.status();
    (*node)->set_assigned_device("/job:localhost/replica:0/task:0/device:FAKE:0");
    for (size_t i = 0; i < inputs.size(); ++i) graph_->AddEdge(inputs[i], 0, *node, static_cast<int>(i));
    return *node;
  }
  MemoryCopies Insert() {
    auto copies = InsertMemoryCopies(graph_.get(), kMemoryByName);
    EXPECT_TRUE(copies.ok()) << copies.status();
    return copies.value_or(MemoryCopies());
  }

  OpRegistry ops_;
  std::unique_ptr<Graph> graph_;
  int count_ = 0;
};

TEST_F(MemoryCopiesTest, NothingIsCopiedWithinOneMemory) {
  Add("HostSink", {Add("HostSource", {})});
  Add("DeviceSink", {Add("DeviceSource", {})});
  Add("NoOp", {});
  EXPECT_TRUE(Insert().empty());
  EXPECT_EQ(graph_->OpNodes().size(), 5u);
}

TEST_F(MemoryCopiesTest, ConsumersInTheOtherMemoryShareACopy) {
  Node* const source = Add("DeviceSource", {});
  Node* const first = Add("HostSink", {source});
  Node* const second = Add("HostSink", {source});
  Node* const there = Add("DeviceSink", {source});
  const MemoryCopies copies = Insert();
  ASSERT_EQ(copies.size(), 1u);
  const Node* const copy = copies.begin()->first;
  EXPECT_TRUE(copies.begin()->second) << "to the host";
  EXPECT_EQ(copy->op_name(), "Identity");
  EXPECT_EQ(*copy->Attr<std::string>("_memory"), "host");
  EXPECT_EQ(copy->assigned_device(), source->assigned_device());
  EXPECT_EQ(first->in_edges()[0]->src, copy);
  EXPECT_EQ(second->in_edges()[0]->src, copy);
  EXPECT_EQ(there->in_edges()[0]->src, source);
  EXPECT_TRUE(graph_->Validate().ok());
}

TEST_F(MemoryCopiesTest, CopiesGoToTheDeviceToo) {
  Add("DeviceSink", {Add("HostSource", {})});
  const MemoryCopies copies = Insert();
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_FALSE(copies.begin()->second);
}

TEST_F(MemoryCopiesTest, TensorsAreSentFromTheMemoryThatTheyAreIn) {
  Node* const send = Add("DeviceSend", {Add("HostSource", {})});
  EXPECT_TRUE(Insert().empty());
  EXPECT_EQ(send->in_edges()[0]->src->op_name(), "HostSource");
}

TEST_F(MemoryCopiesTest, AReferenceCannotBeCopied) {
  Add("DeviceUpdate", {Add("HostState", {})});
  const Status status = InsertMemoryCopies(graph_.get(), kMemoryByName).status();
  EXPECT_TRUE(errors::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("leaves output 0 in host memory"));
}

TEST_F(MemoryCopiesTest, WhatDecidesOnBranchesMustBeOnTheHost) {
  auto node = graph_->AddNode("switch", "Switch", {{"T", DataType::kFloat}});
  ASSERT_TRUE(node.ok()) << node.status();
  const Status status = InsertMemoryCopies(graph_.get(), kMemoryByName).status();
  EXPECT_TRUE(errors::IsInternal(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("control flow"));
}

// A plan on a device whose kernels add work to its stream.
class DeviceStepTest : public MemoryCopiesTest {
 protected:
  class SourceKernel final : public OpKernel {
   public:
    using OpKernel::OpKernel;
    Status Compute(KernelContext& context) override {
      EXPECT_FALSE(output_on_host(0));
      MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape()));
      auto& device = static_cast<FakeDevice&>(context.device());
      device.work().Launch([&device, at = out->raw_data()] {
        *static_cast<float*>(device.Open(at)) = 7;
        return Status();
      });
      return Status();
    }
  };
  class SinkKernel final : public OpKernel {
   public:
    SinkKernel(KernelConstruction& c, float* result) : OpKernel(c), result_(result) {}
    Status Compute(KernelContext& context) override {
      *result_ = context.input(0).scalar<float>();
      return Status();
    }

   private:
    float* const result_;
  };

  StatusOr<std::shared_ptr<OpKernel>> MakeKernel(const Node& node, const MemoryCopies& copies) {
    KernelConstruction c(node.name(), node.shared_props(), device_, resources_);
    if (const auto copy = copies.find(&node); copy != copies.end())
      return std::shared_ptr<OpKernel>(MakeMemoryCopy(c, copy->second));
    MR_ASSIGN_OR_RETURN(KernelMemory memory, MemoryByName(node));
    c.set_memory(std::make_shared<const KernelMemory>(std::move(memory)));
    if (node.op_name() == "HostSink") return std::shared_ptr<OpKernel>(new SinkKernel(c, &result_));
    return std::shared_ptr<OpKernel>(new SourceKernel(c));
  }
  void Build() {
    const MemoryCopies copies = Insert();
    graph_->FixupSourceAndSinkEdges();
    auto plan = Plan::Build(std::move(graph_), device_, [&](const Node& n) { return MakeKernel(n, copies); });
    ASSERT_TRUE(plan.ok()) << plan.status();
    plan_ = *std::move(plan);
  }
  PartitionRun MakeRun() {
    PartitionRun run;
    run.plan = plan_.get();
    run.services.UseDevice(device_);
    run.services.resources = &resources_;
    run.services.cancellation = &cancellation_;
    return run;
  }

  FakeDevice device_{{.name = "/job:localhost/replica:0/task:0/device:FAKE:0",
                      .type = "FAKE",
                      .incarnation = 1,
                      .physical_description = ""}};
  ResourceManager resources_{"fake"};
  CancellationManager cancellation_;
  std::unique_ptr<Plan> plan_;
  float result_ = 0;
};

TEST_F(DeviceStepTest, ACopyWaitsForTheWorkBeforeIt) {
  Add("HostSink", {Add("DeviceSource", {})});
  Build();
  for (int i = 0; i < 3; ++i) {
    result_ = 0;
    PartitionRun run = MakeRun();
    const Status status = RunPartitions({&run, 1}, nullptr);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(result_, 7);
  }
}

TEST_F(DeviceStepTest, AStepEndsWithItsWork) {
  Add("DeviceSource", {});
  Build();
  PartitionRun run = MakeRun();
  ASSERT_TRUE(RunPartitions({&run, 1}, nullptr).ok());
  EXPECT_EQ(device_.work().num_done(), 1);
}

TEST_F(DeviceStepTest, AStepWithoutAThreadEndsWithItsWork) {
  Add("HostSink", {Add("DeviceSource", {})});
  Build();
  device_.work().Pause();
  Notification ended;
  Status status;
  StartPartitions({MakeRun()}, nullptr, [&](const Status& s) {
    status = s;
    EXPECT_FALSE(device_.work().OnItsThread());
    ended.Notify();
  });
  EXPECT_FALSE(ended.HasBeenNotified());
  device_.work().Resume();
  ended.Wait();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(result_, 7);
}

TEST_F(DeviceStepTest, AnErrorOfTheDeviceEndsTheStep) {
  Add("DeviceSource", {});
  Build();
  device_.work().Launch([] { return errors::Internal("the device is lost"); });
  PartitionRun run = MakeRun();
  EXPECT_EQ(RunPartitions({&run, 1}, nullptr).message(), "the device is lost");
}

}  // namespace
}  // namespace millrace
