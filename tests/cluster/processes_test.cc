// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Tasks that are processes of their own: `millrace server`, named by the environment variable
// MILLRACE_PROGRAM.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <random>
#include <thread>

#include "graph/testing.h"
#include "millrace/cluster.h"
#include "rpc/cluster_testing.h"
#include "rpc/register.h"
#include "tensorflow/core/framework/graph.pb.h"

extern char** environ;

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;

// Longer than any bound that is under test, on a machine that does much else.
constexpr std::chrono::seconds kPatience{30};

// One process of the program.
class Process {
 public:
  explicit Process(const std::vector<std::string>& args) {
    int pipe[2];
    EXPECT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe[1], 1);
    const char* const program = std::getenv("MILLRACE_PROGRAM");
    std::vector<char*> argv;
    std::vector<std::string> words{program == nullptr ? "millrace" : program};
    words.insert(words.end(), args.begin(), args.end());
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    EXPECT_EQ(::posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ), 0) << words[0];
    posix_spawn_file_actions_destroy(&actions);
    ::close(pipe[1]);
    output_ = pipe[0];
  }
  ~Process() {
    if (pid_ > 0) {
      Signal(SIGKILL);
      Wait();
    }
    ::close(output_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void Signal(int signal) const { ::kill(pid_, signal); }
  // The first line that it prints; empty when it ends before.
  std::string Line() const {
    std::string line;
    char c = 0;
    while (::read(output_, &c, 1) == 1 && c != '\n') line.push_back(c);
    return line;
  }
  // The exit code; 128 and more for a signal.
  int Wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  int output_ = -1;
};

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

  ProcessesTest() {
    EXPECT_EQ(RegisterGrpc(), Status());
    for (const auto& [job, task] :
         std::vector<std::pair<std::string, int>>{{"ps", 0}, {"worker", 0}, {"worker", 1}})
      EXPECT_EQ(spec_.AddTask(job, task, StrCat("localhost:", FreePort())), Status());
    for (const char* name : {kPs, kMaster, kOther}) Launch(name);
    for (const char* name : {kPs, kMaster, kOther}) AwaitReady(name);
  }
  std::string Target(const std::string& name) const {
    return StrCat("grpc://", *spec_.AddressOf(name.substr(0, name.size() - 2), name.back() - '0'));
  }
  void Launch(const std::string& name) {
    processes_[name] = std::make_unique<Process>(std::vector<std::string>{
        "server", "--cluster", spec_.ToString(), "--job", name.substr(0, name.size() - 2), "--task",
        name.substr(name.size() - 1), "--peer-timeout", "1", "--session-timeout", "20"});
  }
  void AwaitReady(const std::string& name) {
    EXPECT_THAT(processes_[name]->Line(), HasSubstr("is ready at"));
  }
  void Restart(const std::string& name) {
    processes_.erase(name);
    Launch(name);
    AwaitReady(name);
  }
  StatusOr<std::unique_ptr<Session>> NewSessionAt(const std::string& name) {
    SessionOptions options;
    options.target = Target(name);
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
  // Waits until a task says so of itself.
  void AwaitState(const std::string& name, const std::vector<std::string>& parts) const {
    const auto deadline = steady_clock::now() + kPatience;
    std::string mine;
    while (steady_clock::now() < deadline) {
      const auto state = DescribeCluster(Target(name), 2000);
      if (state.ok()) {
        const std::string task = StrCat("{\"task\":\"/job:", name.substr(0, name.size() - 2),
                                        "/replica:0/task:", name.substr(name.size() - 1));
        const size_t begin = state->find(task);
        mine =
            begin == std::string::npos ? "" : state->substr(begin, state->find("bytes_sent", begin) - begin);
        bool all = !mine.empty();
        for (const std::string& part : parts) all = all && mine.find(part) != std::string::npos;
        if (all) return;
      }
      std::this_thread::sleep_for(milliseconds(20));
    }
    ADD_FAILURE() << name << ": " << mine;
  }
  void AwaitNothingLeft(const std::string& name) const {
    AwaitState(
        name, {"\"sessions\":0", "\"worker_sessions\":0", "\"graphs\":0", "\"steps\":0", "\"graph_runs\":0"});
  }

  ClusterSpec spec_;
  std::map<std::string, std::unique_ptr<Process>> processes_;
};

TEST_F(ProcessesTest, StepsRunOnThreeProcessesThatEndCleanly) {
  {
    const auto session = NewSessionAt(kMaster);
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_EQ(Init(**session, 5), Status());
    for (int i = 1; i <= 20; ++i) ASSERT_EQ(Fetch(**session, 1, "y").value_or(0), -5 - i);
  }
  for (const char* name : {kPs, kMaster, kOther}) AwaitNothingLeft(name);
  processes_[kPs]->Signal(SIGTERM);
  processes_[kMaster]->Signal(SIGINT);
  EXPECT_EQ(processes_[kPs]->Wait(), 0);
  EXPECT_EQ(processes_[kMaster]->Wait(), 0);
}

TEST_F(ProcessesTest, AServerEndsCleanlyWhileAStepWaits) {
  const auto session = NewSessionAt(kMaster);
  ASSERT_TRUE(session.ok()) << session.status();
  Status status;
  std::thread waiting([&] { status = Fetch(**session, 0, "taken").status(); });
  AwaitState(kPs, {"\"graph_runs\":1"});
  processes_[kPs]->Signal(SIGTERM);
  EXPECT_EQ(processes_[kPs]->Wait(), 0);
  waiting.join();
  EXPECT_FALSE(status.ok());
}

TEST_F(ProcessesTest, AServerThatCannotHaveItsAddressEndsWithAnError) {
  Process second({"server", "--cluster", spec_.ToString(), "--job", "ps", "--task", "0"});
  EXPECT_EQ(second.Line(), "");
  EXPECT_EQ(second.Wait(), 1);
  Process unknown({"server", "--cluster", spec_.ToString(), "--job", "ps", "--task", "4"});
  EXPECT_EQ(unknown.Wait(), 1);
}

TEST_F(ProcessesTest, AKilledTaskFailsItsStepsAtOnceAndComesBack) {
  const auto session = NewSessionAt(kMaster);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_EQ(Init(**session, 5), Status());
  Status status;
  std::thread waiting([&] { status = Fetch(**session, 0, "taken").status(); });
  AwaitState(kPs, {"\"graph_runs\":1"});
  processes_[kPs]->Signal(SIGKILL);
  waiting.join();
  EXPECT_TRUE(errors::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("/job:ps/replica:0/task:0"));
  Restart(kPs);
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

TEST_F(ProcessesTest, AStoppedTaskIsGivenUpAndItsStepsOfThePastAreNotMistaken) {
  const auto session = NewSessionAt(kMaster);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_EQ(Init(**session, 5), Status());
  processes_[kPs]->Signal(SIGSTOP);
  const auto start = steady_clock::now();
  const Status status = Fetch(**session, 1, "y").status();
  EXPECT_TRUE(errors::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("/job:ps/replica:0/task:0"));
  EXPECT_LT(steady_clock::now() - start, kPatience);
  processes_[kPs]->Signal(SIGCONT);
  // The step that was given up may have added 1, once, or not at all.
  const auto again = NewSessionAt(kMaster);
  ASSERT_TRUE(again.ok()) << again.status();
  const float y = Fetch(**again, 0, "y").value_or(0);
  EXPECT_TRUE(y == -5 || y == -6) << y;
  AwaitState(kPs, {"\"graph_runs\":0"});
  EXPECT_EQ(Fetch(**again, 0, "y").value_or(0), Fetch(**again, 0, "y").value_or(1));
}

TEST_F(ProcessesTest, WhatAKilledMasterLeavesIsDropped) {
  auto session = NewSessionAt(kMaster);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_EQ(Init(**session, 5), Status());
  Status status;
  std::thread waiting([&] { status = Fetch(**session, 0, "taken").status(); });
  AwaitState(kPs, {"\"graph_runs\":1", "\"worker_sessions\":1"});
  processes_[kMaster]->Signal(SIGKILL);
  waiting.join();
  EXPECT_TRUE(errors::IsUnavailable(status)) << status;
  for (const char* name : {kPs, kOther}) AwaitNothingLeft(name);
  Restart(kMaster);
  const Status restarted = TestCluster::RetryWhile([&] { return Init(**session, 3); },
                                                   [](const Status& s) { return errors::IsUnavailable(s); });
  EXPECT_TRUE(errors::IsAborted(restarted)) << restarted;
  // The ps has kept its variables.
  const auto again = NewSessionAt(kMaster);
  ASSERT_TRUE(again.ok()) << again.status();
  const auto y = Fetch(**again, 1, "y");
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_EQ(*y, -6);
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
    processes_[victim]->Signal(stop ? SIGSTOP : SIGKILL);
    training.join();
    EXPECT_TRUE(errors::IsUnavailable(status) || errors::IsAborted(status)) << victim << " " << status;
    EXPECT_LT(steady_clock::now() - start, kPatience) << victim;
    if (stop) {
      processes_[victim]->Signal(SIGCONT);
    } else {
      Restart(victim);
    }
    session->reset();
    for (const char* name : {kPs, kMaster, kOther}) AwaitNothingLeft(name);
  }
}

}  // namespace
}  // namespace millrace
