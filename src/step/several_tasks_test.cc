// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Steps of two tasks: two workers of one process that call one another directly, and two with a transport in
// between that serializes everything.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <set>
#include <thread>

#include "base/mutex.h"
#include "base/notification.h"
#include "base/peer_hash.h"
#include "distributed/in_process_transport.h"
#include "distributed/remote_worker.h"
#include "distributed/worker_service.h"
#include "graph/graph_import.h"
#include "graph/testing.h"
#include "step/local_worker.h"
#include "step/partial_step.h"
#include "step/run_workers.h"
#include "step/step_compiler.h"
#include "step/step_runner.h"
#include "step/task_steps.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kTask0[] = "/job:worker/replica:0/task:0";
constexpr char kTask1[] = "/job:worker/replica:0/task:1";

std::shared_ptr<LocalDevices> DevicesOfTask(const std::string& task) {
  DeviceOptions options;
  options.name_prefix = task;
  return std::make_shared<LocalDevices>(*DeviceFactoryRegistry::Global().CreateDevices(options));
}

// A worker that counts installed partitions and fails as a test defines.
class WatchedWorker : public Worker {
 public:
  explicit WatchedWorker(Worker& base) : base_(base) {}
  const std::string& task() const override { return base_.task(); }
  const DeviceView& devices() const override { return base_.devices(); }
  bool in_process() const override { return base_.in_process(); }
  void InstallAsync(PartitionSpec spec, Installed done) override {
    if (refuse) return done(errors::Unavailable("no room for graphs"));
    base_.InstallAsync(std::move(spec), [this, finish = std::move(done)](
                                            StatusOr<std::unique_ptr<InstalledPartition>> made) mutable {
      if (!made.ok()) return finish(std::move(made).status());
      finish(std::unique_ptr<InstalledPartition>(std::make_unique<Partition>(*std::move(made), installed)));
    });
  }
  void RecvTensor(int64_t step_id, const Rendezvous::Key& key, Rendezvous::RecvDone done) override {
    {
      MutexLock lock(mu);
      keys.push_back(key.text);
    }
    base_.RecvTensor(step_id, key, std::move(done));
  }
  void CleanUpStep(int64_t step_id, Done done) override { base_.CleanUpStep(step_id, std::move(done)); }
  void ClearContainers(std::vector<std::string> containers, Done done) override {
    base_.ClearContainers(std::move(containers), std::move(done));
  }

  bool refuse = false;
  std::atomic<int> installed{0};
  Mutex mu;
  std::vector<std::string> keys;  // requested by others, on any thread

 private:
  class Partition : public InstalledPartition {
   public:
    Partition(std::unique_ptr<InstalledPartition> base, std::atomic<int>& count)
        : base_(std::move(base)), count_(count) {
      ++count_;
    }
    ~Partition() override { --count_; }
    void Run(StepArgs& args, Done done) override { base_->Run(args, std::move(done)); }
    std::vector<std::string> SerializedGraphs() const override { return base_->SerializedGraphs(); }
    void AppendCosts(const CostModel& model, std::vector<CostNode>* nodes) const override {
      base_->AppendCosts(model, nodes);
    }

   private:
    const std::unique_ptr<InstalledPartition> base_;
    std::atomic<int>& count_;
  };
  Worker& base_;
};

enum class Between { kCalls, kMessages };

