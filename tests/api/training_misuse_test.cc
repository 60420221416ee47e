// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Wrong use of training: monitored sessions and their hooks, supervisors, replicas, servers of a cluster.
// Each returns a Status.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "millrace/checkpoint_reader.h"
#include "millrace/cluster.h"
#include "millrace/hooks.h"
#include "millrace/monitored_session.h"
#include "millrace/ops.h"
#include "millrace/optimizers.h"
#include "millrace/replicas.h"
#include "millrace/supervisor.h"
#include "millrace/training.h"

namespace millrace {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// Expects an error with a message.
template <typename T>
void ExpectError(const StatusOr<T>& result, int line = __builtin_LINE()) {
  EXPECT_FALSE(result.ok()) << "line " << line;
  EXPECT_FALSE(result.status().message().empty()) << "line " << line;
}
void ExpectError(const Status& status, int line = __builtin_LINE()) {
  EXPECT_FALSE(status.ok()) << "line " << line;
  EXPECT_FALSE(status.message().empty()) << "line " << line;
}

SessionOptions OptionsFor(const std::string& target) {
  SessionOptions options;
  options.target = target;
  return options;
}

// A graph with a variable, a step and a training operation.
struct Model {
  Model() {
    const GraphVariable w(scope.WithOpName("w"), {1.f, 2.f});
    step = CreateGlobalStep(scope);
    loss = ops::Sum(scope, ops::Square(scope, w), 0);
    train = GradientDescentOptimizer(0.1f).Minimize(scope, loss, {}, step);
  }
  Scope scope = Scope::NewRootScope();
  GraphVariable step;
  Output loss;
  Operation train;
};

// The first error of: creating a session with the hook, a run, the end.
Status TrainWith(const std::function<std::shared_ptr<SessionRunHook>(const Model&)>& make_hook) {
  const Model model;
  auto session = SingularMonitoredSession(model.scope, {make_hook(model)});
  if (!session.ok()) return session.status();
  const Status status = (*session)->Run(model.train);
  return status.ok() ? (*session)->Close() : status;
}

// --- Monitored sessions

TEST(MonitoredMisuse, ThingsThatAreNull) {
  EXPECT_TRUE(MonitoredSession::Make(Model().scope, nullptr).ok()) << "the chief is the default";
  ExpectError(ChiefSessionCreator(nullptr, {}).CreateSession());
  ExpectError(WorkerSessionCreator(nullptr, {}).CreateSession());
  ExpectError(TrainWith([](const Model&) { return nullptr; }));
  ExpectError(MonitoredTrainingSession(Model().scope, {.hooks = {nullptr}}));
  ExpectError(MonitoredTrainingSession(Model().scope, {.chief_only_hooks = {nullptr}}));
  ExpectError(RunTraining(Model().scope, Operation()));
  const Model model;
  auto session = SingularMonitoredSession(model.scope);
  ASSERT_TRUE(session.ok()) << session.status();
  ExpectError((*session)->RunStepFn(nullptr));
  ExpectError((*session)->Run(Operation()));
  ExpectError((*session)->Run({Output()}, nullptr));
  ExpectError((*session)->Loop(nullptr));
}

TEST(MonitoredMisuse, ScopesInErrorAndOfNothing) {
  const Scope failed = Scope::NewRootScope();
  failed.UpdateStatus(errors::Aborted("before"));
  EXPECT_EQ(SingularMonitoredSession(failed).status(), errors::Aborted("before"));
  EXPECT_EQ(MonitoredTrainingSession(failed).status(), errors::Aborted("before"));
  EXPECT_EQ(Supervisor::Make(failed).status(), errors::Aborted("before"));
  EXPECT_EQ(Scaffold(failed).Finalize(), errors::Aborted("before"));
  const Scope empty = Scope::NewRootScope();
  auto session = SingularMonitoredSession(empty);
  if (session.ok()) {
    ExpectError((*session)->Run(Operation()));
  }
}

TEST(MonitoredMisuse, UseAfterClose) {
  const Model model;
  auto session = SingularMonitoredSession(model.scope);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Close().ok());
  EXPECT_EQ((*session)->raw_session(), nullptr);
  EXPECT_TRUE((*session)->ShouldStop());
  ExpectError((*session)->Run(model.train));
  ExpectError((*session)->RunStepFn([](MonitoredSession::StepContext&) { return Status(); }));
  (*session)->Close().IgnoreError("closed twice");
}

