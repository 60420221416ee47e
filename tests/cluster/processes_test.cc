// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Tasks in separate processes: `millrace server`, found by the environment variable
// MILLRACE_PROGRAM.
#include <gmock/gmock.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>
#include <thread>
#include <tuple>

#include "graph/testing.h"
#include "rpc/cluster_testing.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tests/cluster/process_testing.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;

constexpr char kGraph[] = R"(
  node { name: "v" op: "VarHandleOp" device: "/job:ps/task:0" attr { key: "dtype" value { type: DT_FLOAT } }
         attr { key: "shape" value { shape {} } } attr { key: "shared_name" value { s: "v" } } }
  node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
  node { name: "init" op: "AssignVariableOp" input: "v" input: "x" device: "/job:ps/task:0"
         attr { key: "dtype" value { type: DT_FLOAT } } }
  node { name: "add" op: "AssignAddVariableOp" input: "v" input: "x" device: "/job:ps/task:0"
         attr { key: "dtype" value { type: DT_FLOAT } } }
  node { name: "get" op: "ReadVariableOp" input: "v" input: "^add" device: "/job:ps/task:0"
         attr { key: "dtype" value { type: DT_FLOAT } } }
  node { name: "y" op: "Neg" input: "get" device: "/job:worker/task:1" attr { key: "T" value { type: DT_FLOAT } } }
  node { name: "q" op: "FIFOQueueV2" device: "/job:ps/task:0"
         attr { key: "component_types" value { list { type: DT_FLOAT } } } }
  node { name: "take" op: "QueueDequeueV2" input: "q" device: "/job:ps/task:0"
         attr { key: "component_types" value { list { type: DT_FLOAT } } } }
  node { name: "taken" op: "Neg" input: "take" device: "/job:worker/task:1"
         attr { key: "T" value { type: DT_FLOAT } } })";

// One ps and two workers.
class ProcessesTest : public ::testing::Test {
 protected:
  static constexpr const char* kPs = "ps/0";
  static constexpr const char* kMaster = "worker/0";
  static constexpr const char* kOther = "worker/1";

  StatusOr<std::unique_ptr<Session>> NewSessionAt(const std::string& name) {
    SessionOptions options;
    options.target = cluster_.Target(name);
    MR_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, NewSession(options));
    MR_RETURN_IF_ERROR(session->Create(GraphDefFromText(kGraph)));
    return session;
  }
  static StatusOr<float> Fetch(Session& session, float x, const std::string& name) {
    std::vector<Tensor> out;
    Session::Feeds feeds;
    if (name != "taken") feeds.emplace_back("x", Tensor::Scalar(x));
    MR_RETURN_IF_ERROR(session.Run(feeds, {name}, {}, &out));
    return out[0].scalar<float>();
  }
  static Status Init(Session& session, float x) {
    return session.Run({{"x", Tensor::Scalar(x)}}, {}, {"init"}, nullptr);
  }
  ProcessCluster cluster_{{{"ps", 1}, {"worker", 2}}};
};

TEST_F(ProcessesTest, StepsRunOnThreeProcessesThatEndCleanly) {
  {
    const auto session = NewSessionAt(kMaster);
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_EQ(Init(**session, 5), Status());
    for (int i = 1; i <= 20; ++i) ASSERT_EQ(Fetch(**session, 1, "y").value_or(0), -5 - i);
  }
  for (const char* name : {kPs, kMaster, kOther}) cluster_.AwaitNothingLeft(name);
  cluster_.process(kPs).Signal(SIGTERM);
  cluster_.process(kMaster).Signal(SIGINT);
  EXPECT_EQ(cluster_.process(kPs).Wait(), 0);
  EXPECT_EQ(cluster_.process(kMaster).Wait(), 0);
}

