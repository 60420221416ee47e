// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/replicas.h"

#include <gmock/gmock.h>

#include <thread>

#include "graph/graph.h"
#include "millrace/monitored_session.h"
#include "millrace/ops.h"
#include "training/training_testing.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string DeviceOf(const Operation& operation) {
  return operation.IsSet() ? operation.node->requested_device() : "unset";
}

GraphVariable Zeros(const Scope& scope, const std::string& name, std::vector<int64_t> dims) {
  return GetVariable(scope, name, PartialShape(std::move(dims)), {.initializer = initializers::Zeros()});
}

Scope WithReplicas(const Scope& scope, int ps_tasks, PlacementStrategy strategy = {}) {
  return scope.WithDeviceFunction(ReplicaDeviceSetter(
      {.ps_tasks = ps_tasks, .worker_device = "/job:worker/task:1", .strategy = std::move(strategy)}));
}

TEST(ReplicaDeviceSetterTest, VariablesGoRoundTheServersAndTheRestToTheWorker) {
  const Scope scope = WithReplicas(Scope::NewRootScope(), 2);
  const GraphVariable a = Zeros(scope, "a", {2}), b = Zeros(scope, "b", {2});
  const GraphVariable step = CreateGlobalStep(scope);
  const Output sum = ops::Add(scope, a, b);
  EXPECT_EQ(DeviceOf(a.ref()), "/job:ps/task:0");
  EXPECT_EQ(DeviceOf(b.ref()), "/job:ps/task:1");
  EXPECT_EQ(DeviceOf(step.ref()), "/job:ps/task:0");
  EXPECT_EQ(DeviceOf(sum), "/job:worker/task:1");
  EXPECT_EQ(DeviceOf(b.initializer()), "/job:ps/task:1") << "beside the variable";
  EXPECT_EQ(DeviceOf(b.value()), "/job:ps/task:1");
  const Operation train =
      MomentumOptimizer(0.5f, 0.9f).Minimize(scope, ops::Sum(scope, sum, 0), {a, b}, step);
  ASSERT_TRUE(scope.ok()) << scope.status();
  EXPECT_EQ(DeviceOf(*scope.FindOperation("b/Momentum")), "/job:ps/task:1") << "slots beside their variable";
  EXPECT_EQ(DeviceOf(*scope.FindOperation("Momentum/update_b/ApplyMomentum")), "/job:ps/task:1");
  EXPECT_EQ(DeviceOf(train), "/job:ps/task:0") << "what counts steps, beside the step";
}

TEST(ReplicaDeviceSetterTest, PartsOfAVariableAreDistributed) {
  const Scope scope = WithReplicas(Scope::NewRootScope(), 3);
  const PartitionedVariable table =
      GetPartitionedVariable(scope, "table", PartialShape({10, 2}),
                             {.initializer = initializers::Zeros(), .partitioner = FixedSizePartitioner(4)});
  ASSERT_TRUE(scope.ok()) << scope.status();
  std::vector<std::string> devices;
  for (const GraphVariable& part : table.parts()) devices.push_back(DeviceOf(part.ref()));
  EXPECT_THAT(devices, ElementsAre("/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:2", "/job:ps/task:0"));
  EXPECT_EQ(DeviceOf(table.value()), "/job:worker/task:1");
}

TEST(ReplicaDeviceSetterTest, RequestedDevicesAreCompletedOrTaken) {
  const Scope root = Scope::NewRootScope();
  const Scope scope = WithReplicas(root, 2);
  EXPECT_EQ(DeviceOf(ops::Const(scope.WithDevice("/cpu:0"), 1)), "/job:worker/task:1/device:CPU:0");
  EXPECT_EQ(DeviceOf(ops::Const(scope.WithDevice("/job:other"), 1)), "/job:other/task:1");
  EXPECT_EQ(DeviceOf(Zeros(scope.WithDevice("/job:ps/task:7"), "a", {1}).ref()), "/job:ps/task:7");
  EXPECT_EQ(DeviceOf(Zeros(scope.WithDevice("/job:worker"), "b", {1}).ref()), "/job:worker");
  EXPECT_EQ(DeviceOf(Zeros(scope, "c", {1}).ref()), "/job:ps/task:1")
      << "the strategy was called for 'a' but not for 'b', which has another job";
  const Scope raw = root.WithDeviceFunction(ReplicaDeviceSetter({.ps_tasks = 1, .merge_devices = false}));
  EXPECT_EQ(DeviceOf(ops::Const(raw.WithDevice("/cpu:0"), 1)), "/cpu:0");
  EXPECT_EQ(DeviceOf(ops::Const(raw, 1)), "/job:worker");
  EXPECT_EQ(DeviceOf(ops::Const(raw.WithDeviceFunction(nullptr), 1)), "");
  EXPECT_EQ(ReplicaDeviceSetter({.ps_tasks = 0}), nullptr);
  ASSERT_TRUE(root.ok()) << root.status();
  ops::Const(scope.WithDevice("/job:"), 1);
  EXPECT_TRUE(errors::IsInvalidArgument(root.status()));
  EXPECT_THAT(root.status().message(), HasSubstr("Malformed device specification '/job:'"));
}