TEST(MonitoredMisuse, StepsThatCloseTheirSession) {
  const Model model;
  auto session = SingularMonitoredSession(model.scope);
  ASSERT_TRUE(session.ok()) << session.status();
  const auto use = [&session](MonitoredSession::StepContext& context) {
    (*session)->Close().IgnoreError("of no interest here");
    context.session();
    return Status();
  };
  EXPECT_DEATH((*session)->RunStepFn(use).IgnoreError("it does not return"), "the session is closed");
  ExpectError((*session)->RunStepFn([&](MonitoredSession::StepContext& context) {
    (*session)->Close().IgnoreError("of no interest here");
    return context.RunWithHooks({}, {}, {model.train}, nullptr);
  }));
  // An error that recovery would answer with a new session.
  auto other = SingularMonitoredSession(model.scope);
  ASSERT_TRUE(other.ok()) << other.status();
  const auto aborted = [&other](MonitoredSession::StepContext&) -> Status {
    (*other)->Close().IgnoreError("of no interest here");
    return errors::Aborted("after Close");
  };
  EXPECT_EQ((*other)->RunStepFn(aborted), errors::Aborted("after Close"));
  EXPECT_EQ((*other)->raw_session(), nullptr);
}

TEST(MonitoredMisuse, HooksThatCloseTheirSession) {
  struct Closing final : SessionRunHook {
    StatusOr<SessionRunArgs> BeforeRun(SessionRunContext&) override {
      if (before) (*session)->Close().IgnoreError("of no interest here");
      return SessionRunArgs();
    }
    Status AfterRun(SessionRunContext&, const SessionRunValues&) override {
      if (!before) (*session)->Close().IgnoreError("of no interest here");
      return Status();
    }
    bool before = false;
    std::unique_ptr<MonitoredSession>* session = nullptr;
  };
  for (const bool before : {true, false}) {
    const Model model;
    const auto closing = std::make_shared<Closing>();
    auto session = SingularMonitoredSession(
        model.scope, {closing, std::make_shared<StopAtStepHook>(StopAtStepHook::Options{.last_step = 3})});
    ASSERT_TRUE(session.ok()) << session.status();
    closing->before = before;
    closing->session = &*session;
    EXPECT_EQ((*session)->Run(model.train).ok(), !before);
    EXPECT_TRUE((*session)->ShouldStop());
    ExpectError((*session)->Run(model.train));
  }
}

TEST(MonitoredMisuse, OptionsThatCannotBe) {
  const auto with = [](MonitoredTrainingSessionOptions options) {
    const Model model;
    options.max_wait_secs = 0.1;
    options.recovery_wait_secs = 0.01;
    auto session = MonitoredTrainingSession(model.scope, options);
    return session.ok() ? (*session)->Run(model.train) : session.status();
  };
  const std::string folder = ::testing::TempDir() + "/misuse_monitored";
  ExpectError(with({.checkpoint_dir = folder, .save_checkpoint_steps = 1, .save_checkpoint_secs = 1}));
  EXPECT_EQ(with({.checkpoint_dir = folder, .save_checkpoint_steps = 0}), Status()) << "never";
  EXPECT_EQ(with({.checkpoint_dir = folder, .save_checkpoint_steps = -1}), Status()) << "never";
  ExpectError(with({.checkpoint_dir = folder, .save_summaries_steps = 1, .save_summaries_secs = 1}));
  ExpectError(with({.checkpoint_dir = "/proc/no/such/folder"}));
  ExpectError(with({.session = OptionsFor("nonsense://")}));
  // The model is never initialised.
  ExpectError(with({.is_chief = false}));
  const Model model;
  const Output missing = ops::Const(model.scope, Literal(Tensor::Vector(std::vector<std::string>{"w"})));
  const auto scaffold = std::make_shared<Scaffold>(model.scope);
  ExpectError(ChiefSessionCreator(scaffold, {.checkpoint_path = "/no/such/model"}).CreateSession());
  const SessionManager manager(model.scope, {.ready_op = missing, .recovery_wait_secs = kNan});
  ExpectError(manager.WaitForSession({}, 0.01));
  ExpectError(manager.WaitForSession({}, -1));
  ExpectError(manager.WaitForSession({}, kNan));
  ExpectError(manager.PrepareSession({.checkpoint_dir = "a", .checkpoint_path = "b"}, {}));
}

TEST(MonitoredMisuse, AScaffoldOfAnotherGraph) {
  const Model model, other;
  const auto scaffold = std::make_shared<Scaffold>(other.scope);
  auto session = SingularMonitoredSession(model.scope, {}, {}, scaffold);
  if (session.ok()) {
    ExpectError((*session)->Run(model.train));
  }
  Scaffold foreign(model.scope, {.init_op = other.train, .ready_op = other.loss});
  foreign.Finalize().IgnoreError("a session says it");
}

