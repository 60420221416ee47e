// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "rpc/cluster_testing.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "distributed/task.h"
#include "rpc/register.h"
#include "tensorflow/core/protobuf/config.pb.h"

namespace millrace {
namespace {

constexpr std::chrono::seconds kPatience{30};
constexpr std::chrono::milliseconds kPause{10};

}  // namespace

std::string ConfigWithMessages() {
  tensorflow::ConfigProto config;
  config.mutable_rpc_options()->set_use_rpc_for_inprocess_master(true);
  return config.SerializeAsString();
}

TestCluster::TestCluster(const std::map<std::string, int>& jobs, ServerOptions options)
    : options_(std::move(options)) {
  EXPECT_EQ(RegisterGrpc(), Status());
  // The servers choose their ports as they bind them: no other program can come between.
  for (const auto& [job, count] : jobs) {
    for (int i = 0; i < count; ++i) EXPECT_EQ(options_.cluster.AddTask(job, i, "localhost:0"), Status());
  }
  auto servers = Server::MakeAll(options_);
  EXPECT_TRUE(servers.ok()) << servers.status();
  if (!servers.ok()) return;
  options_.cluster = ClusterSpec();
  auto server = servers->begin();
  for (const auto& [job, count] : jobs) {
    for (int i = 0; i < count; ++i, ++server) {
      const std::string& target = (*server)->target();
      EXPECT_EQ(options_.cluster.AddTask(job, i, target.substr(target.find("://") + 3)), Status());
      EXPECT_EQ((*server)->Start(), Status());
      servers_[{job, i}] = std::move(*server);
    }
  }
}

TestCluster::~TestCluster() = default;

std::string TestCluster::target(const std::string& job, int task) const {
  return StrCat("grpc://", *options_.cluster.AddressOf(job, task));
}

void TestCluster::Stop(const std::string& job, int task) { servers_.erase({job, task}); }

void TestCluster::Start(const std::string& job, int task) {
  ServerOptions options = options_;
  options.job = job;
  options.task = task;
  auto server = Server::Make(options);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ((*server)->Start(), Status());
  servers_[{job, task}] = *std::move(server);
}

void TestCluster::WaitForRuns(const std::string& job, int task, int runs) const {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  const std::shared_ptr<Task> here = LocalTasks::Get().Find(target(job, task));
  ASSERT_NE(here, nullptr);
  while (std::chrono::steady_clock::now() < deadline) {
    const WorkerService::State state = here->worker().GetState();
    if (static_cast<int>(state.runs.size()) == runs && (runs > 0 || state.steps == 0)) return;
    std::this_thread::sleep_for(kPause);
  }
  ADD_FAILURE() << here->Describe();
}

Status TestCluster::RetryWhile(const std::function<Status()>& attempt,
                               const std::function<bool(const Status&)>& again) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  Status status = attempt();
  while (again(status) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kPause);
    status = attempt();
  }
  return status;
}

}  // namespace millrace