class SeveralTasksTest : public ::testing::TestWithParam<Between> {
 protected:
  SeveralTasksTest() {
    transport_.AddTask(kTask0, service0_);
    transport_.AddTask(kTask1, service1_);
    const bool messages = GetParam() == Between::kMessages;
    if (messages) {
      remote0_ = *RemoteWorker::Connect(kTask0, transport_, 10'000);
      remote1_ = *RemoteWorker::Connect(kTask1, transport_, 10'000);
    }
    watched0_ = std::make_unique<WatchedWorker>(messages ? static_cast<Worker&>(*remote0_) : worker0_);
    watched_ = std::make_unique<WatchedWorker>(messages ? static_cast<Worker&>(*remote1_) : worker1_);
    worker0_.SetPeers({watched_.get()});
    worker1_.SetPeers({watched0_.get()});
    compiler0_ = std::make_unique<StepCompiler>(std::vector<Worker*>{&worker0_, watched_.get()}, Options());
    compiler1_ = std::make_unique<StepCompiler>(std::vector<Worker*>{&worker1_, watched0_.get()}, Options());
    worker0_.functions().SetCompiler(compiler0_.get());
    worker1_.functions().SetCompiler(compiler1_.get());
  }
  ~SeveralTasksTest() override {
    steps_.clear();
    worker0_.functions().DropInstances();
    worker1_.functions().DropInstances();
    transport_.Drain();
    EXPECT_EQ(service1_.num_graphs(), 0u);
  }
  static CompileOptions Options() {
    CompileOptions options;
    options.disabled_passes = {"all"};  // nodes stay where they are
    options.fold_constants = false;
    return options;
  }

  // "@0" and "@1" are replaced by the devices.
  StatusOr<const CompiledStep*> Compile(std::string text, const RunSignature& signature,
                                        FeedConvention convention = FeedConvention::kCallFrame) {
    for (const auto& [from, to] : {std::pair<std::string, std::string>("@0", kTask0),
                                   std::pair<std::string, std::string>("@1", kTask1)}) {
      for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at))
        text.replace(at, from.size(), to + "/device:CPU:0");
    }
    Graph graph(OpRegistry::Global());
    ImportOptions import;
    import.validate_shapes = false;
    MR_RETURN_IF_ERROR(ImportGraphDef(GraphDefFromText(text), import, &graph));
    MR_ASSIGN_OR_RETURN(auto step, compiler0_->Compile(graph, signature, convention));
    steps_.push_back(std::move(step));
    return static_cast<const CompiledStep*>(steps_.back().get());
  }
  StatusOr<Tensor> Run(const CompiledStep& step, const Tensor& fed, StepRunner::Request request = {}) {
    const Tensor* const args[] = {&fed};
    std::vector<Tensor> rets(1);
    request.args = std::span(args).first(step.feeds.size());
    request.rets = std::span(rets).first(step.fetches.size());
    MR_RETURN_IF_ERROR(runner_.Run(step, request));
    return rets[0];
  }
  StatusOr<Tensor> RunText(const std::string& text, const RunSignature& signature,
                           const Tensor& fed = Tensor()) {
    MR_ASSIGN_OR_RETURN(const CompiledStep* step, Compile(text, signature));
    return Run(*step, fed);
  }
  void ExpectNothingLeft() {
    transport_.Drain();
    EXPECT_EQ(worker0_.steps().size(), 0u);
    EXPECT_EQ(worker1_.steps().size(), 0u);
  }

  LocalWorker worker0_{DevicesOfTask(kTask0)};
  LocalWorker worker1_{DevicesOfTask(kTask1)};
  ThreadPool pool_{"several_tasks_test", 3};
  InProcessTransport transport_{{.seed = 7, .max_delay_us = 500}};
  WorkerService service0_{worker0_, pool_};
  WorkerService service1_{worker1_, pool_};
  std::unique_ptr<RemoteWorker> remote0_, remote1_;
  std::unique_ptr<WatchedWorker> watched_;   // task 1, as task 0 sees it
  std::unique_ptr<WatchedWorker> watched0_;  // task 0, as task 1 sees it
  std::unique_ptr<StepCompiler> compiler0_, compiler1_;
  StepRunner runner_;
  std::vector<std::unique_ptr<CompiledStep>> steps_;
};

constexpr char kThreeNodes[] = R"(
  node { name: "x" op: "Placeholder" device: "@0" attr { key: "dtype" value { type: DT_FLOAT } } }
  node { name: "square" op: "Mul" input: "x" input: "x" device: "@1" attr { key: "T" value { type: DT_FLOAT } } }
  node { name: "sum" op: "Add" input: "square" input: "x" device: "@0" attr { key: "T" value { type: DT_FLOAT } } })";

TEST_P(SeveralTasksTest, ThreeNodesOnTwoTasksRun) {
  const auto step = Compile(kThreeNodes, {{"x"}, {"sum"}, {}});
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_EQ((*step)->partitions.size(), 2u);
  EXPECT_TRUE((*step)->several_tasks);
  for (float x = 0; x < 50; ++x) {
    const auto sum = Run(**step, Tensor::Scalar(x));
    ASSERT_TRUE(sum.ok()) << sum.status();
    EXPECT_EQ(sum->scalar<float>(), x * x + x);
  }
  ExpectNothingLeft();
}

