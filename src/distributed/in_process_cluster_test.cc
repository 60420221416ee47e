// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Sessions on three tasks, with state pinned to tasks other than the session's.
#include "distributed/in_process_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/notification.h"
#include "distributed/step_stats.h"
#include "graph/testing.h"
#include "rpc/register.h"
#include "session/direct_session.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/step_stats.pb.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

// x is on task 0; the rest on the tasks of their devices.
constexpr char kGraph[] = R"(
  node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
  node { name: "square" op: "Mul" input: "x" input: "x" device: "/task:1" attr { key: "T" value { type: DT_FLOAT } } }
  node { name: "text" op: "GetSessionHandle" input: "square" device: "/task:1"
         attr { key: "T" value { type: DT_FLOAT } } }
  node { name: "resource" op: "GetSessionHandleV2" input: "square" device: "/task:2"
         attr { key: "T" value { type: DT_FLOAT } } }
  node { name: "handle" op: "Placeholder" attr { key: "dtype" value { type: DT_STRING } } }
  node { name: "value" op: "GetSessionTensor" input: "handle" device: "/task:1"
         attr { key: "dtype" value { type: DT_FLOAT } } }
  node { name: "delete" op: "DeleteSessionTensor" input: "handle" device: "/task:1" }
  node { name: "v" op: "VarHandleOp" device: "/task:2" attr { key: "dtype" value { type: DT_FLOAT } }
         attr { key: "shape" value { shape {} } } }
  node { name: "set" op: "AssignVariableOp" input: "v" input: "square" device: "/task:2"
         attr { key: "dtype" value { type: DT_FLOAT } } }
  node { name: "get" op: "ReadVariableOp" input: "v" device: "/task:2" attr { key: "dtype" value { type: DT_FLOAT } } }
  node { name: "checked" op: "CheckNumerics" input: "square" device: "/task:2"
         attr { key: "T" value { type: DT_FLOAT } } attr { key: "message" value { s: "bad" } } })";

// Over a transport within the process, and over a protocol.
class InProcessClusterTest : public ::testing::TestWithParam<const char*> {
 protected:
  InProcessClusterTest() {
    EXPECT_EQ(RegisterGrpc(), Status());
    TestConfig config;
    config.other_tasks = InProcessCluster::Maker({.num_tasks = 3, .protocol = GetParam(), .seed = 5});
    session_ = *DirectSession::MakeForTest({}, config);
    EXPECT_EQ(session_->Create(GraphDefFromText(kGraph)), Status());
  }
  StatusOr<Tensor> Run(const Session::Feeds& feeds, const std::string& fetch) {
    std::vector<Tensor> out;
    MR_RETURN_IF_ERROR(session_->Run(feeds, {fetch}, {}, &out));
    return out[0];
  }
  static Session::Feeds X(float x) { return {{"x", Tensor::Scalar(x)}}; }

  std::unique_ptr<DirectSession> session_;
};

INSTANTIATE_TEST_SUITE_P(Transports, InProcessClusterTest, ::testing::Values("", "grpc"));

TEST(InProcessClusterProtocolTest, AMissingProtocolIsNamed) {
  TestConfig config;
  config.other_tasks = InProcessCluster::Maker({.protocol = "pigeons"});
  const Status status = DirectSession::MakeForTest({}, config).status();
  EXPECT_TRUE(errors::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"pigeons\""));
}

TEST_P(InProcessClusterTest, DevicesOfAllTasksAreListedTheOwnFirst) {
  const auto devices = session_->ListDevices();
  ASSERT_TRUE(devices.ok());
  ASSERT_EQ(devices->size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ((*devices)[static_cast<size_t>(i)].name,
              StrCat("/job:localhost/replica:0/task:", i, "/device:CPU:0"));
    EXPECT_NE((*devices)[static_cast<size_t>(i)].incarnation, 0u);
  }
}

TEST_P(InProcessClusterTest, ErrorsNameTheTask) {
  const Status status = Run(X(NAN), "checked").status();
  EXPECT_TRUE(errors::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              ::testing::StartsWith("From /job:localhost/replica:0/task:2:\nbad"));
}

TEST_P(InProcessClusterTest, SessionTensorsStayAtTheirTask) {
  const auto handle = Run(X(3), "text");
  ASSERT_TRUE(handle.ok()) << handle.status();
  EXPECT_THAT(handle->scalar<std::string>(), HasSubstr("/task:1/device:CPU:0"));
  const auto value = Run({{"handle", *handle}}, "value");
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(value->scalar<float>(), 9);
  ASSERT_EQ(session_->Run({{"handle", *handle}}, {}, {"delete"}, nullptr), Status());
  EXPECT_THAT(std::string(Run({{"handle", *handle}}, "value").status().message()),
              HasSubstr("is not in the session store."));
}

TEST_P(InProcessClusterTest, AHandleOfAnotherTaskIsFedForItsTensor) {
  const auto handle = Run(X(3), "resource");
  ASSERT_TRUE(handle.ok()) << handle.status();
  const auto value = Run({{"x", *handle}}, "square");
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(value->scalar<float>(), 81);
}