// --- Hooks

TEST(HookMisuse, HooksWithoutATime) {
  ExpectError(SecondOrStepTimer({}).Check());
  ExpectError(SecondOrStepTimer({.steps = 1, .secs = 1}).Check());
  ExpectError(TrainWith([](const Model&) { return std::make_shared<StepCounterHook>(Every{}); }));
  ExpectError(TrainWith(
      [](const Model&) { return std::make_shared<SummarySaverHook>(Every{}, "", std::vector<Output>{}); }));
  ExpectError(TrainWith([](const Model&) { return std::make_shared<ProfilerHook>(Every{}, ""); }));
  ExpectError(TrainWith([](const Model& m) {
    return std::make_shared<CheckpointSaverHook>(::testing::TempDir(), Every{},
                                                 std::make_shared<Scaffold>(m.scope));
  }));
  ExpectError(
      TrainWith([](const Model&) { return std::make_shared<StopAtStepHook>(StopAtStepHook::Options{}); }));
  ExpectError(TrainWith([](const Model&) {
    return std::make_shared<StopAtStepHook>(StopAtStepHook::Options{.num_steps = 1, .last_step = 1});
  }));
  ExpectError(TrainWith([](const Model& m) {
    return std::make_shared<LoggingTensorHook>(LoggingTensorHook::Tagged{{"loss", m.loss}},
                                               LoggingTensorHook::Options{});
  }));
}

TEST(HookMisuse, ThingsThatAreNullOrUnset) {
  ExpectError(TrainWith([](const Model&) {
    return std::make_shared<CheckpointSaverHook>(::testing::TempDir(), Every::Steps(1),
                                                 std::shared_ptr<Scaffold>());
  }));
  ExpectError(TrainWith([](const Model&) {
    return std::make_shared<CheckpointSaverHook>(::testing::TempDir(), Every::Steps(1),
                                                 std::shared_ptr<Saver>());
  }));
  ExpectError(TrainWith([](const Model& m) {
    return std::make_shared<CheckpointSaverHook>(
        ::testing::TempDir(), Every::Steps(1), std::make_shared<Scaffold>(m.scope),
        std::vector<std::shared_ptr<CheckpointSaverListener>>{nullptr});
  }));
  ExpectError(TrainWith([](const Model&) {
    return std::make_shared<SummarySaverHook>(Every::Steps(1), ::testing::TempDir(),
                                              std::shared_ptr<Scaffold>());
  }));
  ExpectError(TrainWith([](const Model&) {
    return std::make_shared<SummarySaverHook>(Every::Steps(1), ::testing::TempDir(),
                                              std::vector<Output>{Output()});
  }));
  ExpectError(TrainWith([](const Model&) {
    return std::make_shared<LoggingTensorHook>(LoggingTensorHook::Tagged{{"none", Output()}},
                                               LoggingTensorHook::Options{.every = Every::Steps(1)});
  }));
  ExpectError(TrainWith([](const Model&) { return std::make_shared<NanTensorHook>(Output()); }));
  ExpectError(TrainWith([](const Model&) { return std::make_shared<FeedFnHook>(nullptr); }));
  ExpectError(
      TrainWith([](const Model&) { return std::make_shared<FinalOpsHook>(std::vector<Output>{Output()}); }));
}

TEST(HookMisuse, ValuesOfOtherTypesAndGraphs) {
  // Not a float, not a scalar, not in this graph.
  ExpectError(
      TrainWith([](const Model& m) { return std::make_shared<NanTensorHook>(ops::Const(m.scope, "text")); }));
  ExpectError(TrainWith([](const Model& m) {
    return std::make_shared<SummarySaverHook>(Every::Steps(1), ::testing::TempDir(),
                                              std::vector<Output>{m.loss});
  }));
  ExpectError(TrainWith([](const Model& m) {
    return std::make_shared<SummarySaverHook>(Every::Steps(1), ::testing::TempDir(),
                                              std::vector<Output>{ops::Const(m.scope, "no message")});
  }));
  EXPECT_EQ(TrainWith([](const Model& m) {
              return std::make_shared<ProgressHook>(ProgressHook::Options{
                  .loss = ops::Const(m.scope, {1.f, 2.f}), .write = [](const std::string&) {}});
            }),
            Status())
      << "no scalar is not shown";
  const Model other;
  ExpectError(TrainWith([&](const Model&) { return std::make_shared<NanTensorHook>(other.loss); }));
}

