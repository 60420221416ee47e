// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/simulated_cluster.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "session/session_options.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace {
namespace {

class SimulatedClusterTest : public testing::TestWithParam<int> {};

TEST_P(SimulatedClusterTest, OneBroadcastForEachPartOfASession) {
  const int tasks = GetParam();
  auto cluster = SimulatedCluster::Make({.num_tasks = tasks, .patience_in_ms = 60'000});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  auto session = (*cluster)->master().Open(SessionOptions(), nullptr);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->session().Create(SimulatedGraph(tasks, 5)).ok());
  std::vector<std::string> fetches;
  fetches.reserve(static_cast<size_t>(tasks));
  for (int i = 0; i < tasks; ++i) fetches.push_back(StrCat("node", i, "_4:0"));
  std::vector<Tensor> out;
  for (int step = 0; step < 2; ++step) {
    const Status status = (*session)->session().Run(RunOptions(), {}, fetches, {}, &out, nullptr);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_EQ(out.size(), static_cast<size_t>(tasks));
    for (int i = 0; i < tasks; ++i)
      EXPECT_EQ(out[static_cast<size_t>(i)].scalar<float>(), static_cast<float>(i));
  }
  // A broadcast that waited for the answer of one task before it called the next one would have ended with an
  // error.
  std::vector<Method> methods;
  for (const auto& broadcast : (*cluster)->network().broadcasts()) methods.push_back(broadcast.method);
  EXPECT_EQ(methods, (std::vector<Method>{Method::kGetStatus, Method::kCreateWorkerSession,
                                          Method::kRegisterGraph, Method::kRunGraph, Method::kRunGraph}));
  EXPECT_TRUE((*cluster)->master().CloseSession((*session)->handle()).ok());
}
INSTANTIATE_TEST_SUITE_P(Tasks, SimulatedClusterTest, testing::Values(10, 50));

TEST(SimulatedClusterTest, BroadcastThatMissesATaskIsAnError) {
  auto cluster = SimulatedCluster::Make({.num_tasks = 3, .patience_in_ms = 200});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  SessionOptions options;
  options.device_filters = {"/job:worker/task:0"};
  const auto session = (*cluster)->master().Open(options, nullptr);
  EXPECT_TRUE(errors::IsDeadlineExceeded(session.status())) << session.status();
}

TEST(SimulatedClusterTest, AllCallsThatOpenASessionHaveOneDeadline) {
  auto cluster = SimulatedCluster::Make({.num_tasks = 3, .patience_in_ms = 60'000});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  ASSERT_TRUE((*cluster)->master().Open(SessionOptions(), nullptr).ok());
  const auto broadcasts = (*cluster)->network().broadcasts();
  ASSERT_EQ(broadcasts.size(), 2u);
  EXPECT_GT(broadcasts[0].timeout_in_ms, 0);
  EXPECT_LE(broadcasts[0].timeout_in_ms, 60'000);
  EXPECT_GT(broadcasts[1].timeout_in_ms, 0);
  EXPECT_LE(broadcasts[1].timeout_in_ms, 60'000);
}

}  // namespace
}  // namespace millrace
