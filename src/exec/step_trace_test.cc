// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/step_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "exec/executor.h"
#include "tensor/allocation_owner.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;

// The size of the buffer's header, in each block.
constexpr int64_t kHeader = 64;

// The walker that runs the plan.
enum class By { kOrder, kCounting, kFrames };

// Allocates 1000 floats for its output and 500 that it frees. Allocators receive the owner.
class MakeKernel : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    if (allocation_owner == nullptr || *allocation_owner != name()) return errors::Internal("no owner");
    MR_ASSIGN_OR_RETURN(const Tensor temp, context.AllocateTemp(DataType::kFloat, TensorShape({500})));
    return context.AllocateOutput(0, TensorShape({1000})).status();
  }
};

// Forwards its input and keeps a reference to it after the step.
class KeepKernel : public OpKernel {
 public:
  KeepKernel(KernelConstruction& c, std::optional<Tensor>& kept) : OpKernel(c), kept_(kept) {}
  Status Compute(KernelContext& context) override {
    kept_ = context.input(0);
    return Status();
  }

 private:
  std::optional<Tensor>& kept_;
};

// Waits until a Wake in the same step allocates memory for it.
class WaitKernel : public AsyncOpKernel {
 public:
  using AsyncOpKernel::AsyncOpKernel;
  void ComputeAsync(KernelContext& context, Done done) override {
    waiting = &context;
    done_ = std::move(done);
  }
  void Finish() {
    const ScopedAllocationOwner owner(&name());
    done_(waiting->AllocateOutput(0, TensorShape({2000})).status());
  }
  KernelContext* waiting = nullptr;

 private:
  Done done_;
};

class WakeKernel : public OpKernel {
 public:
  WakeKernel(KernelConstruction& c, WaitKernel*& wait) : OpKernel(c), wait_(wait) {}
  Status Compute(KernelContext& context) override {
    if (wait_ == nullptr || wait_->waiting == nullptr) return errors::Internal("nothing waits yet");
    wait_->Finish();
    return context.AllocateOutput(0, TensorShape({10})).status();
  }

 private:
  WaitKernel*& wait_;
};

class StepTraceTest : public ::testing::Test {
 protected:
  StepTraceTest() : resources_("cpu") {
    DeviceFactoryRegistry factories;
    EXPECT_TRUE(RegisterCpuDeviceFactory(factories).ok());
    devices_ = *factories.CreateDevices({});
    EXPECT_TRUE(ops_.Register(OpBuilder("Make").Output("y: float")).ok());
    EXPECT_TRUE(ops_.Register(OpBuilder("Keep").Input("x: float")).ok());
    EXPECT_TRUE(ops_.Register(OpBuilder("Wait").Output("y: float")).ok());
    EXPECT_TRUE(ops_.Register(OpBuilder("Wake").Output("y: float")).ok());
    EXPECT_TRUE(ops_.Register(OpBuilder("Nothing")).ok());
    EXPECT_TRUE(ops_.Register(OpBuilder("ControlTrigger").Traits({.is_control_flow = true})).ok());
  }
  Device& device() { return *devices_->client_device(); }

  // make -> keep -> after, run once and traced.
  DeviceStats RunTraced(By by) {
    auto graph = std::make_unique<Graph>(ops_);
    Node* const make = *graph->AddNode("make", "Make", {});
    Node* const keep = *graph->AddNode("keep", "Keep", {});
    graph->AddEdge(make, 0, keep, 0);
    // A graph with control flow needs frames.
    graph->AddControlEdge(keep,
                          *graph->AddNode("after", by == By::kFrames ? "ControlTrigger" : "Nothing", {}));
    return RunTraced(std::move(graph), by);
  }
  DeviceStats RunTraced(std::unique_ptr<Graph> graph, By by) {
    graph->FixupSourceAndSinkEdges();
    const auto kernels = [&](const Node& node) -> StatusOr<std::shared_ptr<OpKernel>> {
      KernelConstruction c(node.name(), node.shared_props(), device(), resources_);
      if (node.op_name() == "Make") return std::shared_ptr<OpKernel>(new MakeKernel(c));
      if (node.op_name() == "Wake") return std::shared_ptr<OpKernel>(new WakeKernel(c, wait_));
      if (node.op_name() == "Wait") return std::shared_ptr<OpKernel>(wait_ = new WaitKernel(c));
      if (node.op_name() == "Nothing") return std::shared_ptr<OpKernel>();
      return std::shared_ptr<OpKernel>(new KeepKernel(c, kept_));
    };
    auto plan = Plan::Build(std::move(graph), device(), kernels);
    EXPECT_TRUE(plan.ok()) << plan.status();
    CancellationManager cancellation;
    DeviceTrace on_device(device(), DeviceTrace::Clock::now());
    StepTrace trace(on_device);
    PartitionRun run;
    run.plan = plan->get();
    run.services.UseDevice(device());
    run.services.allocator = &on_device.allocator();
    run.services.resources = &resources_;
    run.services.cancellation = &cancellation;
    run.trace = &trace;
    EXPECT_TRUE(
        (by == By::kCounting ? RunByCounting({&run, 1}, nullptr) : RunPartitions({&run, 1}, nullptr)).ok());
    return on_device.Take();
  }

  OpRegistry ops_;
  std::unique_ptr<DeviceSet> devices_;
  ResourceManager resources_;
  std::optional<Tensor> kept_;
  WaitKernel* wait_ = nullptr;  // valid while a plan exists
};