TEST_P(InProcessClusterTest, StateStaysAtItsTaskUntilReset) {
  ASSERT_EQ(session_->Run(X(2), {}, {"set"}, nullptr), Status());
  for (int i = 0; i < 3; ++i) {
    const auto value = Run({}, "get");
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_EQ(value->scalar<float>(), 4);
  }
  session_->ResetContainers({});
  EXPECT_TRUE(errors::IsCancelled(Run({}, "get").status()));
}

TEST_P(InProcessClusterTest, PartialRunsAndTracesReachAllTasks) {
  const auto handle = session_->PRunSetup({"x"}, {"square", "checked"}, {});
  ASSERT_TRUE(handle.ok()) << handle.status();
  std::vector<Tensor> out;
  ASSERT_EQ(session_->PRun(*handle, X(2), {"checked"}, &out), Status());
  EXPECT_EQ(out[0].scalar<float>(), 4);
  ASSERT_EQ(session_->PRun(*handle, {}, {"square"}, &out), Status());
  EXPECT_EQ(out[0].scalar<float>(), 4);

  RunOptions options;
  options.trace_level = RunOptions::TraceLevel::kFull;
  options.output_partition_graphs = true;
  RunMetadata metadata;
  ASSERT_EQ(session_->Run(options, X(2), {"checked"}, {}, &out, &metadata), Status());
  EXPECT_EQ(metadata.partition_graphs.size(), 3u);
  std::map<std::string, std::string> device_of;
  for (const DeviceStats& device : metadata.devices) {
    for (const NodeStats& node : device.nodes) device_of[node.node] = device.device;
  }
  EXPECT_THAT(device_of["square"], HasSubstr("task:1"));
  EXPECT_THAT(device_of["checked"], HasSubstr("task:2"));
}

// Arbitrary bytes from a peer: every method answers.
TEST(WorkerServiceTest, WrongMessagesAreAnswered) {
  LocalWorker worker(std::make_shared<LocalDevices>(*DeviceFactoryRegistry::Global().CreateDevices({})));
  ThreadPool pool("worker_service_test", 2);
  WorkerService service(worker, pool);
  const auto call = [&](Method method, const std::string& request) {
    CancellationManager cancellation;
    Status answer = errors::Internal("no answer");
    Notification answered;
    service.Handle(method, request, 0, cancellation, [&](Status status, const MessageBytes&) {
      answer = std::move(status);
      answered.Notify();
    });
    answered.Wait();
    return answer;
  };
  for (const Method method : {Method::kRegisterGraph, Method::kDeregisterGraph, Method::kRunGraph,
                              Method::kCleanupGraph, Method::kCleanupAll, Method::kRecvTensor}) {
    EXPECT_TRUE(errors::IsInvalidArgument(call(method, "\xff\xff\xff"))) << MethodName(method);
  }
  EXPECT_EQ(call(static_cast<Method>(99), "").code(), ErrorCode::kUnimplemented);
  tensorflow::RunGraphRequest run;
  run.set_graph_handle("0000000000000007");
  EXPECT_EQ(call(Method::kRunGraph, run.SerializeAsString()).message(),
            "Graph handle is not found: 0000000000000007. Possibly, this worker just restarted.");
  EXPECT_TRUE(errors::IsAborted(call(Method::kDeregisterGraph, "")));
  tensorflow::RegisterGraphRequest graph;
  *graph.mutable_graph_def() = GraphDefFromText(R"(node { name: "n" op: "NoOp" })");
  EXPECT_THAT(std::string(call(Method::kRegisterGraph, graph.SerializeAsString()).message()),
              HasSubstr("Node 'n' of a partition has no device"));
  graph.mutable_graph_def()->mutable_node(0)->set_device("/job:other/replica:0/task:0/device:CPU:0");
  EXPECT_THAT(std::string(call(Method::kRegisterGraph, graph.SerializeAsString()).message()),
              HasSubstr("No device '/job:other/replica:0/task:0/device:CPU:0' in task"));
  tensorflow::RecvTensorRequest recv;
  recv.set_rendezvous_key("not a key");
  EXPECT_THAT(std::string(call(Method::kRecvTensor, recv.SerializeAsString()).message()),
              HasSubstr("Invalid rendezvous key: not a key"));
  const DeviceAttributes& device = worker.local_devices().client_device()->attributes();
  recv.set_rendezvous_key(Rendezvous::Key::Make(device.name, device.incarnation + 1, device.name, "t").text);
  const Status restarted = call(Method::kRecvTensor, recv.SerializeAsString());
  EXPECT_TRUE(errors::IsAborted(restarted));
  EXPECT_THAT(std::string(restarted.message()),
              HasSubstr("RecvTensor expects a different device incarnation"));
  EXPECT_EQ(service.num_graphs(), 0u);
  EXPECT_EQ(worker.steps().size(), 0u);
}

TEST(StepStatsTest, WhatNoTaskCanHaveMeasuredIsRefused) {
  tensorflow::StepStats stats;
  auto* output = stats.add_dev_stats()->add_node_stats()->add_output()->mutable_tensor_description();
  output->mutable_shape()->add_dim()->set_size(-5);
  RunMetadata metadata;
  EXPECT_TRUE(errors::IsInvalidArgument(AppendStepStats(stats, 0, &metadata)));
}

}  // namespace
}  // namespace millrace
