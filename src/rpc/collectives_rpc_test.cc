// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Sessions of three masters whose steps execute common collective operations, over gRPC.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "graph/testing.h"
#include "millrace/cluster.h"
#include "rpc/cluster_testing.h"
#include "rpc/register.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/protobuf/config.pb.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr int kMembers = 3;

class CollectivesRpcTest : public ::testing::Test {
 protected:
  CollectivesRpcTest()
      : cluster_((void(RegisterGrpc()), std::map<std::string, int>{{"worker", kMembers}}), Options()) {}
  static ServerOptions Options() {
    ServerOptions options;
    options.peer_timeout_in_ms = 5000;
    return options;
  }
  static std::string Graph(int task, const std::string& name) {
    return StrCat(
        "node { name: \"x\" op: \"Placeholder\" device: \"/job:worker/task:", task,
        "\" attr { key: \"dtype\" value { type: DT_FLOAT } } } node { name: \"y\" op: \"", name,
        "\" device: \"/job:worker/task:", task, "\" ", name == "CollectiveBcastRecv" ? "" : "input: \"x\"",
        R"( attr { key: "T" value { type: DT_FLOAT } } attr { key: "group_size" value { i: )", kMembers,
        R"( } } attr { key: "group_key" value { i: 1 } } attr { key: "instance_key" value { i: 1 } } )",
        name == "CollectiveReduce"
            ? R"(attr { key: "merge_op" value { s: "Add" } } attr { key: "final_op" value { s: "Id" } }
                           attr { key: "subdiv_offsets" value { list { i: 0 } } } })"
            : R"(attr { key: "shape" value { shape { dim { size: 2 } } } } })");
  }
  StatusOr<std::unique_ptr<Session>> Make(int task, const std::string& op) {
    SessionOptions options;
    options.target = cluster_.target("worker", task);
    options.device_filters = {StrCat("/job:worker/task:", task)};
    tensorflow::ConfigProto config;
    config.mutable_experimental()->set_collective_group_leader("/job:worker/replica:0/task:0");
    config.add_device_filters(options.device_filters[0]);
    options.config = config.SerializeAsString();
    MR_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, NewSession(options));
    MR_RETURN_IF_ERROR(session->Create(GraphDefFromText(Graph(task, op))));
    return session;
  }
  void MakeAll(const std::string& source, const std::string& op) {
    sessions_.clear();
    for (int i = 0; i < kMembers; ++i) {
      auto session = Make(i, i == 0 ? source : op);
      ASSERT_TRUE(session.ok()) << session.status();
      sessions_.push_back(*std::move(session));
    }
  }
  static StatusOr<Tensor> Step(Session& session, float x) {
    std::vector<Tensor> out;
    RunOptions options;
    options.timeout_in_ms = 20'000;
    MR_RETURN_IF_ERROR(session.Run(options, {{"x", Tensor::Vector({x, 2 * x})}}, {"y"}, {}, &out, nullptr));
    return out[0];
  }
  // A step of each session, member i with i + 1; the results.
  std::vector<StatusOr<Tensor>> StepOfAll() {
    std::vector<StatusOr<Tensor>> results(sessions_.size(), errors::Internal("not run"));
    std::vector<std::thread> threads;
    for (size_t i = 0; i < sessions_.size(); ++i) {
      if (sessions_[i] != nullptr)
        threads.emplace_back([&, i] { results[i] = Step(*sessions_[i], static_cast<float>(i + 1)); });
    }
    for (std::thread& thread : threads) thread.join();
    return results;
  }

  TestCluster cluster_;
  std::vector<std::unique_ptr<Session>> sessions_;
};

TEST_F(CollectivesRpcTest, MastersMeetInEachStep) {
  MakeAll("CollectiveReduce", "CollectiveReduce");
  std::vector<std::thread> threads;
  threads.reserve(kMembers);
  for (int i = 0; i < kMembers; ++i) {
    threads.emplace_back([&, i] {
      // Members wait for each other only in the operation.
      for (int step = 0; step < 30; ++step) {
        const auto y = Step(*sessions_[static_cast<size_t>(i)], static_cast<float>(i + step));
        ASSERT_TRUE(y.ok()) << y.status();
        const float sum = static_cast<float>(3 + 3 * step);
        EXPECT_THAT(y->flat<float>(), ::testing::ElementsAre(sum, 2 * sum));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CollectivesRpcTest, ABroadcastReachesAll) {
  MakeAll("CollectiveBcastSend", "CollectiveBcastRecv");
  for (int step = 0; step < 3; ++step) {
    for (const auto& y : StepOfAll()) {
      ASSERT_TRUE(y.ok()) << y.status();
      EXPECT_THAT(y->flat<float>(), ::testing::ElementsAre(1, 2));
    }
  }
}

// When any member fails, the others get an error, and continue with new sessions.
TEST_F(CollectivesRpcTest, ADeadMemberEndsTheStepsOfAll) {
  MakeAll("CollectiveReduce", "CollectiveReduce");
  for (int dead = 0; dead < kMembers; ++dead) {
    for (const auto& y : StepOfAll()) ASSERT_TRUE(y.ok()) << y.status();
    sessions_[static_cast<size_t>(dead)] = nullptr;
    cluster_.Stop("worker", dead);
    const auto results = StepOfAll();
    for (int i = 0; i < kMembers; ++i) {
      if (i == dead) continue;
      const Status& status = results[static_cast<size_t>(i)].status();
      EXPECT_TRUE(errors::IsUnavailable(status) || errors::IsAborted(status)) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("/job:worker/replica:0/task:"));
    }
    cluster_.Start("worker", dead);
    // Each task makes a new session when its step fails, as training programs do.
    std::vector<Status> recovered(kMembers);
    std::vector<std::thread> threads;
    threads.reserve(kMembers);
    for (int i = 0; i < kMembers; ++i) {
      threads.emplace_back([&, i] {
        recovered[static_cast<size_t>(i)] = TestCluster::RetryWhile(
            [&]() -> Status {
              auto& session = sessions_[static_cast<size_t>(i)];
              MR_ASSIGN_OR_RETURN(session, Make(i, "CollectiveReduce"));
              return Step(*session, 1).status();
            },
            [](const Status& s) { return errors::IsUnavailable(s) || errors::IsAborted(s); });
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_THAT(recovered, ::testing::Each(Status()));
  }
}

TEST_F(CollectivesRpcTest, AnAbsentReceiverIsNoticedByTheSource) {
  MakeAll("CollectiveBcastSend", "CollectiveBcastRecv");
  for (const auto& y : StepOfAll()) ASSERT_TRUE(y.ok()) << y.status();
  for (int i : {1, 2}) {
    sessions_[static_cast<size_t>(i)] = nullptr;
    cluster_.Stop("worker", i);
  }
  const Status status = Step(*sessions_[0], 1).status();
  EXPECT_TRUE(errors::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("Collective member /job:worker/replica:0/task:1: "));
}

}  // namespace
}  // namespace millrace