TEST_F(StepTraceTest, NodesSayWhenTheyWereReadyAndWhatMemoryTheyTook) {
  for (const By by : {By::kOrder, By::kCounting, By::kFrames}) {
    const DeviceStats stats = RunTraced(by);
    ASSERT_EQ(stats.nodes.size(), 3u);
    EXPECT_EQ(stats.device, device().name());
    EXPECT_EQ(stats.allocator, device().allocator().name());
    EXPECT_EQ(stats.thread_names.size(), 1u);
    EXPECT_EQ(stats.thread_names.at(stats.nodes[0].thread), "caller");
    const NodeStats& make = stats.nodes[0];
    const NodeStats& keep = stats.nodes[1];
    EXPECT_EQ(make.node, "make");
    EXPECT_EQ(make.scheduled_ns, 0);
    EXPECT_EQ(keep.scheduled_ns, make.end_ns) << "ready as soon as its input was available";
    EXPECT_LE(keep.scheduled_ns, keep.start_ns);

    EXPECT_EQ(make.memory.requested_bytes, 4000 + 2000 + 2 * kHeader);
    EXPECT_EQ(make.memory.peak_bytes, 4000 + 2000 + 2 * kHeader);
    EXPECT_EQ(make.memory.live_bytes, 4000 + kHeader);
    ASSERT_EQ(make.memory.allocations.size(), 3u) << "the output outlives the step";
    EXPECT_EQ(make.memory.allocations[0].bytes, 2000 + kHeader);
    EXPECT_EQ(make.memory.allocations[1].bytes, 4000 + kHeader);
    EXPECT_EQ(make.memory.allocations[2].bytes, -(2000 + kHeader));
    EXPECT_EQ(keep.memory.requested_bytes, 0);
    EXPECT_EQ(keep.memory.allocator_bytes_in_use, make.memory.allocator_bytes_in_use);

    ASSERT_EQ(make.outputs.size(), 1u);
    EXPECT_THAT(make.outputs[0].shape.dims(), ElementsAre(1000));
    EXPECT_EQ(make.outputs[0].bytes, 4000);
    EXPECT_EQ(make.outputs[0].address, reinterpret_cast<uintptr_t>(kept_->raw_data()));
    EXPECT_TRUE(make.outputs[0].sole_owner);

    const NodeStats& after = stats.nodes[2];
    EXPECT_EQ(after.node, "after") << "the walker itself does it";
    EXPECT_EQ(after.scheduled_ns, keep.end_ns);
    EXPECT_EQ(after.start_ns, after.end_ns);
    EXPECT_TRUE(after.outputs.empty());
    kept_.reset();  // after the trace: the allocator that it came from still exists
  }
}

TEST_F(StepTraceTest, MemoryOfAnAsynchronousNodeIsNotThatOfTheThreadThatEndsIt) {
  auto graph = std::make_unique<Graph>(ops_);
  for (const char* op : {"Wait", "Wake"}) ASSERT_TRUE(graph->AddNode(op, op, {}).ok());
  const DeviceStats stats = RunTraced(std::move(graph), By::kCounting);
  ASSERT_EQ(stats.nodes.size(), 2u);
  for (const NodeStats& node : stats.nodes) {
    EXPECT_EQ(node.memory.requested_bytes, (node.node == "Wait" ? 8000 : 40) + kHeader) << node.node;
  }
}

TEST_F(StepTraceTest, AllocationsAreNotedUntilTaken) {
  AllocationTrace* const trace = AllocationTrace::Make(device().allocator(), AllocationTrace::Clock::now());
  void* const freed = trace->Allocate(10);
  void* const kept = trace->Allocate(20);
  trace->Deallocate(freed, 10);
  const std::vector<AllocationTrace::Note> notes = trace->Take();
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_EQ(notes[0].bytes, 10);
  EXPECT_LE(notes[0].allocated_ns, notes[0].freed_ns);
  EXPECT_EQ(notes[1].bytes, 20);
  EXPECT_EQ(notes[1].freed_ns, AllocationTrace::kNever);
  EXPECT_EQ(notes[1].thread, ThreadNumber());
  void* const late = trace->Allocate(30);
  EXPECT_TRUE(trace->Take().empty());
  trace->Release();  // blocks are in use: it is not destroyed
  trace->Deallocate(kept, 20);
  trace->Deallocate(late, 30);
}

// Has no memory, and reports the reason.
class Exhausted : public Allocator, public ShortageReporter {
 public:
  std::string_view name() const override { return "exhausted"; }
  void* Allocate(size_t /*bytes*/) override { return nullptr; }
  void Deallocate(void* /*p*/, size_t /*bytes*/) override {}
  std::string DescribeShortage(size_t bytes) const override { return StrCat("no room for ", bytes); }
};

TEST_F(StepTraceTest, AShortageIsReportedInTracedStepsToo) {
  Exhausted allocator;
  AllocationTrace* const trace = AllocationTrace::Make(allocator, AllocationTrace::Clock::now());
  const Status status = Tensor::Allocate(DataType::kFloat, TensorShape({3}), *trace).status();
  EXPECT_TRUE(errors::IsResourceExhausted(status));
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("by allocator exhausted. no room for 12"));
  EXPECT_TRUE(trace->Take().empty());
  trace->Release();
}

}  // namespace
}  // namespace millrace