TEST_F(ProcessesTest, TheProgramRunsAModelOnTheCluster) {
  const std::string model = StrCat(::testing::TempDir(), "processes_test.pbtxt");
  std::ofstream(model) << R"(
    node { name: "x" op: "Const" device: "/job:ps/task:0" attr { key: "dtype" value { type: DT_FLOAT } }
           attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 3 } } } }
    node { name: "y" op: "Square" input: "x" device: "/job:worker/task:1" attr { key: "T" value { type: DT_FLOAT } } }
    node { name: "n" op: "NoOp" device: "/job:ps/task:0" })";
  for (const char* option : {"--target", "--master"}) {
    Process program({"run", model, "--fetch", "y", "--target", "n", option, cluster_.Target(kOther)});
    EXPECT_THAT(program.Line(), HasSubstr("y"));
    EXPECT_EQ(program.Wait(), 0) << option;
  }
  Process alone({"run", model, "--fetch", "y"});
  EXPECT_NE(alone.Wait(), 0) << "this process has no such devices";
}

TEST_F(ProcessesTest, AServerEndsCleanlyWhileAStepWaitsAndIsNamed) {
  for (const std::string name : {kPs, kMaster}) {
    const auto session = NewSessionAt(kMaster);
    ASSERT_TRUE(session.ok()) << session.status();
    Status status;
    std::thread waiting([&] { status = Fetch(**session, 0, "taken").status(); });
    cluster_.AwaitState(kPs, {"\"graph_runs\":1"});
    cluster_.process(name).Signal(SIGTERM);
    EXPECT_EQ(cluster_.process(name).Wait(), 0);
    waiting.join();
    EXPECT_TRUE(errors::IsUnavailable(status)) << status;
    const std::string task = name == kPs ? "/job:ps/replica:0/task:0" : "/job:worker/replica:0/task:0";
    EXPECT_THAT(std::string(status.message()), HasSubstr(StrCat("Task ", task, " ends")));
    cluster_.Restart(name);
  }
}

TEST_F(ProcessesTest, AServerThatCannotHaveItsAddressEndsWithAnError) {
  Process second({"server", "--cluster", cluster_.spec().ToString(), "--job", "ps", "--task", "0"});
  EXPECT_EQ(second.Line(), "");
  EXPECT_EQ(second.Wait(), 1);
  Process unknown({"server", "--cluster", cluster_.spec().ToString(), "--job", "ps", "--task", "4"});
  EXPECT_EQ(unknown.Wait(), 1);
}

TEST_F(ProcessesTest, AKilledTaskFailsItsStepsImmediatelyAndCanRestart) {
  const auto session = NewSessionAt(kMaster);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_EQ(Init(**session, 5), Status());
  Status status;
  std::thread waiting([&] { status = Fetch(**session, 0, "taken").status(); });
  cluster_.AwaitState(kPs, {"\"graph_runs\":1"});
  cluster_.process(kPs).Signal(SIGKILL);
  waiting.join();
  EXPECT_TRUE(errors::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("/job:ps/replica:0/task:0"));
  cluster_.Restart(kPs);
  const Status restarted = TestCluster::RetryWhile(
      [&] { return Fetch(**session, 1, "y").status(); },
      [](const Status& s) { return std::string(s.message()).find("just restarted") == std::string::npos; });
  EXPECT_TRUE(errors::IsUnavailable(restarted)) << restarted;
  EXPECT_THAT(std::string(restarted.message()), HasSubstr("Possibly this worker"));
  const auto again = NewSessionAt(kMaster);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(errors::IsFailedPrecondition(Fetch(**again, 1, "y").status()));
  ASSERT_EQ(Init(**again, 7), Status());
  EXPECT_EQ(Fetch(**again, 1, "y").value_or(0), -8);
}

TEST_F(ProcessesTest, ASessionMadeWhileATaskDiesWaitsForIt) {
  for (int round = 0; round < 5; ++round) {
    cluster_.process(kPs).Signal(SIGSTOP);
    StatusOr<std::unique_ptr<Session>> session = errors::Internal("not made");
    std::thread making([&] { session = NewSessionAt(kMaster); });
    // Its call waits for an answer over the connection that now breaks.
    std::this_thread::sleep_for(milliseconds(100));
    cluster_.process(kPs).Signal(SIGKILL);
    cluster_.Restart(kPs);
    making.join();
    ASSERT_TRUE(session.ok()) << session.status();
    EXPECT_EQ(Init(**session, 5), Status());
  }
}