TEST_P(SeveralTasksTest, WithoutAPoolTheCallersThreadDoesItsPart) {
  const auto step = Compile(kThreeNodes, {{"x"}, {"square"}, {"sum"}});
  ASSERT_TRUE(step.ok()) << step.status();
  for (ThreadPool* pool : {static_cast<ThreadPool*>(nullptr), &pool_}) {
    const auto square = Run(**step, Tensor::Scalar(3.f), {.inter_op_pool = pool, .intra_op_pool = pool});
    ASSERT_TRUE(square.ok()) << square.status();
    EXPECT_EQ(square->scalar<float>(), 9);
  }
}

TEST_P(SeveralTasksTest, KeysCarryTheIncarnationOfTheSender) {
  ASSERT_TRUE(RunText(kThreeNodes, {{"x"}, {"sum"}, {}}, Tensor::Scalar(1.f)).ok());
  ASSERT_EQ(watched_->keys.size(), 1u);
  const auto parts = Rendezvous::Key::Parse(watched_->keys[0]);
  ASSERT_TRUE(parts.ok()) << parts.status();
  const DeviceAttributes& sender = worker1_.local_devices().client_device()->attributes();
  EXPECT_EQ(parts->src_device, sender.name);
  EXPECT_EQ(parts->src_incarnation, sender.incarnation);
  EXPECT_THAT(parts->tensor_name, HasSubstr("_square"));
}

TEST_P(SeveralTasksTest, AnErrorNamesItsTaskAndNode) {
  const auto bad = RunText(R"(
    node { name: "x" op: "Placeholder" device: "@0" attr { key: "dtype" value { type: DT_FLOAT } } }
    node { name: "checked" op: "CheckNumerics" input: "x" device: "@1" attr { key: "T" value { type: DT_FLOAT } }
           attr { key: "message" value { s: "bad" } } }
    node { name: "y" op: "Neg" input: "checked" device: "@0" attr { key: "T" value { type: DT_FLOAT } } })",
                           {{"x"}, {"y"}, {}}, Tensor::Scalar(NAN));
  EXPECT_TRUE(errors::IsInvalidArgument(bad.status())) << bad.status();
  EXPECT_THAT(bad.status().message(), StartsWith(StrCat("From ", kTask1, ":\nbad")));
  EXPECT_THAT(bad.status().message(), HasSubstr("{{node checked}}"));
  ExpectNothingLeft();
}

// A task that waited for the failed one has an error too, but not the one to report.
TEST_P(SeveralTasksTest, TheFirstErrorWinsOverThoseThatFollowFromIt) {
  const auto step = Compile(R"(
    node { name: "x" op: "Placeholder" device: "@0" attr { key: "dtype" value { type: DT_FLOAT } } }
    node { name: "far" op: "Identity" input: "x" device: "@1" attr { key: "T" value { type: DT_FLOAT } } }
    node { name: "checked" op: "CheckNumerics" input: "far" device: "@0" attr { key: "T" value { type: DT_FLOAT } }
           attr { key: "message" value { s: "bad" } } }
    node { name: "y" op: "Neg" input: "checked" device: "@1" attr { key: "T" value { type: DT_FLOAT } } })",
                            {{"x"}, {}, {"y"}});
  ASSERT_TRUE(step.ok()) << step.status();
  for (int i = 0; i < 30; ++i) {
    const Status status = Run(**step, Tensor::Scalar(NAN)).status();
    ASSERT_THAT(status.message(), StartsWith(StrCat("From ", kTask0, ":\nbad"))) << status;
    EXPECT_THAT(status.message(), Not(HasSubstr("_Derived_")));
  }
  ExpectNothingLeft();
}

TEST_P(SeveralTasksTest, WhatIsInstalledGoesWhenAnotherWorkerRefuses) {
  watched_->refuse = true;
  const auto refused = Compile(kThreeNodes, {{"x"}, {"sum"}, {}});
  EXPECT_TRUE(errors::IsUnavailable(refused.status())) << refused.status();
  watched_->refuse = false;
  // The node of the own task has no kernel for such a type; the other one is fine.
  const auto bad = Compile(R"(
    node { name: "x" op: "Placeholder" device: "@1" attr { key: "dtype" value { type: DT_STRING } } }
    node { name: "far" op: "Identity" input: "x" device: "@1" attr { key: "T" value { type: DT_STRING } } }
    node { name: "y" op: "DecodeRaw" input: "far" device: "@0" attr { key: "out_type" value { type: DT_STRING } } })",
                           {{"x"}, {}, {"y"}});
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(watched_->installed, 0);
}

