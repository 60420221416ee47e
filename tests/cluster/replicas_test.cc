// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Replicas of a model, each a thread with a separate graph and session, on tasks of this process and on tasks
// in other processes.
#include "millrace/replicas.h"

#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <latch>
#include <set>
#include <thread>

#include "io/checkpoint/bundle.h"
#include "millrace/monitored_session.h"
#include "millrace/ops.h"
#include "rpc/cluster_testing.h"
#include "tests/cluster/process_testing.h"

namespace millrace {
namespace {

using std::chrono::steady_clock;
using ::testing::ElementsAre;

// What an element of a large gradient is multiplied by: neighbours and parts of a message differ.
float Scale(size_t k) { return static_cast<float>(k % 1021); }

// One replica: two variables and the step on two parameter servers, with gradients that are fed.
class Replica {
 public:
  struct Settings {
    int ps_tasks = 2;
    int to_aggregate = 1;
    int total = 1;
    int num_tokens = 0;
    int64_t size = 2;                    // of the dense variable
    int64_t step_timeout_in_ms = 5'000;  // in a Training
    double lease_secs = 0;               // 0: the first replica is always the chief
  };
  Replica(int index, const Settings& settings)
      : index_(index),
        scope_(Scope::NewRootScope().WithDeviceFunction(ReplicaDeviceSetter(
            {.ps_tasks = settings.ps_tasks, .worker_device = StrCat("/job:worker/task:", index)}))),
        w_(Zeros("w", {settings.size})),
        e_(Zeros("e", {3, 1})),
        step_(CreateGlobalStep(scope_)),
        g_(ops::Placeholder(scope_, DataType::kFloat, ops::Placeholder::Shape({settings.size}))),
        rows_(ops::Placeholder(scope_, DataType::kInt32, ops::Placeholder::Shape({1}))),
        sync_(std::make_shared<GradientDescentOptimizer>(1.0f), settings.to_aggregate,
              {.total_num_replicas = settings.total}),
        num_tokens_(settings.num_tokens),
        size_(settings.size),
        lease_secs_(settings.lease_secs) {
    const Output ones = ops::Const(scope_, 1.0f, TensorShape({1, 1}));
    train_ = sync_.ApplyGradients(
        scope_, {{GradientValue(g_), w_}, {GradientValue(IndexedSlices{ones, rows_, {}}), e_}}, step_);
  }

  // Creates the session; the first replica is the chief, with checkpoints if there is a folder.
  Status Open(const std::string& target, const std::string& config = "", const std::string& folder = "") {
    MonitoredTrainingSessionOptions options;
    options.is_chief = index_ == 0;
    options.checkpoint_dir = folder;
    options.save_checkpoint_steps = 5;
    options.save_summaries_steps = kNever;
    options.log_step_count_steps = kNever;
    options.hooks = {sync_.MakeSessionRunHook(index_ == 0, num_tokens_)};
    options.session.target = target;
    options.session.config = config;
    options.session.device_filters = {"/job:ps", StrCat("/job:worker/task:", index_)};
    options.monitored.recovery_wait_secs = 0.05;
    options.recovery_wait_secs = 0.05;
    // Longer than the tests keep a task away: with each step the chief writes a checkpoint, which takes
    // seconds where the disk is busy.
    options.max_wait_secs = 240;
    options.monitored.max_recovery_secs = 240;
    if (lease_secs_ > 0) {
      MR_ASSIGN_OR_RETURN(
          lease_, ChiefLease::Make({.session = options.session, .task = index_, .lease_secs = lease_secs_}));
      options.lease = lease_;
      options.hooks = {sync_.MakeSessionRunHook([lease = lease_] { return lease->IsChief(); }, num_tokens_)};
    }
    MR_ASSIGN_OR_RETURN(session_, MonitoredTrainingSession(scope_, options));
    return Status();
  }
  Status Step(float g, int row, int64_t timeout_in_ms = 120'000) {
    RunOptions options;
    options.timeout_in_ms = timeout_in_ms;
    std::vector<float> gradient(static_cast<size_t>(size_), g);
    gradient[1] = -g;
    for (size_t k = 2; k < gradient.size(); ++k) gradient[k] = g * Scale(k);
    return session_->Run(options,
                         {{g_, Literal(Tensor::Vector(gradient))},
                          {rows_, Literal(Tensor::Vector(std::vector<int32_t>{row}))}},
                         {}, {train_}, nullptr, nullptr);
  }
  StatusOr<std::vector<Tensor>> Values() {
    std::vector<Tensor> out;
    MR_RETURN_IF_ERROR(session_->Run({w_.value(), e_.value(), step_.value()}, &out));
    return out;
  }
  Status Close() {
    const Status status = session_->Close();
    lease_ = nullptr;
    return status;
  }