TEST(HookMisuse, WithoutAGlobalStep) {
  const auto run = [](const std::shared_ptr<SessionRunHook>& hook) {
    const Scope scope = Scope::NewRootScope();
    const Output x = ops::Const(scope, 1.f);
    auto session = SingularMonitoredSession(scope, {hook});
    return session.ok() ? (*session)->Run({x}, nullptr) : session.status();
  };
  ExpectError(run(std::make_shared<StepCounterHook>(Every::Steps(1))));
  ExpectError(run(std::make_shared<StopAtStepHook>(StopAtStepHook::Options{.last_step = 1})));
  ExpectError(run(std::make_shared<GlobalStepWaiterHook>(1, 0.1, 0.01)));
  ExpectError(run(std::make_shared<ProfilerHook>(Every::Steps(1), ::testing::TempDir())));
}

TEST(HookMisuse, TimesThatCannotBe) {
  TrainWith([](const Model&) {
    return std::make_shared<GlobalStepWaiterHook>(1, kNan, kNan);
  }).IgnoreError("it must end");
  TrainWith([](const Model&) {
    return std::make_shared<GlobalStepWaiterHook>(1, -1, -kInf);
  }).IgnoreError("it must end");
  for (const double secs : {kNan, kInf, -1.0, 0.0}) {
    TrainWith([&](const Model&) {
      return std::make_shared<StepCounterHook>(Every::Secs(secs));
    }).IgnoreError("it must end");
  }
  for (const int64_t steps : {int64_t{0}, int64_t{-1}, INT64_MIN}) {
    ExpectError(
        TrainWith([&](const Model&) { return std::make_shared<StepCounterHook>(Every::Steps(steps)); }));
  }
}

// --- Supervisors and checkpoints

TEST(SupervisorMisuse, OptionsAndFunctionsThatCannotBe) {
  {
    const Model model;
    ExpectError(Supervisor::Make(model.scope, {.logdir = "/proc/no/such/folder"}));
  }
  const Model model;
  auto supervisor = Supervisor::Make(model.scope, {.save_summaries_secs = kNan, .stop_grace_secs = -1});
  ASSERT_TRUE(supervisor.ok()) << supervisor.status();
  ExpectError((*supervisor)->ManagedSession(nullptr));
  ExpectError((*supervisor)->SummaryComputed(Tensor()));
  ExpectError((*supervisor)->SummaryComputed(Tensor::Scalar(1.f), 1));
  (*supervisor)->Loop(1.0, "null", nullptr);
  ExpectError((*supervisor)->Stop());
  (*supervisor)->Stop().IgnoreError("stopped twice");
}

TEST(SupervisorMisuse, AWorkerWithoutAChief) {
  const Model model;
  auto supervisor =
      Supervisor::Make(model.scope, {.is_chief = false, .recovery_wait_secs = 0.01, .max_wait_secs = 0.1});
  ASSERT_TRUE(supervisor.ok()) << supervisor.status();
  ExpectError((*supervisor)->PrepareOrWaitForSession());
  ClientSession session(model.scope);
  ExpectError((*supervisor)->StartStandardServices(session));
}

TEST(CheckpointReaderMisuse, FilesThatAreNone) {
  for (const char* name : {"", "/", "/no/such/model", "/dev/null", "[", "\n"}) {
    ExpectError(CheckpointReader::Open(name));
  }
}

// --- Replicas

TEST(ReplicaMisuse, StrategiesThatCannotBe) {
  const auto place = [](ReplicaDeviceOptions options) {
    const Scope scope = Scope::NewRootScope().WithDeviceFunction(ReplicaDeviceSetter(std::move(options)));
    const GraphVariable w(scope.WithOpName("w"), {1.f, 2.f});
    return scope.status();
  };
  ExpectError(place({.ps_tasks = 1, .ps_device = "nonsense:::"}));
  ExpectError(place({.ps_tasks = 1, .worker_device = "nonsense:::"}));
  ExpectError(place({.ps_tasks = 1, .strategy = RoundRobinStrategy(0)}));
  ExpectError(place({.ps_tasks = 1, .strategy = RoundRobinStrategy(-1)}));
  ExpectError(place({.ps_tasks = 1, .strategy = GreedyLoadBalancingStrategy(0)}));
  ExpectError(place({.ps_tasks = 1, .strategy = GreedyLoadBalancingStrategy(-1)}));
  ExpectError(place({.ps_tasks = 1, .strategy = GreedyLoadBalancingStrategy(2, nullptr)}));
  ExpectError(place(
      {.ps_tasks = 1, .strategy = [](const NodeToPlace&) { return StatusOr<int>(errors::Aborted("no")); }}));
  EXPECT_EQ(place({.ps_tasks = -1}), Status()) << "as without parameter servers";
}