TEST_F(ProcessesTest, AStoppedTaskIsAbandonedAndItsEarlierStepsAreNotMistaken) {
  const auto session = NewSessionAt(kMaster);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_EQ(Init(**session, 5), Status());
  cluster_.process(kPs).Signal(SIGSTOP);
  const auto start = steady_clock::now();
  const Status status = Fetch(**session, 1, "y").status();
  EXPECT_TRUE(errors::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("/job:ps/replica:0/task:0"));
  EXPECT_LT(steady_clock::now() - start, kPatience);
  cluster_.process(kPs).Signal(SIGCONT);
  // The abandoned step may have added 1, once, or not at all.
  const auto again = NewSessionAt(kMaster);
  ASSERT_TRUE(again.ok()) << again.status();
  const float y = Fetch(**again, 0, "y").value_or(0);
  EXPECT_TRUE(y == -5 || y == -6) << y;
  cluster_.AwaitState(kPs, {"\"graph_runs\":0"});
  EXPECT_EQ(Fetch(**again, 0, "y").value_or(0), Fetch(**again, 0, "y").value_or(1));
}

TEST_F(ProcessesTest, WhatAKilledMasterLeavesIsDropped) {
  auto session = NewSessionAt(kMaster);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_EQ(Init(**session, 5), Status());
  Status status;
  std::thread waiting([&] { status = Fetch(**session, 0, "taken").status(); });
  cluster_.AwaitState(kPs, {"\"graph_runs\":1", "\"worker_sessions\":1"});
  cluster_.process(kMaster).Signal(SIGKILL);
  waiting.join();
  EXPECT_TRUE(errors::IsUnavailable(status)) << status;
  for (const char* name : {kPs, kOther}) cluster_.AwaitNothingLeft(name);
  cluster_.Restart(kMaster);
  const Status restarted = TestCluster::RetryWhile([&] { return Init(**session, 3); },
                                                   [](const Status& s) { return errors::IsUnavailable(s); });
  EXPECT_TRUE(errors::IsAborted(restarted)) << restarted;
  // The ps still has its variables.
  const auto again = NewSessionAt(kMaster);
  ASSERT_TRUE(again.ok()) << again.status();
  const auto y = Fetch(**again, 1, "y");
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_EQ(*y, -6);
}

TEST_F(ProcessesTest, ClosingIsBoundedAndQuietWhileAPeerIsMissing) {
  for (const int signal : {SIGSTOP, SIGKILL}) {
    auto session = NewSessionAt(kMaster);
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_EQ(Init(**session, 5), Status());
    ASSERT_EQ(Fetch(**session, 1, "y").value_or(0), -6);
    cluster_.process(kPs).Signal(signal);
    const auto start = steady_clock::now();
    EXPECT_EQ((*session)->Close(), Status());
    session->reset();
    EXPECT_LT(steady_clock::now() - start, kPatience / 2);
    cluster_.AwaitNothingLeft(kMaster);
    const auto state = DescribeCluster(cluster_.Target(kMaster), 1000);
    ASSERT_TRUE(state.ok()) << state.status();
    const std::string key = "\"failed_cleanups\":";
    const size_t count = state->find(key, state->find("{\"task\":\"/job:worker/replica:0/task:0\""));
    EXPECT_GT(std::atoi(state->c_str() + count + key.size()), 0) << "failed calls are counted: " << *state;
    if (signal == SIGSTOP) cluster_.process(kPs).Signal(SIGCONT);
    if (signal == SIGKILL) cluster_.Restart(kPs);
    cluster_.AwaitNothingLeft(kPs);
  }
}

TEST(MissingTaskTest, IsNamedInTimeAndNotNeededByOtherSessions) {
  ProcessCluster cluster({{"ps", 1}, {"worker", 2}}, {"worker/1"}, {"--session-timeout", "2"});
  SessionOptions options;
  options.target = cluster.Target("worker/0");
  const auto create = [&] {
    auto session = NewSession(options);
    return session.ok() ? (*session)->Create(GraphDefFromText(kGraph)) : session.status();
  };
  const auto start = steady_clock::now();
  const Status missing = create();
  EXPECT_TRUE(errors::IsDeadlineExceeded(missing)) << missing;
  EXPECT_THAT(std::string(missing.message()), ::testing::AllOf(HasSubstr("CreateSession has waited 2."),
                                                               HasSubstr("/job:worker/replica:0/task:1"),
                                                               ::testing::Not(HasSubstr("/job:ps"))));
  EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(10));
  options.device_filters = {"/job:ps", "/job:worker/task:0"};
  auto session = NewSession(options);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_EQ((*session)->Create(GraphDefFromText(R"(
      node { name: "c" op: "Const" device: "/job:ps/task:0" attr { key: "dtype" value { type: DT_FLOAT } }
             attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape {} float_val: 3 } } } }
      node { name: "n" op: "Neg" input: "c" device: "/job:worker/task:0"
             attr { key: "T" value { type: DT_FLOAT } } })")),
            Status());
  std::vector<Tensor> out;
  ASSERT_EQ((*session)->Run({}, {"n"}, {}, &out), Status());
  EXPECT_EQ(out[0].scalar<float>(), -3);
}

