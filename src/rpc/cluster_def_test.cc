// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Sessions with a cluster of their own (ConfigProto.cluster_def), on servers that are not configured for each
// other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "graph/testing.h"
#include "millrace/cluster.h"
#include "millrace/session.h"
#include "rpc/cluster_testing.h"
#include "rpc/register.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/protobuf/config.pb.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

// A variable at one task, read at a second one, whose product a third one takes.
constexpr char kGraph[] = R"(
  node { name: "v" op: "VarHandleOp" device: "/job:ps/task:0" attr { key: "dtype" value { type: DT_FLOAT } }
         attr { key: "shape" value { shape { } } } attr { key: "shared_name" value { s: "v" } } }
  node { name: "start" op: "Const" device: "/job:ps/task:0" attr { key: "dtype" value { type: DT_FLOAT } }
         attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 3 } } } }
  node { name: "init" op: "AssignVariableOp" input: "v" input: "start" device: "/job:ps/task:0"
         attr { key: "dtype" value { type: DT_FLOAT } } }
  node { name: "read" op: "ReadVariableOp" input: "v" device: "/job:ps/task:0"
         attr { key: "dtype" value { type: DT_FLOAT } } }
  node { name: "square" op: "Mul" input: "read" input: "read" device: "/job:worker/task:1"
         attr { key: "T" value { type: DT_FLOAT } } }
  node { name: "sum" op: "Add" input: "square" input: "read" device: "/job:worker/task:0"
         attr { key: "T" value { type: DT_FLOAT } } })";

// `messages`: also to the master, which is in this process.
class ClusterDefTest : public ::testing::TestWithParam<bool> {
 protected:
  ClusterDefTest() {
    EXPECT_EQ(RegisterGrpc(), Status());
    for (int i = 0; i < 3; ++i) {
      ServerOptions options;
      EXPECT_EQ(options.cluster.AddTask("local", 0, "localhost:0"), Status());
      options.job = "local";
      auto server = Server::Make(options);
      EXPECT_TRUE(server.ok()) << server.status();
      EXPECT_EQ((*server)->Start(), Status());
      addresses_.push_back((*server)->target().substr(std::string("grpc://").size()));
      servers_.push_back(*std::move(server));
    }
  }
  StatusOr<std::unique_ptr<Session>> Open(const std::string& cluster) {
    tensorflow::ConfigProto config;
    if (GetParam()) config.ParseFromString(ConfigWithMessages());
    MR_ASSIGN_OR_RETURN(const ClusterSpec spec, ClusterSpec::Parse(cluster));
    spec.ToProto(config.mutable_cluster_def());
    MR_ASSIGN_OR_RETURN(SessionOptions options, SessionOptions::FromProto(config));
    options.target = servers_[0]->target();
    MR_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, NewSession(options));
    MR_RETURN_IF_ERROR(session->Create(GraphDefFromText(kGraph)));
    return session;
  }
  // The master is worker 0.
  std::string Cluster(size_t ps, size_t worker) const {
    return StrCat("ps=", addresses_[ps], ",worker=", addresses_[0], ",", addresses_[worker]);
  }

  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<Server>> servers_;
};

TEST_P(ClusterDefTest, ASessionRunsOnTheClusterThatItBrings) {
  auto session = Open(Cluster(1, 2));
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_EQ((*session)->Run({}, {}, {"init"}, nullptr), Status());
  std::vector<Tensor> out;
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ((*session)->Run({}, {"sum"}, {}, &out), Status());
    ASSERT_EQ(out[0].scalar<float>(), 12);
  }
  const auto devices = (*session)->ListDevices();
  ASSERT_TRUE(devices.ok()) << devices.status();
  std::vector<std::string> names;
  for (const DeviceInfo& device : *devices) names.push_back(device.name);
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("/job:ps/replica:0/task:0/device:CPU:0",
                                                     "/job:worker/replica:0/task:0/device:CPU:0",
                                                     "/job:worker/replica:0/task:1/device:CPU:0"));

  // Such sessions are isolated, and may give the tasks other names.
  auto other = Open(Cluster(2, 1));
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_TRUE(errors::IsFailedPrecondition((*other)->Run({}, {"sum"}, {}, &out)));
  ASSERT_EQ((*other)->Run({}, {}, {"init"}, nullptr), Status());
  ASSERT_EQ((*other)->Run({}, {"sum"}, {}, &out), Status());
  ASSERT_EQ((*session)->Run({}, {"sum"}, {}, &out), Status());
  other->reset();
  session->reset();
  for (const auto& server : servers_) {
    const Status nothing_left = TestCluster::RetryWhile(
        [&]() -> Status {
          MR_ASSIGN_OR_RETURN(const std::string state, DescribeCluster(server->target(), 10'000));
          for (const char* what : {"\"worker_sessions\":0", "\"graphs\":0", "\"sessions\":0"}) {
            if (state.find(what) == std::string::npos) return errors::Internal(what, " is not in ", state);
          }
          return Status();
        },
        [](const Status& status) { return !status.ok(); });
    EXPECT_EQ(nothing_left, Status());
  }
}

TEST_P(ClusterDefTest, TheMasterMustBeInItOnceByANewName) {
  const auto error = [this](const std::string& cluster) {
    const Status status = Open(cluster).status();
    EXPECT_TRUE(errors::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(error("worker=" + addresses_[1]),
              HasSubstr("The master (current machine) is not included in the provided cluster_def. "));
  EXPECT_THAT(error(StrCat("worker=", addresses_[0], ",ps=", addresses_[0])),
              HasSubstr("Found multiple matching tasks that correspond to to the master. Master target: '"));
  EXPECT_THAT(
      error("local=" + addresses_[0]),
      HasSubstr("The ClusterSpec names the job and task index to be the same names that were provided "
                "when the server booted. This is currently not allowed. Job: local, task index: 0"));
}

TEST_P(ClusterDefTest, ADeadTaskEndsStepsWithItsName) {
  auto session = Open(Cluster(1, 2));
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_EQ((*session)->Run({}, {}, {"init"}, nullptr), Status());
  servers_[2].reset();
  std::vector<Tensor> out;
  const Status status = (*session)->Run({}, {"sum"}, {}, &out);
  EXPECT_TRUE(errors::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("/job:worker/replica:0/task:1"));
}

INSTANTIATE_TEST_SUITE_P(Masters, ClusterDefTest, ::testing::Bool());

}  // namespace
}  // namespace millrace