TEST(ReplicaDeviceSetterTest, GreedyStrategyBalancesBytes) {
  const Scope scope = WithReplicas(Scope::NewRootScope(), 2, GreedyLoadBalancingStrategy(2));
  std::vector<std::string> devices;
  for (const int64_t n : {100, 30, 60, 20, 5, 1}) {
    devices.push_back(DeviceOf(Zeros(scope, StrCat("v", n), {n}).ref()).substr(8));
  }
  // Bytes on both after each: 400 0, 400 120, 400 360, 400 440, 420 440, 424 440.
  EXPECT_THAT(devices, ElementsAre("task:0", "task:1", "task:1", "task:1", "task:0", "task:0"));
  EXPECT_EQ(*ByteSizeLoad({.op = "V", .device = "", .dtype = DataType::kDouble, .shape = {3, 2}}), 48);
  EXPECT_TRUE(errors::IsInvalidArgument(
      ByteSizeLoad({.op = "V", .device = "", .dtype = DataType::kFloat, .shape = {-1, 2}}).status()));
  EXPECT_TRUE(errors::IsInvalidArgument(
      ByteSizeLoad({.op = "V", .device = "", .dtype = DataType::kString, .shape = {2}}).status()));
  EXPECT_FALSE(RoundRobinStrategy(0)({}).ok());
  EXPECT_FALSE(GreedyLoadBalancingStrategy(0)({}).ok());
}

// Two variables, one of which gets slices, whose gradients are fed.
struct Fed {
  Fed(const Scope& s, const GraphVariable& w, const GraphVariable& e)
      : g(ops::Placeholder(s.WithOpName("g"), DataType::kFloat, ops::Placeholder::Shape({2}))),
        rows(ops::Placeholder(s.WithOpName("rows"), DataType::kInt32)),
        values(ops::Placeholder(s.WithOpName("values"), DataType::kFloat)),
        gradients({{GradientValue(g), w},
                   {GradientValue(IndexedSlices{.values = values, .indices = rows, .dense_shape = {}}), e}}) {
  }
  Output g, rows, values;
  std::vector<GradientAndVariable> gradients;
};