// The queue stays empty on task 1 while task 0 waits for a tensor from there.
constexpr char kWaits[] = R"(
  node { name: "q" op: "FIFOQueueV2" device: "@1" attr { key: "component_types" value { list { type: DT_FLOAT } } } }
  node { name: "take" op: "QueueDequeueV2" input: "q" device: "@1"
         attr { key: "component_types" value { list { type: DT_FLOAT } } } }
  node { name: "y" op: "Neg" input: "take" device: "@0" attr { key: "T" value { type: DT_FLOAT } } })";

TEST_P(SeveralTasksTest, ACancelledStepEndsOnAllTasks) {
  const auto step = Compile(kWaits, {{}, {"y"}, {}});
  ASSERT_TRUE(step.ok()) << step.status();
  CancellationManager before;
  before.StartCancel();
  EXPECT_TRUE(errors::IsCancelled(Run(**step, Tensor(), {.cancellation = &before}).status()));
  CancellationManager cancellation;
  Notification started;
  std::thread canceller([&] {
    started.Wait();
    cancellation.StartCancel();
  });
  started.Notify();
  const Status status = Run(**step, Tensor(), {.cancellation = &cancellation}).status();
  canceller.join();
  EXPECT_TRUE(errors::IsCancelled(status)) << status;
  ExpectNothingLeft();
}

TEST_P(SeveralTasksTest, ATimeoutEndsTheStepOnAllTasks) {
  const auto step = Compile(kWaits, {{}, {"y"}, {}});
  ASSERT_TRUE(step.ok()) << step.status();
  const Status status = Run(**step, Tensor(), {.timeout_in_ms = 20}).status();
  EXPECT_TRUE(errors::IsDeadlineExceeded(status)) << status;
  ExpectNothingLeft();
}

TEST_P(SeveralTasksTest, CloseEndsStepsOnAllTasks) {
  const auto step = Compile(kWaits, {{}, {"y"}, {}});
  ASSERT_TRUE(step.ok()) << step.status();
  std::thread closer([&] { runner_.Close(); });
  const Status status = Run(**step, Tensor()).status();
  closer.join();
  EXPECT_TRUE(errors::IsCancelled(status)) << status;
  // A node that was waiting reports what it was waiting for.
  const bool waited = status.message().find("Dequeue operation was cancelled") != std::string_view::npos;
  EXPECT_TRUE(waited || status.message() == "Session has been closed.") << status;
  ExpectNothingLeft();
}

TEST_P(SeveralTasksTest, DeadTensorsTravel) {
  const std::string text = R"(
    node { name: "x" op: "Placeholder" device: "@0" attr { key: "dtype" value { type: DT_FLOAT } } }
    node { name: "limit" op: "Const" device: "@0" attr { key: "dtype" value { type: DT_FLOAT } }
           attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape {} float_val: 0 } } } }
    node { name: "positive" op: "Greater" input: "x" input: "limit" device: "@0"
           attr { key: "T" value { type: DT_FLOAT } } }
    node { name: "way" op: "Switch" input: "x" input: "positive" device: "@0"
           attr { key: "T" value { type: DT_FLOAT } } }
    node { name: "no" op: "Neg" input: "way:0" device: "@1" attr { key: "T" value { type: DT_FLOAT } } }
    node { name: "yes" op: "Square" input: "way:1" device: "@1" attr { key: "T" value { type: DT_FLOAT } } }
    node { name: "y" op: "Merge" input: "no" input: "yes" device: "@0"
           attr { key: "T" value { type: DT_FLOAT } } attr { key: "N" value { i: 2 } } })";
  for (const auto& [x, want] : {std::pair(3.f, 9.f), std::pair(-3.f, 3.f)}) {
    const auto y = RunText(text, {{"x"}, {"y"}, {}}, Tensor::Scalar(x));
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_EQ(y->scalar<float>(), want);
  }
  EXPECT_FALSE(RunText(text, {{"x"}, {"yes"}, {}}, Tensor::Scalar(-3.f)).ok())
      << "a dead tensor is no result";
  ExpectNothingLeft();
}

