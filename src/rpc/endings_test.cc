// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// What clients are told when tasks, sessions and steps end, by both ways to the master.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "distributed/task.h"
#include "graph/testing.h"
#include "rpc/cluster_testing.h"
#include "rpc/register.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kPs[] = "/job:ps/replica:0/task:0";
constexpr char kMaster[] = "/job:worker/replica:0/task:0";

// A step that waits for an empty queue at the ps, an Identity that may be dead, and a variable.
constexpr char kGraph[] = R"(
  node { name: "q" op: "FIFOQueueV2" device: "/job:ps/task:0"
         attr { key: "component_types" value { list { type: DT_FLOAT } } } }
  node { name: "take" op: "QueueDequeueV2" input: "q" device: "/job:ps/task:0"
         attr { key: "component_types" value { list { type: DT_FLOAT } } } }
  node { name: "taken" op: "Neg" input: "take" device: "/job:worker/task:1"
         attr { key: "T" value { type: DT_FLOAT } } }
  node { name: "p" op: "Placeholder" attr { key: "dtype" value { type: DT_BOOL } } }
  node { name: "c" op: "Const" device: "/job:ps/task:0" attr { key: "dtype" value { type: DT_FLOAT } }
         attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape {} float_val: 3 } } } }
  node { name: "switch" op: "Switch" input: "c" input: "p" device: "/job:ps/task:0"
         attr { key: "T" value { type: DT_FLOAT } } }
  node { name: "ft" op: "Identity" input: "switch:1" device: "/job:ps/task:0"
         attr { key: "T" value { type: DT_FLOAT } } })";

class EndingsTest : public ::testing::TestWithParam<bool> {
 protected:
  EndingsTest() {
    EXPECT_EQ(RegisterGrpc(), Status());
    SessionOptions options;
    options.target = cluster_.target("worker", 0);
    if (GetParam()) options.config = ConfigWithMessages();
    auto session = NewSession(options);
    EXPECT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
    EXPECT_EQ(session_->Create(GraphDefFromText(kGraph)), Status());
  }
  ~EndingsTest() override { EXPECT_FALSE(waiting_.joinable()); }

  Status Take() {
    std::vector<Tensor> out;
    return session_->Run({}, {"taken"}, {}, &out);
  }
  Status Fetch(bool alive) {
    std::vector<Tensor> out;
    return session_->Run({{"p", Tensor::Scalar(alive)}}, {"ft"}, {}, &out);
  }
  // Starts a step that waits at the ps.
  void StartToWait() {
    waiting_ = std::thread([this] { status_ = Take(); });
    cluster_.WaitForRuns("ps", 0, 1);
  }
  Status AwaitItsEnd() {
    waiting_.join();
    return status_;
  }
  std::shared_ptr<Task> TaskOf(const std::string& job) const {
    return LocalTasks::Get().Find(cluster_.target(job, 0));
  }
  // The number of worker sessions at the ps becomes 0.
  Status AwaitNoSessionAtPs() const {
    const std::shared_ptr<Task> ps = TaskOf("ps");
    return TestCluster::RetryWhile(
        [&] {
          const size_t sessions = ps->worker().GetState().sessions;
          return sessions == 0 ? Status() : errors::Unavailable(sessions, " sessions");
        },
        [](const Status& s) { return !s.ok(); });
  }

  TestCluster cluster_{{{"ps", 1}, {"worker", 2}}};
  std::unique_ptr<Session> session_;

 private:
  std::thread waiting_;
  Status status_;
};

INSTANTIATE_TEST_SUITE_P(Ways, EndingsTest, ::testing::Bool(),
                         [](const auto& way) { return std::string(way.param ? "Messages" : "Calls"); });

TEST_P(EndingsTest, AWorkerThatEndsIsNamed) {
  StartToWait();
  cluster_.Stop("ps", 0);
  const Status status = AwaitItsEnd();
  EXPECT_TRUE(errors::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(StrCat("Task ", kPs)));
}