TEST(SyncReplicasTest, NodesAreThoseOfTensorFlow) {
  const Scope scope = WithReplicas(Scope::NewRootScope(), 2);
  const GraphVariable step = CreateGlobalStep(scope);
  const GraphVariable w = Zeros(scope, "w", {2}), e = Zeros(scope, "e", {4, 2});
  const Fed fed(scope, w, e);
  SyncReplicasOptimizer sync(std::make_shared<GradientDescentOptimizer>(0.5f), 2, {.total_num_replicas = 3});
  const Operation train = sync.ApplyGradients(scope, fed.gradients, step);
  sync.InitTokensOp(scope);
  ASSERT_TRUE(scope.ok()) << scope.status();
  EXPECT_EQ(Scope::NameOf(train), "Assign_1");
  const std::vector<std::vector<std::string>> expected = {
      {"sync_rep_local_step", "VariableV2", "/job:worker/task:1"},
      {"Assign", "Assign", "/job:worker/task:1"},
      {"Assign_1", "Assign", "/job:worker/task:1"},
      {"sync_replicas/conditional_accumulator", "ConditionalAccumulator", "/job:ps/task:1"},
      {"sync_replicas/AccumulatorApplyGradient", "AccumulatorApplyGradient", "/job:ps/task:1"},
      {"sync_replicas/AccumulatorTakeGradient/num_required", "Const", "/job:ps/task:1"},
      {"sync_replicas/AccumulatorTakeGradient", "AccumulatorTakeGradient", "/job:ps/task:1"},
      {"sync_replicas/sparse_conditional_accumulator", "SparseConditionalAccumulator", "/job:ps/task:0"},
      {"sync_replicas/SparseAccumulatorApplyGradient", "SparseAccumulatorApplyGradient", "/job:ps/task:0"},
      {"sync_replicas/SparseAccumulatorTakeGradient", "SparseAccumulatorTakeGradient", "/job:ps/task:0"},
      {"GradientDescent/update_w/ApplyGradientDescent", "ApplyGradientDescent", "/job:ps/task:1"},
      {"GradientDescent", "AssignAdd", "/job:ps/task:0"},
      {"sync_token_q", "FIFOQueueV2", "/job:ps/task:0"},
      {"sync_token_q_Dequeue", "QueueDequeueV2", "/job:ps/task:0"},
      {"Fill", "Fill", "/job:ps/task:0"},
      {"sync_token_q_EnqueueMany", "QueueEnqueueManyV2", "/job:ps/task:0"},
      {"sync_replicas/dummy_queue", "FIFOQueueV2", "/job:worker/task:1"},
      {"sync_replicas/SetGlobalStep", "AccumulatorSetGlobalStep", "/job:ps/task:1"},
      {"sync_replicas/SetGlobalStep_1", "AccumulatorSetGlobalStep", "/job:ps/task:0"},
      {"sync_replicas/group_deps", "NoOp", "/job:worker/task:1"},
      {"sync_token_q_EnqueueMany_1", "QueueEnqueueManyV2", "/job:ps/task:0"}};
  for (const auto& node : expected) {
    const auto found = scope.FindOperation(node[0]);
    ASSERT_TRUE(found.ok()) << node[0];
    EXPECT_EQ(found->node->op_name(), node[1]) << node[0];
    EXPECT_EQ(DeviceOf(*found), node[2]) << node[0];
  }
  EXPECT_EQ(sync.chief_queue_runner().queue_name, "sync_replicas/dummy_queue");
  EXPECT_THAT(sync.chief_queue_runner().enqueue_op_names, ElementsAre("sync_token_q_EnqueueMany"));
  ASSERT_EQ(LocalVariables(scope).size(), 1u);
  EXPECT_EQ(LocalVariables(scope)[0].name(), "sync_rep_local_step");
}

// Replicas in one graph and one session, each with separate gradients; the first one is the chief.
class InGraphReplicas {
 public:
  InGraphReplicas(int replicas, int to_aggregate, bool resource = false)
      : scope_(WithVariableOptions(Scope::NewRootScope(), {.resource = resource})),
        w_(Zeros(scope_, "w", {2})),
        e_(Zeros(scope_, "e", {4, 2})),
        step_(CreateGlobalStep(scope_)) {
    for (int i = 0; i < replicas; ++i) {
      const Scope own = scope_.NewSubScope("replica");
      fed_.emplace_back(own, w_, e_);
      sync_.push_back(std::make_unique<SyncReplicasOptimizer>(
          std::make_shared<GradientDescentOptimizer>(1.0f), to_aggregate,
          SyncReplicasOptimizer::Options{.total_num_replicas = replicas}));
      train_.push_back(sync_.back()->ApplyGradients(own, fed_.back().gradients, step_));
    }
    ready_ = std::make_unique<ReadySession>(scope_);
    for (const auto& sync : sync_) ready_->Run({sync->local_step_init_op()});
    ready_->Run({sync_[0]->chief_init_op()});
    EXPECT_EQ(sync_[0]->chief_queue_runner().Start(*ready_->session().session(), coordinator_), Status());
  }
  ~InGraphReplicas() {
    coordinator_.RequestStop();
    EXPECT_EQ(ready_->session().session()->Close(), Status()) << "what waits for gradients ends";
  }
  // One step of a replica: a gradient of w, and rows of a gradient of e.
  void Step(size_t replica, float g, const std::vector<int32_t>& rows = {0}, float value = 0) {
    EXPECT_EQ(TryStep(replica, g, rows, value, RunOptions()), Status());
  }
  Status TryStep(size_t replica, float g, const std::vector<int32_t>& rows, float value,
                 const RunOptions& options) {
    Tensor slices(DataType::kFloat, {static_cast<int64_t>(rows.size()), 2});
    std::fill_n(slices.data<float>(), slices.num_elements(), value);
    const Fed& fed = fed_[replica];
    return ready_->session().Run(options,
                                 {{fed.g, Literal(Tensor::Vector(std::vector<float>{g, 2 * g}))},
                                  {fed.rows, Literal(Tensor::Vector(rows))},
                                  {fed.values, Literal(slices)}},
                                 {}, {train_[replica]}, nullptr, nullptr);
  }
  std::vector<float> w() { return ready_->Values(w_.value()); }
  std::vector<float> e() { return ready_->Values(e_.value()); }
  int64_t step() { return *ready_->Fetch({step_.value()})[0].data<int64_t>(); }
  int64_t local_step(size_t i) { return *ready_->Fetch({sync_[i]->local_step().value()})[0].data<int64_t>(); }