// i circulates on task 0, the product on task 1.
TEST_P(SeveralTasksTest, LoopsRunOverTasks) {
  const std::string text = R"(
    node { name: "n" op: "Placeholder" device: "@0" attr { key: "dtype" value { type: DT_FLOAT } } }
    node { name: "one" op: "Const" device: "@0" attr { key: "dtype" value { type: DT_FLOAT } }
           attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape {} float_val: 1 } } } }
    node { name: "i_in" op: "Enter" input: "one" device: "@0" attr { key: "T" value { type: DT_FLOAT } }
           attr { key: "frame_name" value { s: "loop" } } }
    node { name: "p_in" op: "Enter" input: "one" device: "@1" attr { key: "T" value { type: DT_FLOAT } }
           attr { key: "frame_name" value { s: "loop" } } }
    node { name: "n_in" op: "Enter" input: "n" device: "@0" attr { key: "T" value { type: DT_FLOAT } }
           attr { key: "frame_name" value { s: "loop" } } attr { key: "is_constant" value { b: true } } }
    node { name: "i" op: "Merge" input: "i_in" input: "i_next" device: "@0"
           attr { key: "T" value { type: DT_FLOAT } } attr { key: "N" value { i: 2 } } }
    node { name: "p" op: "Merge" input: "p_in" input: "p_next" device: "@1"
           attr { key: "T" value { type: DT_FLOAT } } attr { key: "N" value { i: 2 } } }
    node { name: "go" op: "LessEqual" input: "i" input: "n_in" device: "@0"
           attr { key: "T" value { type: DT_FLOAT } } }
    node { name: "cond" op: "LoopCond" input: "go" device: "@0" }
    node { name: "i_way" op: "Switch" input: "i" input: "cond" device: "@0"
           attr { key: "T" value { type: DT_FLOAT } } }
    node { name: "p_way" op: "Switch" input: "p" input: "cond" device: "@1"
           attr { key: "T" value { type: DT_FLOAT } } }
    node { name: "step" op: "Const" input: "^i_way" device: "@0" attr { key: "dtype" value { type: DT_FLOAT } }
           attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape {} float_val: 1 } } } }
    node { name: "i_more" op: "Add" input: "i_way:1" input: "step" device: "@0"
           attr { key: "T" value { type: DT_FLOAT } } }
    node { name: "p_more" op: "Mul" input: "p_way:1" input: "i_way:1" device: "@1"
           attr { key: "T" value { type: DT_FLOAT } } }
    node { name: "i_next" op: "NextIteration" input: "i_more" device: "@0"
           attr { key: "T" value { type: DT_FLOAT } } }
    node { name: "p_next" op: "NextIteration" input: "p_more" device: "@1"
           attr { key: "T" value { type: DT_FLOAT } } }
    node { name: "p_out" op: "Exit" input: "p_way:0" device: "@1" attr { key: "T" value { type: DT_FLOAT } } })";
  const auto step = Compile(text, {{"n"}, {"p_out"}, {}});
  ASSERT_TRUE(step.ok()) << step.status();
  for (const auto& [n, want] : {std::pair(0.f, 1.f), std::pair(1.f, 1.f), std::pair(6.f, 720.f)}) {
    const auto factorial = Run(**step, Tensor::Scalar(n));
    ASSERT_TRUE(factorial.ok()) << factorial.status();
    EXPECT_EQ(factorial->scalar<float>(), want);
  }
  ExpectNothingLeft();
  // The frame in a key is the number that a task of TensorFlow computes for the first execution of this loop.
  const std::string frame = StrCat(PeerHash64(";0;loop"));
  std::set<std::string> iterations;
  for (const std::string& key : watched0_->keys) {
    const size_t at = key.rfind(';') + 1;
    if (key.compare(at, frame.size() + 1, frame + ":") == 0)
      iterations.insert(key.substr(at + frame.size() + 1));
  }
  EXPECT_EQ(iterations, (std::set<std::string>{"0", "1", "2", "3", "4", "5", "6"}));
}