TEST_F(ProcessesTest, AfterRandomDeathsNothingHangsAndNothingIsLeft) {
  std::mt19937 random(7);  // NOLINT(cert-msc51-cpp): the same rounds each time
  for (int round = 0; round < 12; ++round) {
    const std::string victim = std::vector<std::string>{kPs, kMaster, kOther}[random() % 3];
    const bool stop = random() % 2 == 0;
    auto session = NewSessionAt(kMaster);
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_EQ(Init(**session, 0), Status());
    Status status;
    const auto start = steady_clock::now();
    std::thread training([&] {
      while (status.ok() && steady_clock::now() - start < kPatience)
        status = Fetch(**session, 1, "y").status();
    });
    std::this_thread::sleep_for(milliseconds(random() % 50));
    cluster_.process(victim).Signal(stop ? SIGSTOP : SIGKILL);
    training.join();
    EXPECT_TRUE(errors::IsUnavailable(status) || errors::IsAborted(status)) << victim << " " << status;
    EXPECT_LT(steady_clock::now() - start, kPatience) << victim;
    if (stop) {
      cluster_.process(victim).Signal(SIGCONT);
    } else {
      cluster_.Restart(victim);
    }
    session->reset();
    for (const char* name : {kPs, kMaster, kOther}) cluster_.AwaitNothingLeft(name);
  }
}

// The ps sends large tensors from the configured port, also after it was killed and restarted while
// connections were open.
TEST(DataPortTest, IsThatOfTheNextProcessToo) {
  const int port = FreePort();
  ProcessCluster cluster({{"ps", 1}, {"worker", 1}}, {}, {"--session-timeout", "20", "--shared-memory", "0"});
  const auto launch = [&] {
    cluster.Launch("ps/0", {"--data-port", StrCat(port)});
    cluster.AwaitReady("ps/0");
  };
  cluster.process("ps/0").Signal(SIGKILL);
  cluster.process("ps/0").Wait();
  for (int i = 0; i < 3; ++i) {
    launch();
    SessionOptions options;
    options.target = cluster.Target("worker/0");
    const auto session = NewSession(options);
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_EQ((*session)->Create(GraphDefFromText(R"(
      node { name: "dims" op: "Const" device: "/job:ps" attr { key: "dtype" value { type: DT_INT32 } }
             attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { dim { size: 1 } } int_val: 200000 } } } }
      node { name: "x" op: "Placeholder" device: "/job:ps" attr { key: "dtype" value { type: DT_FLOAT } } }
      node { name: "many" op: "Fill" input: "dims" input: "x" device: "/job:ps"
             attr { key: "T" value { type: DT_FLOAT } } }
      node { name: "zero" op: "Const" device: "/job:worker" attr { key: "dtype" value { type: DT_INT32 } }
             attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { dim { size: 1 } } int_val: 0 } } } }
      node { name: "largest" op: "Max" input: "many" input: "zero" device: "/job:worker"
             attr { key: "T" value { type: DT_FLOAT } } })")),
              Status());
    std::vector<Tensor> out;
    ASSERT_EQ((*session)->Run({{"x", Tensor::Scalar(3.f)}}, {"largest"}, {}, &out), Status());
    EXPECT_EQ(out[0].scalar<float>(), 3);
    // The worker is connected to the port.
    std::ifstream connections("/proc/net/tcp");
    const std::string text{std::istreambuf_iterator<char>(connections), {}};
    char remote[32];
    std::snprintf(remote, sizeof(remote), "0100007F:%04X 01", port);
    EXPECT_THAT(text, HasSubstr(remote));
    cluster.process("ps/0").Signal(SIGKILL);
    cluster.process("ps/0").Wait();
  }
}