TEST(ReplicaMisuse, OptimizersAndLeasesThatCannotBe) {
  const Model model;
  SyncReplicasOptimizer null(nullptr, 1);
  null.Minimize(model.scope, model.loss, model.step);
  ExpectError(model.scope.status());
  const Model other;
  SyncReplicasOptimizer sync(std::make_shared<GradientDescentOptimizer>(0.1f), -1,
                             {.total_num_replicas = -5});
  sync.Minimize(other.scope, other.loss, other.step);
  ExpectError(other.scope.status());
  ExpectError(TrainWith([&](const Model&) { return sync.MakeSessionRunHook(true); }));
  ExpectError(TrainWith([&](const Model&) { return sync.MakeSessionRunHook(std::function<bool()>()); }));
  ExpectError(ChiefLease::Make({.task = -1}));
  for (const double secs : {0.0, -1.0, kNan}) ExpectError(ChiefLease::Make({.lease_secs = secs}));
  for (const SessionOptions& nowhere : {OptionsFor("nonsense://"), OptionsFor("grpc://localhost:1")}) {
    const auto lease = ChiefLease::Make({.session = nowhere, .lease_secs = kInf});
    if (lease.ok()) {
      EXPECT_FALSE((*lease)->IsChief());
    }
  }
}

// --- Clusters

TEST(ClusterMisuse, AddressesAndJobsThatCannotBe) {
  for (const char* text :
       {"=", "ps", "ps=", "=a:1", "ps=a", "ps=a:b", "ps=a:-1", "ps=a:99999", "ps:x=a:1", "ps:-1=a:1",
        "ps:99999999999=a:1", "ps=a:1,ps=b:1", ",", "p s=a:1", "ps=a:1,=b:2"}) {
    ExpectError(ClusterSpec::Parse(text));
  }
  ClusterSpec spec;
  ExpectError(spec.AddTask("", 0, "a:1"));
  ExpectError(spec.AddTask("ps", -1, "a:1"));
  ExpectError(spec.AddTask("ps", 0, ""));
  ExpectError(spec.AddTask("p/s", 0, "a:1"));
  ASSERT_TRUE(spec.AddTask("ps", 0, "a:1").ok());
  ExpectError(spec.AddTask("ps", 0, "b:1"));
  ExpectError(spec.AddressOf("ps", 1));
  ExpectError(spec.AddressOf("none", 0));
  for (const char* json : {"", "{", "[]", "{}", "null", R"({"cluster": 1})", R"({"cluster": {"ps": 1}})",
                           R"({"cluster": {"ps": [1]}, "task": {"type": "ps", "index": 0}})",
                           R"({"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": -1}})",
                           R"({"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": 1e99}})",
                           R"({"cluster": {"ps": ["a:1"]}, "task": {"type": "no", "index": 0}})"}) {
    ExpectError(ClusterTask::FromTfConfig(json));
  }
  ExpectError(ClusterTask::FromTfConfig(std::string(100'000, '[')));
  ExpectError(ClusterTask::FromSlurm({{"ps", 1}}));
  ExpectError(ClusterTask::FromSlurm({}, -1));
}

TEST(ClusterMisuse, ServersThatCannotBe) {
  ExpectError(Server::Make({}));
  const auto none = Server::MakeAll({});
  EXPECT_TRUE(!none.ok() || none->empty());
  const auto spec = ClusterSpec::Parse("worker=localhost:0");
  ASSERT_TRUE(spec.ok());
  const auto make = [&](const std::function<void(ServerOptions&)>& change) {
    ServerOptions options;
    options.cluster = *spec;
    options.job = "worker";
    change(options);
    return Server::Make(options).status();
  };
  ExpectError(make([](ServerOptions& o) { o.job = "none"; }));
  ExpectError(make([](ServerOptions& o) { o.task = 7; }));
  ExpectError(make([](ServerOptions& o) { o.task = -1; }));
  ExpectError(make([](ServerOptions& o) { o.protocol = "none"; }));
  ExpectError(make([](ServerOptions& o) { o.listen = "not an address"; }));
  ExpectError(make([](ServerOptions& o) { o.security.token_file = "/no/such/file"; }));
  ExpectError(make([](ServerOptions& o) { o.security.key_file = "/no/such/file"; }));
  ExpectError(make([](ServerOptions& o) { o.denied_ops = {"NoSuchOp"}; }));
  ExpectError(DescribeCluster(""));
  ExpectError(DescribeCluster("nonsense://"));
  ExpectError(DescribeCluster("grpc://"));
  ExpectError(DescribeCluster("grpc://localhost:1", 200));
}

}  // namespace
}  // namespace millrace