TEST_P(SeveralTasksTest, FunctionsRunOverTasks) {
  const std::string text = R"(
    node { name: "x" op: "Placeholder" device: "@0" attr { key: "dtype" value { type: DT_FLOAT } } }
    node { name: "y" op: "PartitionedCall" input: "x" device: "@0"
           attr { key: "Tin" value { list { type: DT_FLOAT } } } attr { key: "Tout" value { list { type: DT_FLOAT } } }
           attr { key: "f" value { func { name: "far" } } } }
    node { name: "z" op: "PartitionedCall" input: "y" device: "@1"
           attr { key: "Tin" value { list { type: DT_FLOAT } } } attr { key: "Tout" value { list { type: DT_FLOAT } } }
           attr { key: "f" value { func { name: "far" } } } }
    library { function {
      signature { name: "far" input_arg { name: "a" type: DT_FLOAT } output_arg { name: "b" type: DT_FLOAT } }
      node_def { name: "here" op: "Neg" input: "a" device: "@0" attr { key: "T" value { type: DT_FLOAT } } }
      node_def { name: "there" op: "Mul" input: "here:y:0" input: "a" device: "@1"
                 attr { key: "T" value { type: DT_FLOAT } } }
      ret { key: "b" value: "there:z:0" } } })";
  const auto step = Compile(text, {{"x"}, {"z"}, {}});
  ASSERT_TRUE(step.ok()) << step.status();
  for (int i = 0; i < 10; ++i) {
    const auto z = Run(**step, Tensor::Scalar(2.f), {.inter_op_pool = &pool_});
    ASSERT_TRUE(z.ok()) << z.status();
    EXPECT_EQ(z->scalar<float>(), -16);
  }
  ExpectNothingLeft();
}

TEST_P(SeveralTasksTest, TracesOfAllTasksAreMerged) {
  const auto step = Compile(kThreeNodes, {{"x"}, {"sum"}, {}});
  ASSERT_TRUE(step.ok()) << step.status();
  RunMetadata metadata;
  metadata.step_start_unix_us = std::chrono::duration_cast<std::chrono::microseconds>(
                                    std::chrono::system_clock::now().time_since_epoch())
                                    .count();
  ASSERT_TRUE(Run(**step, Tensor::Scalar(1.f), {.metadata = &metadata}).ok());
  std::map<std::string, std::string> device_of;
  for (const DeviceStats& device : metadata.devices) {
    for (const NodeStats& node : device.nodes) {
      device_of[node.node] = device.device;
      EXPECT_GE(node.start_ns, -1'000'000) << node.node;
      EXPECT_LT(node.end_ns, int64_t{60} * 1'000'000'000) << node.node;
      if (node.node == "square") {
        EXPECT_EQ(node.op, "Mul");
      }
    }
  }
  EXPECT_EQ(device_of["square"], StrCat(kTask1, "/device:CPU:0"));
  EXPECT_EQ(device_of["sum"], StrCat(kTask0, "/device:CPU:0"));
}

TEST_P(SeveralTasksTest, ContainersOfAWorkerAreCleared) {
  const std::string text = R"(
    node { name: "v" op: "VarHandleOp" device: "@1" attr { key: "dtype" value { type: DT_FLOAT } }
           attr { key: "shape" value { shape {} } } attr { key: "container" value { s: "c" } } }
    node { name: "x" op: "Placeholder" device: "@0" attr { key: "dtype" value { type: DT_FLOAT } } }
    node { name: "set" op: "AssignVariableOp" input: "v" input: "x" device: "@1"
           attr { key: "dtype" value { type: DT_FLOAT } } }
    node { name: "get" op: "ReadVariableOp" input: "v" device: "@1" attr { key: "dtype" value { type: DT_FLOAT } } }
    node { name: "y" op: "Neg" input: "get" device: "@0" attr { key: "T" value { type: DT_FLOAT } } })";
  const auto set = Compile(text, {{"x"}, {}, {"set"}});
  const auto get = Compile(text, {{}, {"y"}, {}});
  ASSERT_TRUE(set.ok() && get.ok()) << set.status() << get.status();
  ASSERT_TRUE(Run(**set, Tensor::Scalar(7.f)).ok());
  const auto kept = Run(**get, Tensor());
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->scalar<float>(), -7);
  for (const char* container : {"other", "c"}) {
    Notification cleared;
    watched_->ClearContainers({container}, [&](const Status& s) {
      EXPECT_EQ(s, Status());
      cleared.Notify();
    });
    cleared.Wait();
    EXPECT_EQ(Run(**get, Tensor()).ok(), std::string_view(container) == "other");
  }
}