// Steps that transfer 64 MiB from the ps to a worker, which takes most of their time. A task that is killed
// at a random moment of such a step, usually during the transfer, is reported at once, and the others have
// nothing of the step left; a new session works.
class TransferKillTest : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};
INSTANTIATE_TEST_SUITE_P(Ways, TransferKillTest,
                         ::testing::Combine(::testing::Values("1024", "0"),  // shared memory; sockets
                                            ::testing::Values("ps/0", "worker/1", "worker/0")),
                         [](const auto& way) {
                           const std::string victim = std::get<1>(way.param);
                           return StrCat(
                               std::string(std::get<0>(way.param)) == "0" ? "Sockets" : "SharedMemory",
                               victim == "ps/0"       ? "Sender"
                               : victim == "worker/1" ? "Receiver"
                                                      : "Master");
                         });

TEST_P(TransferKillTest, ATaskIsKilledWhileATensorIsOnItsWay) {
  constexpr int kKills = 3;
  const auto [shared_memory, victim] = GetParam();
  ProcessCluster cluster({{"ps", 1}, {"worker", 2}}, {},
                         {"--session-timeout", "20", "--shared-memory", shared_memory});
  std::mt19937 random(7);
  for (int kill = 0; kill < kKills; ++kill) {
    SessionOptions options;
    options.target = cluster.Target("worker/0");
    const auto session = NewSession(options);
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_EQ((*session)->Create(GraphDefFromText(R"(
      node { name: "dims" op: "Const" device: "/job:ps" attr { key: "dtype" value { type: DT_INT32 } }
             attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { dim { size: 1 } } int_val: 16777216 } } } }
      node { name: "x" op: "Placeholder" device: "/job:ps" attr { key: "dtype" value { type: DT_FLOAT } } }
      node { name: "many" op: "Fill" input: "dims" input: "x" device: "/job:ps"
             attr { key: "T" value { type: DT_FLOAT } } }
      node { name: "zero" op: "Const" device: "/job:worker/task:1" attr { key: "dtype" value { type: DT_INT32 } }
             attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { dim { size: 1 } } int_val: 0 } } } }
      node { name: "largest" op: "Max" input: "many" input: "zero" device: "/job:worker/task:1"
             attr { key: "T" value { type: DT_FLOAT } } })")),
              Status());
    const auto step = [&](float x) -> StatusOr<float> {
      std::vector<Tensor> out;
      MR_RETURN_IF_ERROR((*session)->Run({{"x", Tensor::Scalar(x)}}, {"largest"}, {}, &out));
      return out[0].scalar<float>();
    };
    const auto begin = steady_clock::now();
    ASSERT_EQ(step(3).value_or(-1), 3);
    const auto took = std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin).count();
    Status status;
    steady_clock::time_point ended;
    std::thread running([&] {
      for (float x = 0; status.ok(); x += 1) {
        const StatusOr<float> largest = step(x);
        status = largest.status();
        EXPECT_EQ(largest.value_or(x), x);
      }
      ended = steady_clock::now();
    });
    std::this_thread::sleep_for(milliseconds(took / 2 + static_cast<int64_t>(random() % 200)));
    const auto killed = steady_clock::now();
    cluster.process(victim).Signal(SIGKILL);
    running.join();
    EXPECT_TRUE(errors::IsUnavailable(status) || errors::IsAborted(status)) << status;
    // The client identifies its master by the target.
    const std::string name = StrCat("/job:", std::string(victim).substr(0, std::string(victim).size() - 2),
                                    "/replica:0/task:", std::string(victim).back());
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(name == "/job:worker/replica:0/task:0" ? cluster.Target(victim) : name));
    EXPECT_LT(ended - killed, std::chrono::seconds(10));
    (*session)->Close().IgnoreError("a task is gone");
    cluster.Restart(victim);
    for (const char* task : {"ps/0", "worker/0", "worker/1"}) cluster.AwaitNothingLeft(task);
  }
}

}  // namespace
}  // namespace millrace