 private:
  Scope scope_;
  GraphVariable w_, e_, step_;
  std::vector<Fed> fed_;
  std::vector<std::unique_ptr<SyncReplicasOptimizer>> sync_;
  std::vector<Operation> train_;
  std::unique_ptr<ReadySession> ready_;
  Coordinator coordinator_;
};

class SyncReplicasValuesTest : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(All, SyncReplicasValuesTest, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Resource" : "Reference"; });

TEST_P(SyncReplicasValuesTest, EachUpdateIsTheMeanOfAllGradients) {
  InGraphReplicas replicas(4, 4, GetParam());
  for (int t = 0; t < 3; ++t) {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < 4; ++i) {
      // Rows: 0 by all, with 2; 1 by the first two, with 2.
      threads.emplace_back([&, i] {
        replicas.Step(i, static_cast<float>(i) + static_cast<float>(t),
                      i < 2 ? std::vector<int32_t>{0, 1} : std::vector<int32_t>{0}, 2);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(replicas.step(), t + 1);
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(replicas.local_step(i), t + 1);
  }
  // Means of w's gradients: 1.5, 2.5, 3.5. A row's mean is over the gradients that contain it.
  EXPECT_THAT(replicas.w(), ElementsAre(-7.5f, -15.0f));
  EXPECT_THAT(replicas.e(), ElementsAre(-6, -6, -6, -6, 0, 0, 0, 0));
}

TEST_P(SyncReplicasValuesTest, AStaleGradientIsDropped) {
  InGraphReplicas replicas(2, 1, GetParam());
  replicas.Step(0, 1);  // makes step 1 alone
  EXPECT_EQ(replicas.local_step(0), 1);
  EXPECT_EQ(replicas.local_step(1), 0);
  replicas.Step(1, 100, {1}, 100);  // of step 0; takes the remaining token
  EXPECT_EQ(replicas.local_step(1), 1);
  EXPECT_EQ(replicas.step(), 1);
  EXPECT_THAT(replicas.w(), ElementsAre(-1, -2));
  replicas.Step(1, 10, {1}, 10);  // of step 1
  EXPECT_EQ(replicas.step(), 2);
  EXPECT_THAT(replicas.w(), ElementsAre(-11, -22));
  EXPECT_THAT(replicas.e(), ElementsAre(0, 0, -10, -10, 0, 0, 0, 0));
}

TEST_P(SyncReplicasValuesTest, TrainingContinuesWithoutTheBackup) {
  InGraphReplicas replicas(3, 2, GetParam());
  constexpr int64_t kWanted = 20;
  std::vector<std::thread> threads;
  // The third one does nothing.
  for (size_t i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      // One of the two is left alone at the end, with a gradient that is never used.
      RunOptions options;
      options.timeout_in_ms = 2000;
      while (replicas.step() < kWanted) {
        const Status status = replicas.TryStep(i, 1, {0}, 0, options);
        EXPECT_TRUE(status.ok() || errors::IsDeadlineExceeded(status)) << status;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto step = static_cast<float>(replicas.step());
  EXPECT_GE(step, kWanted);
  EXPECT_THAT(replicas.w(), ElementsAre(-step, -2 * step)) << "each update is a mean of ones";
}

TEST(SyncReplicasTest, MisuseIsAnError) {
  const auto descent = std::make_shared<GradientDescentOptimizer>(1.0f);
  const auto error = [&](const std::function<void(const Scope&, SyncReplicasOptimizer&)>& use,
                         int to_aggregate = 2, int total = 1) {
    const Scope scope = Scope::NewRootScope();
    SyncReplicasOptimizer sync(descent, to_aggregate, {.total_num_replicas = total});
    use(scope, sync);
    return scope.status();
  };
  EXPECT_THAT(
      error([](const Scope& s, auto& sync) { sync.ApplyGradients(s, {}, CreateGlobalStep(s)); }).message(),
      HasSubstr("Must supply at least one variable"));
  EXPECT_THAT(error([](const Scope& s, auto& sync) {
                sync.ApplyGradients(s, {{GradientValue(), Zeros(s, "v", {1})}}, {});
              }).message(),
              HasSubstr("Global step is required to check staleness"));
  EXPECT_THAT(error([](const Scope& s, auto& sync) {
                sync.ApplyGradients(s, {{GradientValue(), Zeros(s, "v", {1})}}, CreateGlobalStep(s));
              }).message(),
              HasSubstr("no gradients provided"));
  EXPECT_THAT(error([](const Scope& s, auto& sync) { sync.InitTokensOp(s); }).message(),
              HasSubstr("get_init_tokens_op() should be called after apply_gradients()."));
  const auto apply = [](const Scope& s, SyncReplicasOptimizer& sync) {
    const GraphVariable v = Zeros(s, "v", {1});
    return sync.ApplyGradients(s, {{GradientValue(v.value()), v}}, CreateGlobalStep(s));
  };
  EXPECT_THAT(error([&](const Scope& s, auto& sync) {
                apply(s, sync);
                sync.InitTokensOp(s, 0);
              }).message(),
              HasSubstr("Too few tokens to finish the first step: 0 (given) vs 1 (needed)"));
  EXPECT_FALSE(error([&](const Scope& s, auto& sync) { apply(s, sync); }, 0, 0).ok());
  EXPECT_FALSE(error([&](const Scope& s, auto& sync) { apply(s, sync); }, 1, -1).ok());
  SyncReplicasOptimizer none(nullptr, 1);
  const Scope scope = Scope::NewRootScope();
  EXPECT_FALSE(apply(scope, none).IsSet());
  EXPECT_FALSE(scope.ok());
  SyncReplicasOptimizer unused(descent, 1);
  EXPECT_TRUE(errors::IsFailedPrecondition(unused.MakeSessionRunHook(true)->Begin(Scope::NewRootScope())));
}

TEST(SyncReplicasTest, AMonitoredSessionOfTheChiefTrainsAndEndsAtOnce) {
  const Scope scope = Scope::NewRootScope();
  const GraphVariable w = Zeros(scope, "w", {2});
  const auto averages =
      std::make_shared<ExponentialMovingAverage>(ExponentialMovingAverage::Options{.decay = 0.5f});
  SyncReplicasOptimizer sync(std::make_shared<AdamOptimizer>(1.0f), 1,
                             {.variable_averages = averages, .variables_to_average = {w}});
  const GraphVariable step = CreateGlobalStep(scope);
  const Output loss = ops::Sum(scope, ops::Mul(scope, w, ops::Const(scope, {1.0f, -3.0f})), 0);
  const Operation train = sync.Minimize(scope, loss, step);
  auto session = SingularMonitoredSession(scope, {sync.MakeSessionRunHook(true, 0)});
  ASSERT_TRUE(session.ok()) << session.status();
  for (int i = 0; i < 4; ++i) ASSERT_EQ((*session)->Run(train), Status());
  std::vector<Tensor> out;
  ASSERT_EQ((*session)->Run({w.value(), step.value()}, &out), Status());
  EXPECT_EQ(*out[1].data<int64_t>(), 4);
  // The gradient is constant, so that each step of Adam is the rate, against its sign.
  EXPECT_NEAR(out[0].data<float>()[0], -4, 1e-4);
  EXPECT_NEAR(out[0].data<float>()[1], 4, 1e-4);
  EXPECT_EQ((*session)->Close(), Status()) << "the chief's thread waits for a gradient, and ends";
}

}  // namespace
}  // namespace millrace