TEST_P(SeveralTasksTest, APartialRunIsFedAndFetchedWhileTasksWait) {
  const auto step = Compile(kThreeNodes, {{"x"}, {"square", "sum"}, {}}, FeedConvention::kRendezvous);
  ASSERT_TRUE(step.ok()) << step.status();
  const DeviceAttributes& client = worker0_.local_devices().client_device()->attributes();
  for (int i = 0; i < 5; ++i) {
    const auto partial = PartialStep::Start(runner_, **step, {.inter_op_pool = &pool_},
                                            {client.name, client.incarnation, &worker0_});
    ASSERT_TRUE(partial.ok()) << partial.status();
    ASSERT_EQ((*partial)->Feed("x:0", Tensor::Scalar(3.f), 10'000), Status());
    for (const auto& [name, want] : {std::pair<std::string, float>("sum:0", 12.f), {"square:0", 9.f}}) {
      std::vector<Tensor> values;
      ASSERT_EQ((*partial)->Fetch(std::array{name}, 10'000, &values), Status());
      EXPECT_EQ(values[0].scalar<float>(), want);
    }
    EXPECT_EQ((*partial)->Wait(10'000), Status());
  }
  runner_.WaitForStarted();
  ExpectNothingLeft();
}

TEST_P(SeveralTasksTest, LateRequestsAreRefused) {
  worker1_.steps().CleanUp(77);
  const DeviceAttributes& device = worker1_.local_devices().client_device()->attributes();
  Notification answered;
  watched_->RecvTensor(77, Rendezvous::Key::Make(device.name, device.incarnation, device.name, "t"),
                       [&](const Status& status, const Tensor&, bool) {
                         EXPECT_TRUE(errors::IsAborted(status)) << status;
                         EXPECT_THAT(status.message(), HasSubstr("Step 77 has ended"));
                         answered.Notify();
                       });
  answered.Wait();
  ExpectNothingLeft();
}

INSTANTIATE_TEST_SUITE_P(Between, SeveralTasksTest, ::testing::Values(Between::kCalls, Between::kMessages),
                         [](const auto& test) {
                           return test.param == Between::kCalls ? "Calls" : "Messages";
                         });

TEST(TaskStepsTest, AStepThatOnlyAWaitingTaskHasNamedGoesWhenItGivesUp) {
  std::vector<Status> ends;  // outlives the steps, which notify those still waiting when they end
  TaskSteps steps(kTask0,
                  [](std::string_view, int64_t, const Rendezvous::Key&, CancellationManager&,
                     Rendezvous::RecvDone done) { done(errors::Internal("nobody"), Tensor(), false); });
  const Rendezvous::Key key = KeyFromText("a;1;b;c;0:0");
  const auto wait = [&](int64_t step) {
    steps.RecvLocal(step, key, [&](const Status& status, const Tensor&, bool) { ends.push_back(status); });
  };
  wait(1);
  wait(1);
  EXPECT_EQ(steps.size(), 1u);
  steps.CleanUpUnlessRun(1);
  EXPECT_EQ(steps.size(), 0u);
  ASSERT_EQ(ends.size(), 2u) << "others that wait for the step are notified";
  EXPECT_TRUE(errors::IsAborted(ends[0])) << ends[0];
  EXPECT_TRUE(errors::IsAborted(steps.Find(1).status())) << "its partition comes too late";
  wait(2);
  ASSERT_TRUE(steps.Find(2).ok());
  steps.CleanUpUnlessRun(2);
  EXPECT_EQ(steps.size(), 1u) << "a partition has it";
  steps.CleanUpUnlessRun(3);
  EXPECT_TRUE(steps.Find(3).ok()) << "a step without a request is not ended";
}

TEST(StepIdsTest, AreRandomAndHaveTheReservedByteOfTensorFlow) {
  StepIds one, other;
  std::set<int64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    for (const int64_t id : {one.Next(), other.Next(), StepIds::NextShared()}) {
      EXPECT_EQ(id >> 56, 1);
      EXPECT_TRUE(seen.insert(id).second);
    }
  }
}

// Compared with an independent implementation of MurmurHash64A with the same seed.
TEST(PeerHashTest, IsTheHashThatTasksAgreeOn) {
  EXPECT_EQ(PeerHash64(""), 9328806548029283899u);
  EXPECT_EQ(PeerHash64("12345678"), 421129128932463287u);
  EXPECT_EQ(PeerHash64(";0;while/while_context"), 1496156560211570566u);
}

}  // namespace
}  // namespace millrace