 private:
  GraphVariable Zeros(const std::string& name, std::vector<int64_t> dims) const {
    return GetVariable(scope_, name, PartialShape(std::move(dims)), {.initializer = initializers::Zeros()});
  }

  const int index_;
  const Scope scope_;
  const GraphVariable w_, e_, step_;
  const Output g_, rows_;
  SyncReplicasOptimizer sync_;
  const int num_tokens_;
  const int64_t size_;
  const double lease_secs_;
  std::shared_ptr<ChiefLease> lease_;
  Operation train_;
  std::unique_ptr<MonitoredSession> session_;
};

std::vector<float> Floats(const Tensor& tensor) {
  return {tensor.data<float>(), tensor.data<float>() + tensor.num_elements()};
}

// Calls a function for each replica in a separate thread.
void ForEach(int replicas, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < replicas; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

// Whether clients call the masters of their process, or send messages to them. Tasks always send messages.
class ReplicasTest : public ::testing::TestWithParam<bool> {
 protected:
  std::string Config() const { return GetParam() ? ConfigWithMessages() : ""; }
};
INSTANTIATE_TEST_SUITE_P(All, ReplicasTest, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Messages" : "Calls"; });

TEST_P(ReplicasTest, UpdatesAreMeansOverAllReplicas) {
  for (const int n : {2, 4}) {
    TestCluster cluster({{"ps", 2}, {"worker", n}});
    constexpr int kSteps = 8;
    std::latch trained(n);
    ForEach(n, [&](int i) {
      Replica replica(i, {.to_aggregate = n, .total = n});
      [&] {
        ASSERT_EQ(replica.Open(cluster.target("worker", i), Config()), Status());
        for (int t = 0; t < kSteps; ++t) {
          ASSERT_EQ(replica.Step(static_cast<float>(i * t), i == 0 ? 0 : 1), Status()) << i << " " << t;
        }
      }();
      trained.arrive_and_wait();
      if (HasFailure()) return;
      if (i > 0) {
        EXPECT_EQ(replica.Close(), Status());
        return;
      }
      // The mean of step t is t (n - 1) / 2; the sum of all t is 28. Each row is a mean of ones.
      const auto values = replica.Values();
      ASSERT_TRUE(values.ok()) << values.status();
      const float mean = static_cast<float>(n - 1) / 2 * 28;
      EXPECT_THAT(Floats((*values)[0]), ElementsAre(-mean, mean));
      EXPECT_THAT(Floats((*values)[1]), ElementsAre(-kSteps, -kSteps, 0));
      EXPECT_EQ((*values)[2].scalar<int64_t>(), kSteps);
      EXPECT_EQ(replica.Close(), Status());
    });
  }
}

TEST_P(ReplicasTest, AStaleGradientIsDropped) {
  TestCluster cluster({{"ps", 2}, {"worker", 2}});
  Replica chief(0, {.to_aggregate = 1, .total = 2}), late(1, {.to_aggregate = 1, .total = 2});
  ASSERT_EQ(chief.Open(cluster.target("worker", 0), Config()), Status());
  ASSERT_EQ(late.Open(cluster.target("worker", 1), Config()), Status());  // its step is 0
  ASSERT_EQ(chief.Step(1, 0), Status());                                  // makes step 1
  ASSERT_EQ(late.Step(100, 1), Status());  // of step 0: dropped; the replica learns that the step is 1
  auto values = chief.Values();
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT(Floats((*values)[0]), ElementsAre(-1, 1));
  EXPECT_THAT(Floats((*values)[1]), ElementsAre(-1, 0, 0));
  ASSERT_EQ(late.Step(10, 2), Status());
  values = chief.Values();
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT(Floats((*values)[0]), ElementsAre(-11, 11));
  EXPECT_THAT(Floats((*values)[1]), ElementsAre(-1, 0, -1));
  EXPECT_EQ(late.Close(), Status());
  EXPECT_EQ(chief.Close(), Status());
}

// Replicas that train until they are stopped, and count their steps.
class Training {
 public:
  // The first `replicas` of at most 8 start at once.
  Training(const std::function<std::string(int)>& target, int replicas, const Replica::Settings& settings,
           const std::string& folder = "")
      : target_(target), settings_(settings), folder_(folder), steps_(8), left_(8) {
    for (int i = 0; i < replicas; ++i) Start(i);
  }
  ~Training() { Finish(); }
  void Start(int i) {
    threads_[i] = std::thread([this, i] { Train(i); });
  }
  // Makes that replica end after its step.
  void Leave(int i) {
    left_[static_cast<size_t>(i)] = true;
    threads_[i].join();
    threads_.erase(i);
  }
  void Finish() {
    stop_ = true;
    for (auto& [i, thread] : threads_) thread.join();
    threads_.clear();
  }
  // Waits until that replica has done `more` further steps.
  void Await(int replica, int more) {
    const auto deadline = steady_clock::now() + 4 * kPatience;
    const std::atomic<int>& steps = steps_[static_cast<size_t>(replica)];
    const int wanted = steps + more;
    while (steps < wanted && steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_GE(steps, wanted) << "replica " << replica;
  }
  // The values that the chief read at the end.
  std::vector<Tensor> values;

 private:
  void Train(int i) {
    Replica replica(i, settings_);
    const Status opened = replica.Open(target_(i), "", folder_);
    ASSERT_EQ(opened, Status()) << i;
    while (!stop_ && !left_[static_cast<size_t>(i)]) {
      // Each update is a mean of ones. At the end replicas wait for others that have ended.
      const Status status = replica.Step(1, 0, settings_.step_timeout_in_ms);
      if (status.ok()) ++steps_[static_cast<size_t>(i)];
      ASSERT_TRUE(status.ok() || errors::IsDeadlineExceeded(status)) << i << " " << status;
    }
    // The last update may be in progress: the values are read until all are of one step or no longer
    // change.
    std::vector<float> last;
    auto changed = steady_clock::now();
    while (i == 0 && steady_clock::now() - changed < std::chrono::seconds(3)) {
      const auto read = replica.Values();
      ASSERT_TRUE(read.ok()) << read.status();
      values = *read;
      const std::vector<float> now = {Floats(values[0])[1], static_cast<float>(values[2].scalar<int64_t>())};
      if (now[0] == now[1]) break;
      if (now != last) changed = steady_clock::now();
      last = now;
    }
    replica.Close().IgnoreError("its task may have died");
  }

  const std::function<std::string(int)> target_;
  const Replica::Settings settings_;
  const std::string folder_;
  std::vector<std::atomic<int>> steps_;
  std::vector<std::atomic<bool>> left_;
  std::atomic<bool> stop_ = false;
  std::map<int, std::thread> threads_;
};

constexpr Replica::Settings kOneBackup = {.ps_tasks = 1, .to_aggregate = 2, .total = 3, .num_tokens = -1};

TEST(ReplicaProcessesTest, TrainingContinuesWithTheRemainingReplicasAndAWorkerRejoins) {
  ProcessCluster cluster({{"ps", 1}, {"worker", 3}});
  Training training([&](int i) { return cluster.Target(StrCat("worker/", i)); }, 3, kOneBackup);
  for (int i = 0; i < 3; ++i) training.Await(i, 5);
  for (const char* victim : {"worker/2", "worker/1"}) {
    cluster.process(victim).Signal(SIGKILL);
    cluster.process(victim).Wait();
    const int survivor = std::string(victim) == "worker/2" ? 1 : 2;
    training.Await(0, 20);
    training.Await(survivor, 20);
    cluster.Restart(victim);
    training.Await(victim[7] - '0', 5);
  }
  training.Finish();
  ASSERT_EQ(training.values.size(), 3u);
  const auto steps = static_cast<float>(training.values[2].scalar<int64_t>());
  EXPECT_GE(steps, 40);
  EXPECT_THAT(Floats(training.values[0]), ElementsAre(-steps, steps)) << "no gradient counts twice";
}

TEST(ReplicaProcessesTest, WorkersComeAndGoWhileTheOthersTrain) {
  ProcessCluster cluster({{"ps", 1}, {"worker", 4}}, {"worker/2", "worker/3"});
  Training training([&](int i) { return cluster.Target(StrCat("worker/", i)); }, 2,
                    {.ps_tasks = 1, .to_aggregate = 2, .total = 4, .num_tokens = -1});
  for (int i = 0; i < 2; ++i) training.Await(i, 5);
  for (const int i : {3, 2}) {
    cluster.Restart(StrCat("worker/", i));
    training.Start(i);
    training.Await(i, 5);
    training.Await(0, 5);
  }
  training.Leave(1);
  cluster.process("worker/1").Signal(SIGTERM);
  for (const int i : {0, 2, 3}) training.Await(i, 10);
  training.Finish();
  ASSERT_EQ(training.values.size(), 3u);
  const auto steps = static_cast<float>(training.values[2].scalar<int64_t>());
  EXPECT_THAT(Floats(training.values[0]), ElementsAre(-steps, steps));
}

// Gradients above the size limit of messages, and more of them than the shared memory of two tasks holds.
TEST(ReplicaProcessesTest, LargeVariables) {
  constexpr int kReplicas = 2;
  constexpr int64_t kSize = 17 << 20;
  ProcessCluster cluster({{"ps", 1}, {"worker", kReplicas}}, {},
                         {"--shared-memory", "100", "--peer-timeout", "30"});
  Training training([&](int i) { return cluster.Target(StrCat("worker/", i)); }, kReplicas,
                    {.ps_tasks = 1,
                     .to_aggregate = kReplicas,
                     .total = kReplicas,
                     .num_tokens = -1,
                     .size = kSize,
                     .step_timeout_in_ms = 15'000});
  for (int i = 0; i < kReplicas; ++i) training.Await(i, 3);
  training.Finish();
  ASSERT_EQ(training.values.size(), 3u);
  const auto steps = static_cast<float>(training.values[2].scalar<int64_t>());
  EXPECT_GE(steps, 3);
  const auto w = training.values[0].flat<float>();
  ASSERT_EQ(static_cast<int64_t>(w.size()), kSize);
  for (size_t k = 0; k < w.size(); ++k)
    ASSERT_EQ(w[k], k == 0 ? -steps : k == 1 ? steps : -steps * Scale(k)) << k;
}

// A checkpoint is written while updates continue, so that its variables may be some updates apart: collects
// the differences in the checkpoints of a folder. Each update adds the same to both.
void AddSkews(const std::string& folder, std::set<float>* skews) {
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() != ".index") continue;
    const auto reader =
        io::BundleReader::Open(Env::Posix(), file.path().string().substr(0, file.path().string().size() - 6));
    if (!reader.ok()) continue;  // removed meanwhile
    const auto w = (*reader)->Read("w"), step = (*reader)->Read("global_step");
    if (w.ok() && step.ok()) skews->insert(w->data<float>()[1] - static_cast<float>(step->scalar<int64_t>()));
  }
}

// The first worker dies for good, then the parameter server dies: the second worker saves and restores. A
// former chief that restarts is a worker.
TEST(ReplicaProcessesTest, TheNextInLineTakesOver) {
  char folder[] = "/tmp/millrace_lease_XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  ProcessCluster cluster({{"ps", 1}, {"worker", 3}});
  Training training([&](int i) { return cluster.Target(StrCat("worker/", i)); }, 3,
                    {.ps_tasks = 1, .to_aggregate = 2, .total = 3, .num_tokens = -1, .lease_secs = 3},
                    folder);
  for (int i = 0; i < 3; ++i) training.Await(i, 5);
  cluster.process("worker/0").Signal(SIGKILL);
  cluster.process("worker/0").Wait();
  for (int i = 1; i < 3; ++i) training.Await(i, 20);
  cluster.process("ps/0").Signal(SIGKILL);
  cluster.process("ps/0").Wait();
  std::set<float> skews;
  AddSkews(folder, &skews);
  cluster.Restart("ps/0");
  AddSkews(folder, &skews);
  for (int i = 1; i < 3; ++i) training.Await(i, 20);
  cluster.Restart("worker/0");
  for (int i = 0; i < 3; ++i) training.Await(i, 10);
  training.Finish();
  ASSERT_EQ(training.values.size(), 3u);
  const auto steps = static_cast<float>(training.values[2].scalar<int64_t>());
  EXPECT_GE(steps, 20);
  EXPECT_THAT(skews, ::testing::Contains(Floats(training.values[0])[1] - steps));
  std::string command = StrCat("rm -r ", folder);
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST(ReplicaProcessesTest, ARestartedServerGetsItsVariablesFromTheCheckpoint) {
  char folder[] = "/tmp/millrace_replicas_XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  ProcessCluster cluster({{"ps", 1}, {"worker", 2}});
  Training training([&](int i) { return cluster.Target(StrCat("worker/", i)); }, 2,
                    {.ps_tasks = 1, .to_aggregate = 1, .total = 2, .num_tokens = -1}, folder);
  for (int i = 0; i < 2; ++i) training.Await(i, 5);
  cluster.process("ps/0").Signal(SIGKILL);
  cluster.process("ps/0").Wait();
  std::set<float> skews;
  AddSkews(folder, &skews);
  cluster.Restart("ps/0");
  AddSkews(folder, &skews);
  for (int i = 0; i < 2; ++i) training.Await(i, 10);
  training.Finish();
  ASSERT_EQ(training.values.size(), 3u);
  const auto steps = static_cast<float>(training.values[2].scalar<int64_t>());
  EXPECT_GE(steps, 10);
  EXPECT_THAT(skews, ::testing::Contains(Floats(training.values[0])[1] - steps));
  std::string command = StrCat("rm -r ", folder);
  EXPECT_EQ(std::system(command.c_str()), 0);
}

}  // namespace
}  // namespace millrace