TEST_P(EndingsTest, AMasterThatEndsIsNamed) {
  StartToWait();
  cluster_.Stop("worker", 0);
  const Status status = AwaitItsEnd();
  EXPECT_TRUE(errors::IsUnavailable(status)) << status;
  EXPECT_EQ(status.message(), StrCat("Task ", kMaster, " ends"));
}

TEST_P(EndingsTest, AWorkerThatDropsTheSessionSaysWhy) {
  StartToWait();
  WorkerService& ps = TaskOf("ps")->worker();
  for (const WorkerService::MasterOf& master : ps.Masters())
    ps.DropSessionsOf(master, "it has not answered for 7 ms");
  const Status status = AwaitItsEnd();
  EXPECT_TRUE(errors::IsAborted(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(StrCat("Task ", kPs, " has dropped the session of master ", kMaster,
                               ": it has not answered for 7 ms")));
}

TEST_P(EndingsTest, TheClientsOwnCancellationKeepsItsCode) {
  RunOptions options;
  options.timeout_in_ms = 50;
  std::vector<Tensor> out;
  const Status late = session_->Run(options, {}, {"taken"}, {}, &out, nullptr);
  EXPECT_TRUE(errors::IsDeadlineExceeded(late)) << late;
  cluster_.WaitForRuns("ps", 0, 0);
  StartToWait();
  session_->CancelSteps();
  const Status cancelled = AwaitItsEnd();
  EXPECT_TRUE(errors::IsCancelled(cancelled)) << cancelled;
  cluster_.WaitForRuns("ps", 0, 0);
  StartToWait();
  EXPECT_EQ(session_->Close(), Status());
  const Status closed = AwaitItsEnd();
  EXPECT_TRUE(errors::IsCancelled(closed)) << closed;
}

TEST_P(EndingsTest, CloseEndsTheSessionAtAllTasks) {
  ASSERT_EQ(Fetch(true), Status());
  EXPECT_EQ(TaskOf("worker")->master().num_sessions(), 1u);
  EXPECT_EQ(session_->Close(), Status());
  EXPECT_EQ(TaskOf("worker")->master().num_sessions(), 0u);
  EXPECT_EQ(AwaitNoSessionAtPs(), Status());
  const Status closed = Fetch(true);
  EXPECT_TRUE(errors::IsCancelled(closed)) << closed;
  EXPECT_EQ(closed.message(), "Session has been closed.");
  EXPECT_EQ(session_->Extend(GraphDefFromText(R"(node { name: "n" op: "NoOp" })")).message(),
            "Session has been closed.");
  session_->CancelSteps();
  EXPECT_EQ(session_->Close(), Status());
}

TEST_P(EndingsTest, TheLastOfTheCancelledStepsFreesTheSession) {
  StartToWait();
  std::thread other([this] { EXPECT_TRUE(errors::IsCancelled(Take())); });
  cluster_.WaitForRuns("ps", 0, 2);
  EXPECT_EQ(session_->Close(), Status());
  other.join();
  EXPECT_TRUE(errors::IsCancelled(AwaitItsEnd()));
  EXPECT_EQ(AwaitNoSessionAtPs(), Status());
}

TEST_P(EndingsTest, AResetCancelsStepsAndLaterOnesAreAborted) {
  StartToWait();
  SessionOptions options;
  options.target = cluster_.target("worker", 0);
  ASSERT_EQ(Reset(options, {}), Status());
  const Status cancelled = AwaitItsEnd();
  EXPECT_TRUE(errors::IsCancelled(cancelled)) << cancelled;
  for (int i = 0; i < 2; ++i) {
    const Status later = Fetch(true);
    EXPECT_TRUE(errors::IsAborted(later)) << later;
    EXPECT_THAT(std::string(later.message()),
                HasSubstr(" is not found. Possibly, this master has restarted."));
  }
}

TEST_P(EndingsTest, ADeadFetchIsNamed) {
  EXPECT_EQ(Fetch(true), Status());
  const Status dead = Fetch(false);
  EXPECT_TRUE(errors::IsInvalidArgument(dead)) << dead;
  EXPECT_EQ(dead.message(), StrCat("From ", kMaster, ":\nThe tensor returned for ft:0 was not valid."));
}

}  // namespace
}  // namespace millrace
