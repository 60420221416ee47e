// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Servers in one process that communicate by gRPC over loopback, and sessions on them.
#include <gmock/gmock.h>
#include <grpc/grpc.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <set>
#include <thread>

#include "distributed/task.h"
#include "graph/testing.h"
#include "millrace/client_session.h"
#include "millrace/cluster.h"
#include "millrace/ops.h"
#include "rpc/cluster_testing.h"
#include "rpc/grpc_listener.h"
#include "rpc/grpc_transport.h"
#include "rpc/register.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/protobuf/config.pb.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// v and its sum are at the ps, x and y at the worker.
constexpr char kGraph[] = R"(
  node { name: "v" op: "VarHandleOp" device: "/job:ps/task:0" attr { key: "dtype" value { type: DT_FLOAT } }
         attr { key: "shape" value { shape {} } } attr { key: "shared_name" value { s: "v" } } }
  node { name: "x" op: "Placeholder" device: "/job:worker/task:0" attr { key: "dtype" value { type: DT_FLOAT } } }
  node { name: "init" op: "AssignVariableOp" input: "v" input: "x" device: "/job:ps/task:0"
         attr { key: "dtype" value { type: DT_FLOAT } } }
  node { name: "add" op: "AssignAddVariableOp" input: "v" input: "x" device: "/job:ps/task:0"
         attr { key: "dtype" value { type: DT_FLOAT } } }
  node { name: "get" op: "ReadVariableOp" input: "v" input: "^add" device: "/job:ps/task:0"
         attr { key: "dtype" value { type: DT_FLOAT } } }
  node { name: "read" op: "ReadVariableOp" input: "v" device: "/job:ps/task:0"
         attr { key: "dtype" value { type: DT_FLOAT } } }
  node { name: "y" op: "Mul" input: "get" input: "x" device: "/job:worker/task:0"
         attr { key: "T" value { type: DT_FLOAT } } }
  node { name: "z" op: "Square" input: "y" device: "/job:worker/task:1"
         attr { key: "T" value { type: DT_FLOAT } } }
  node { name: "checked" op: "CheckNumerics" input: "x" device: "/job:ps/task:0"
         attr { key: "T" value { type: DT_FLOAT } } attr { key: "message" value { s: "bad" } } }
  node { name: "q" op: "FIFOQueueV2" device: "/job:ps/task:0" attr { key: "component_types" value { list { type: DT_FLOAT } } } 
         attr { key: "shapes" value { list { } } } attr { key: "shared_name" value { s: "q" } } }
  node { name: "take" op: "QueueDequeueV2" input: "q" device: "/job:ps/task:0"
         attr { key: "component_types" value { list { type: DT_FLOAT } } } }
  node { name: "taken" op: "Identity" input: "take" device: "/job:worker/task:0" attr { key: "T" value { type: DT_FLOAT } } })";

Session::Feeds X(float x) { return {{"x", Tensor::Scalar(x)}}; }

class RpcTest : public ::testing::Test {
 protected:
  RpcTest() { EXPECT_EQ(RegisterGrpc(), Status()); }
  StatusOr<std::unique_ptr<Session>> NewSessionAt(const std::string& target, bool messages) {
    SessionOptions options;
    options.target = target;
    if (messages) options.config = ConfigWithMessages();
    MR_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, NewSession(options));
    MR_RETURN_IF_ERROR(session->Create(GraphDefFromText(kGraph)));
    return session;
  }
  static StatusOr<float> Fetch(Session& session, const Session::Feeds& feeds, const std::string& name) {
    std::vector<Tensor> out;
    MR_RETURN_IF_ERROR(session.Run(feeds, {name}, {}, &out));
    return out[0].scalar<float>();
  }
};

// Both ways to the master: by messages and by calls.
class RpcSessionTest : public RpcTest, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Ways, RpcSessionTest, ::testing::Bool());

TEST_P(RpcSessionTest, OneGraphRunsOnThreeTasks) {
  TestCluster cluster({{"ps", 1}, {"worker", 2}});
  const auto session = NewSessionAt(cluster.target("worker", 0), GetParam());
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_EQ((*session)->Run(X(3), {}, {"init"}, nullptr), Status());
  EXPECT_EQ(Fetch(**session, X(2), "y").value_or(-1), 10);
  EXPECT_EQ(Fetch(**session, X(2), "z").value_or(-1), 196);
  std::vector<Tensor> out;
  ASSERT_EQ((*session)->Run(X(1), {"read", "x", "read:0"}, {}, &out), Status());
  EXPECT_EQ(out[0].scalar<float>(), 7);
  EXPECT_EQ(out[1].scalar<float>(), 1);
  EXPECT_EQ(out[2].scalar<float>(), 7);
  const auto devices = (*session)->ListDevices();
  ASSERT_TRUE(devices.ok()) << devices.status();
  EXPECT_EQ(devices->size(), 3u);
  const Status bad = Fetch(**session, X(NAN), "checked").status();
  EXPECT_TRUE(errors::IsInvalidArgument(bad)) << bad;
  EXPECT_THAT(std::string(bad.message()), StartsWith("From /job:ps/replica:0/task:0:\nbad"));
  EXPECT_EQ((*session)->Close(), Status());
  EXPECT_EQ(Fetch(**session, X(1), "y").status().message(), "Session has been closed.");
}

TEST_P(RpcSessionTest, SessionsShareTheVariablesOfTheirCluster) {
  TestCluster cluster({{"ps", 1}, {"worker", 2}});
  const auto a = NewSessionAt(cluster.target("worker", 0), GetParam());
  const auto b = NewSessionAt(cluster.target("worker", 1), GetParam());
  ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
  ASSERT_EQ((*a)->Run(X(5), {}, {"init"}, nullptr), Status());
  EXPECT_EQ(Fetch(**b, {}, "read").value_or(-1), 5);
  SessionOptions options;
  options.target = cluster.target("worker", 0);
  options.isolate_session_state = true;
  const auto alone = NewSession(options);
  ASSERT_TRUE(alone.ok()) << alone.status();
  ASSERT_EQ((*alone)->Create(GraphDefFromText(kGraph)), Status());
  const Status none = Fetch(**alone, {}, "read").status();
  EXPECT_TRUE(errors::IsFailedPrecondition(none)) << none;
  options.isolate_session_state = false;
  ASSERT_EQ(Reset(options, {}), Status());
  const auto after = NewSessionAt(cluster.target("worker", 1), GetParam());
  ASSERT_TRUE(after.ok()) << after.status();
  const Status cleared = Fetch(**after, {}, "read").status();
  EXPECT_TRUE(errors::IsFailedPrecondition(cleared)) << cleared;
}

TEST_P(RpcSessionTest, CallablesConnectTensorsOfDifferentTasks) {
  TestCluster cluster({{"ps", 1}, {"worker", 2}});
  const auto made = NewSessionAt(cluster.target("worker", 0), GetParam());
  ASSERT_TRUE(made.ok()) << made.status();
  Session& session = **made;
  ASSERT_EQ(session.Run(X(3), {}, {"init"}, nullptr), Status());
  CallableOptions wanted;
  wanted.fetches = {"checked"};
  wanted.tensor_connections = {{"read", "x"}};  // from the ps
  const auto callable = session.MakeCallable(wanted);
  ASSERT_TRUE(callable.ok()) << callable.status();
  std::vector<Tensor> out;
  ASSERT_EQ(session.RunCallable(*callable, {}, &out, nullptr), Status());
  EXPECT_EQ(out[0].scalar<float>(), 3);
  wanted.tensor_connections = {{"checked", "x"}};
  const Status cycle = session.MakeCallable(wanted).status();
  EXPECT_TRUE(errors::IsInvalidArgument(cycle)) << cycle;
  EXPECT_THAT(std::string(cycle.message()), ::testing::HasSubstr("would create a cycle."));
  // As in TensorFlow.
  wanted.tensor_connections.clear();
  wanted.feeds = {"x"};
  wanted.feed_devices = {{"x", "/job:worker/replica:0/task:0/device:CPU:0"}};
  const Status device = session.MakeCallable(wanted).status();
  EXPECT_EQ(device.code(), ErrorCode::kUnimplemented) << device;
  EXPECT_THAT(std::string(device.message()), ::testing::HasSubstr("when using a remote session"));
}

TEST_P(RpcSessionTest, CallablesPartialRunsExtensionsAndTraces) {
  TestCluster cluster({{"ps", 1}, {"worker", 2}});
  const auto made = NewSessionAt(cluster.target("worker", 0), GetParam());
  ASSERT_TRUE(made.ok()) << made.status();
  Session& session = **made;
  ASSERT_EQ(session.Run(X(0), {}, {"init"}, nullptr), Status());
  CallableOptions wanted;
  wanted.feeds = {"x"};
  wanted.fetches = {"z", "y"};
  const auto callable = session.MakeCallable(wanted);
  ASSERT_TRUE(callable.ok()) << callable.status();
  for (int i = 1; i <= 3; ++i) {
    std::vector<Tensor> out;
    const std::vector<Tensor> feeds{Tensor::Scalar(2.f)};
    ASSERT_EQ(session.RunCallable(*callable, feeds, &out, nullptr), Status());
    const float y = 2.f * static_cast<float>(2 * i);
    EXPECT_EQ(out[1].scalar<float>(), y);
    EXPECT_EQ(out[0].scalar<float>(), y * y);
  }
  EXPECT_EQ(session.ReleaseCallable(*callable), Status());
  EXPECT_TRUE(errors::IsInvalidArgument(session.RunCallable(*callable, {}, nullptr, nullptr)));

  ASSERT_EQ(session.Extend(GraphDefFromText(R"(
    node { name: "more" op: "Neg" input: "z" device: "/job:ps/task:0" attr { key: "T" value { type: DT_FLOAT } } })")),
            Status());
  const auto handle = session.PRunSetup({"x"}, {"more", "y"}, {});
  ASSERT_TRUE(handle.ok()) << handle.status();
  std::vector<Tensor> out;
  ASSERT_EQ(session.PRun(*handle, X(1), {"y"}, &out), Status());
  EXPECT_EQ(out[0].scalar<float>(), 7);
  ASSERT_EQ(session.PRun(*handle, {}, {"more"}, &out), Status());
  EXPECT_EQ(out[0].scalar<float>(), -49);

  RunOptions options;
  options.trace_level = RunOptions::TraceLevel::kFull;
  options.output_partition_graphs = true;
  RunMetadata metadata;
  ASSERT_EQ(session.Run(options, X(1), {"z"}, {}, &out, &metadata), Status());
  EXPECT_EQ(metadata.partition_graphs.size(), 3u);
  bool at_ps = false, at_other = false;
  for (const DeviceStats& device : metadata.devices) {
    for (const NodeStats& node : device.nodes) {
      at_ps = at_ps || (node.node == "add" && device.device == "/job:ps/replica:0/task:0/device:CPU:0");
      at_other =
          at_other || (node.node == "z" && device.device == "/job:worker/replica:0/task:1/device:CPU:0");
    }
  }
  EXPECT_TRUE(at_ps && at_other);
}

TEST_P(RpcSessionTest, AStepThatWaitsIsStoppedByItsTimeoutByCancellingAndByClosing) {
  TestCluster cluster({{"ps", 1}, {"worker", 2}});
  const auto made = NewSessionAt(cluster.target("worker", 0), GetParam());
  ASSERT_TRUE(made.ok()) << made.status();
  Session& session = **made;
  RunOptions options;
  options.timeout_in_ms = 100;
  std::vector<Tensor> out;
  const Status late = session.Run(options, {}, {"taken"}, {}, &out, nullptr);
  EXPECT_TRUE(errors::IsDeadlineExceeded(late)) << late;
  for (const bool close : {false, true}) {
    // A task may still be stopping when the step has ended for the client.
    cluster.WaitForRuns("ps", 0, 0);
    Status status;
    std::thread waiting([&] { status = session.Run({}, {"taken"}, {}, &out); });
    cluster.WaitForRuns("ps", 0, 1);
    if (close) {
      EXPECT_EQ(session.Close(), Status());
    } else {
      session.CancelSteps();
    }
    waiting.join();
    EXPECT_TRUE(errors::IsCancelled(status)) << status;
  }
  cluster.WaitForRuns("ps", 0, 0);
}

TEST_P(RpcSessionTest, NothingOfASessionIsLeft) {
  TestCluster cluster({{"ps", 1}, {"worker", 2}});
  {
    const auto session = NewSessionAt(cluster.target("worker", 0), GetParam());
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_EQ((*session)->Run(X(3), {}, {"init"}, nullptr), Status());
    EXPECT_EQ(Fetch(**session, X(1), "z").value_or(-1), 16);
    const auto state = DescribeCluster(cluster.target("worker", 1));
    ASSERT_TRUE(state.ok()) << state.status();
    EXPECT_THAT(*state, HasSubstr("\"task\":\"/job:ps/replica:0/task:0\""));
    EXPECT_THAT(*state, HasSubstr("\"sessions\":1"));
    EXPECT_THAT(*state, HasSubstr("\"worker_sessions\":1"));
  }
  cluster.WaitForRuns("ps", 0, 0);
  const auto state = DescribeCluster(cluster.target("ps", 0));
  ASSERT_TRUE(state.ok()) << state.status();
  for (const char* none : {"\"sessions\":1", "\"worker_sessions\":1", "\"graphs\":1", "\"steps\":1"})
    EXPECT_THAT(*state, ::testing::Not(HasSubstr(none)));
}

TEST_F(RpcTest, TensorsOfAllSizesArrive) {
  TestCluster cluster({{"a", 1}, {"b", 1}});
  SessionOptions options;
  options.target = cluster.target("a", 0);
  const auto session = NewSession(options);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_EQ((*session)->Create(GraphDefFromText(R"(
    node { name: "n" op: "Placeholder" device: "/job:b" attr { key: "dtype" value { type: DT_INT32 } } }
    node { name: "from" op: "Const" device: "/job:b" attr { key: "dtype" value { type: DT_INT32 } }
           attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape {} int_val: 0 } } } }
    node { name: "step" op: "Const" device: "/job:b" attr { key: "dtype" value { type: DT_INT32 } }
           attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape {} int_val: 1 } } } }
    node { name: "range" op: "Range" input: "from" input: "n" input: "step" device: "/job:b"
           attr { key: "Tidx" value { type: DT_INT32 } } }
    node { name: "text" op: "AsString" input: "range" device: "/job:b" attr { key: "T" value { type: DT_INT32 } } }
    node { name: "got" op: "Neg" input: "range" device: "/job:a" attr { key: "T" value { type: DT_INT32 } } }
    node { name: "got_text" op: "Identity" input: "text" device: "/job:a" attr { key: "T" value { type: DT_STRING } } })")),
            Status());
  for (const int n : {0, 1, 7, 300, 5000, 1 << 20, 5 << 20}) {
    std::vector<Tensor> out;
    ASSERT_EQ((*session)->Run({{"n", Tensor::Scalar(n)}}, {"got"}, {}, &out), Status());
    ASSERT_EQ(out[0].num_elements(), n);
    for (int i = 0; i < n; ++i) ASSERT_EQ(out[0].data<int>()[i], -i);
  }
  std::vector<Tensor> out;
  ASSERT_EQ((*session)->Run({{"n", Tensor::Scalar(1200)}}, {"got_text"}, {}, &out), Status());
  for (int i = 0; i < 1200; ++i) ASSERT_EQ(out[0].data<std::string>()[i], std::to_string(i));
}

// Lists are variants: numbers and text, a list of lists, and one without elements.
TEST_F(RpcTest, ListsOfTensorsArrive) {
  TestCluster cluster({{"a", 1}, {"b", 1}});
  SessionOptions options;
  options.target = cluster.target("a", 0);
  const Scope root = Scope::NewRootScope();
  const Scope here = root.WithDevice("/job:a/task:0"), there = root.WithDevice("/job:b/task:0");
  const Output any = ops::Const(root, -1), pair = ops::Const(root, {2});
  const Output values = ops::Placeholder(there, DataType::kFloat);
  const Output list = ops::TensorListFromTensor(there, values, pair);
  const Output rows = ops::TensorListStack(here, list, pair, DataType::kFloat);
  const Output words = ops::TensorListFromTensor(there, ops::Const(there, {"a", std::string(3000, 'b')}),
                                                 ops::Const(there, Tensor::Vector(std::vector<int>{})));
  const Output text = ops::TensorListStack(here, words, any, DataType::kString);
  // Pushed at one task, popped at the other.
  const Output empty = ops::EmptyTensorList(there, any, ops::Const(there, 5), DataType::kVariant);
  const Output outer = ops::TensorListPushBack(there, empty, list);
  const auto popped = ops::TensorListPopBack(here, outer, any, DataType::kVariant);
  const Output inner = ops::TensorListStack(there, popped.tensor, pair, DataType::kFloat);
  const Output length = ops::TensorListLength(there, popped.output_handle);
  ClientSession session(root, options);
  for (const int count : {1, 3, 100'000}) {
    Tensor fed(DataType::kFloat, TensorShape({count, 2}));
    for (int i = 0; i < 2 * count; ++i) fed.data<float>()[i] = static_cast<float>(i);
    std::vector<Tensor> out;
    ASSERT_EQ(session.Run({{values, Literal(fed)}}, {rows, text, inner, length}, &out), Status());
    for (const Tensor& same : {out[0], out[2]}) {
      ASSERT_EQ(same.shape(), fed.shape());
      for (int i = 0; i < 2 * count; ++i) ASSERT_EQ(same.data<float>()[i], static_cast<float>(i));
    }
    EXPECT_EQ(out[1].data<std::string>()[0], "a");
    EXPECT_EQ(out[1].data<std::string>()[1], std::string(3000, 'b'));
    EXPECT_EQ(out[3].scalar<int32_t>(), 0);
  }
}

TEST_F(RpcTest, ALongErrorArrivesWhole) {
  TestCluster cluster({{"a", 1}, {"b", 1}});
  SessionOptions options;
  options.target = cluster.target("a", 0);
  options.config = ConfigWithMessages();
  const auto session = NewSession(options);
  ASSERT_TRUE(session.ok()) << session.status();
  tensorflow::GraphDef graph = GraphDefFromText(R"(
    node { name: "x" op: "Const" device: "/job:b" attr { key: "dtype" value { type: DT_FLOAT } }
           attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape {} float_val: nan } } } }
    node { name: "checked" op: "CheckNumerics" input: "x" device: "/job:b" attr { key: "T" value { type: DT_FLOAT } } })");
  (*graph.mutable_node(1)->mutable_attr())["message"].set_s(std::string(20000, 'm') + "end");
  ASSERT_EQ((*session)->Create(graph), Status());
  const Status status = (*session)->Run({}, {}, {"checked"}, nullptr);
  EXPECT_TRUE(errors::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("mmmend"));
}

TEST_P(RpcSessionTest, TheCostModelIncludesStepsOfOtherTasks) {
  TestCluster cluster({{"ps", 1}, {"worker", 2}});
  SessionOptions options;
  options.target = cluster.target("worker", 0);
  tensorflow::ConfigProto config;
  if (GetParam()) {
    ASSERT_TRUE(config.ParseFromString(ConfigWithMessages()));
  }
  config.mutable_graph_options()->set_build_cost_model(1);
  options = *SessionOptions::FromProto(config);
  options.target = cluster.target("worker", 0);
  const auto session = NewSession(options);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_EQ((*session)->Create(GraphDefFromText(kGraph)), Status());
  ASSERT_EQ((*session)->Run(X(0), {}, {"init"}, nullptr), Status());
  RunMetadata metadata;
  std::vector<Tensor> out;
  ASSERT_EQ((*session)->Run(RunOptions(), X(1), {"z"}, {}, &out, &metadata), Status());
  std::set<std::string> measured;
  for (const CostNode& node : metadata.cost_graph) {
    if (node.name == "add") measured.insert(node.device);
    if (node.name == "z") measured.insert(node.device);
  }
  EXPECT_THAT(measured, ::testing::ElementsAre("/job:ps/replica:0/task:0/device:CPU:0",
                                               "/job:worker/replica:0/task:1/device:CPU:0"));
}

// 1 + 2^-12 does not survive in 8 bits of mantissa.
TEST_P(RpcSessionTest, FloatsAreSentAsBfloat16OnRequest) {
  TestCluster cluster({{"ps", 1}, {"worker", 2}});
  for (const bool shortened : {false, true}) {
    tensorflow::ConfigProto config;
    if (GetParam()) {
      ASSERT_TRUE(config.ParseFromString(ConfigWithMessages()));
    }
    config.mutable_graph_options()->set_enable_bfloat16_sendrecv(shortened);
    SessionOptions options = *SessionOptions::FromProto(config);
    options.target = cluster.target("worker", 0);
    const auto session = NewSession(options);
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_EQ((*session)->Create(GraphDefFromText(R"(
      node { name: "x" op: "Const" device: "/job:ps" attr { key: "dtype" value { type: DT_FLOAT } }
             attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { dim { size: 2 } }
                    float_val: 1.000244140625 float_val: 1.5 } } } }
      node { name: "y" op: "Neg" input: "x" device: "/job:worker/task:1" attr { key: "T" value { type: DT_FLOAT } } })")),
              Status());
    std::vector<Tensor> out;
    ASSERT_EQ((*session)->Run({}, {"y"}, {}, &out), Status());
    ASSERT_EQ(out[0].dtype(), DataType::kFloat);
    EXPECT_EQ(out[0].data<float>()[0], shortened ? -1.f : -1.000244140625f);
    EXPECT_EQ(out[0].data<float>()[1], -1.5f);
  }
}

// ---- Servers

TEST_F(RpcTest, AllTasksOfAClusterInOneProcess) {
  ServerOptions options;
  EXPECT_TRUE(Server::MakeAll(options).value().empty());
  options.cluster = *ClusterSpec::Parse("worker=localhost:0,localhost:0,ps=localhost:0");
  {
    const auto servers = Server::MakeAll(options);
    ASSERT_TRUE(servers.ok()) << servers.status();
    ASSERT_EQ(servers->size(), 3u);
    EXPECT_EQ((*servers)[0]->task(), "/job:ps/replica:0/task:0");
    EXPECT_EQ((*servers)[2]->task(), "/job:worker/replica:0/task:1");
    for (const auto& server : *servers) ASSERT_EQ(server->Start(), Status());
    // The nodes are on the parameter server and on the first worker; the master has to find both.
    const auto session = NewSessionAt((*servers)[2]->target(), true);
    ASSERT_TRUE(session.ok()) << session.status();
    EXPECT_EQ((*session)->Run(X(3), {}, {"init"}, nullptr), Status());
    std::vector<Tensor> values;
    EXPECT_EQ((*session)->Run(X(5), {"y"}, {}, &values), Status());
    EXPECT_EQ(values[0].scalar<float>(), 40);  // (3 + 5) * 5
    // An address that is taken.
    const std::string& target = (*servers)[0]->target();
    options.cluster = *ClusterSpec::Parse("ps=localhost" + target.substr(target.rfind(':')));
  }
  const auto first = Server::MakeAll(options);
  ASSERT_TRUE(first.ok()) << first.status();
  const Status status = Server::MakeAll(options).status();
  EXPECT_TRUE(errors::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("/job:ps/replica:0/task:0"));
}

TEST_F(RpcTest, ASessionOutlivesItsServerWithErrors) {
  auto cluster = std::make_unique<TestCluster>(std::map<std::string, int>{{"ps", 1}, {"worker", 2}});
  const auto here = NewSessionAt(cluster->target("worker", 0), false);
  const auto remote = NewSessionAt(cluster->target("worker", 0), true);
  ASSERT_TRUE(here.ok() && remote.ok());
  ASSERT_EQ((*here)->Run(X(3), {}, {"init"}, nullptr), Status());
  cluster.reset();
  const Status ended = (*here)->Run(X(3), {}, {"init"}, nullptr);
  EXPECT_EQ(ended, errors::Unavailable("Task /job:worker/replica:0/task:0 ends"));
  const Status gone = (*remote)->Run(X(3), {}, {"init"}, nullptr);
  EXPECT_TRUE(errors::IsUnavailable(gone)) << gone;
  EXPECT_THAT(std::string(gone.message()), HasSubstr("grpc://localhost"));
}

// ---- Tasks that have died

TEST_F(RpcTest, AMissingTaskIsNamedAfterTheTimeout) {
  ServerOptions impatient;
  impatient.session_creation_timeout_in_ms = 2000;  // enough for the session that does not need it
  TestCluster cluster({{"ps", 1}, {"worker", 2}}, impatient);
  cluster.Stop("ps", 0);
  const Status status = NewSessionAt(cluster.target("worker", 0), false).status();
  EXPECT_TRUE(errors::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("/job:ps/replica:0/task:0"));
  SessionOptions options;
  options.target = cluster.target("worker", 0);
  options.device_filters = {"/job:worker"};
  const auto session = NewSession(options);
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ((*(*session)->ListDevices()).size(), 2u);
}

TEST_F(RpcTest, ATaskThatEndsFailsTheStepsThatNeedItAndARestartedOneIsKnown) {
  TestCluster cluster({{"ps", 1}, {"worker", 2}});
  const auto made = NewSessionAt(cluster.target("worker", 0), true);
  ASSERT_TRUE(made.ok()) << made.status();
  Session& session = **made;
  ASSERT_EQ(session.Run(X(3), {}, {"init"}, nullptr), Status());
  std::vector<Tensor> out;
  Status status;
  std::thread waiting([&] { status = session.Run({}, {"taken"}, {}, &out); });
  cluster.WaitForRuns("ps", 0, 1);
  cluster.Stop("ps", 0);
  waiting.join();
  EXPECT_TRUE(errors::IsUnavailable(status)) << status;
  const Status gone = Fetch(session, X(1), "y").status();
  EXPECT_TRUE(errors::IsUnavailable(gone)) << gone;
  EXPECT_THAT(std::string(gone.message()), HasSubstr("/job:ps/replica:0/task:0"));
  cluster.Start("ps", 0);
  const Status restarted = cluster.RetryWhile(
      [&] { return Fetch(session, X(1), "y").status(); },
      [](const Status& s) { return std::string(s.message()).find("just restarted") == std::string::npos; });
  EXPECT_TRUE(errors::IsUnavailable(restarted)) << restarted;
  EXPECT_THAT(std::string(restarted.message()),
              HasSubstr("Possibly this worker (\"/job:ps/replica:0/task:0\") just restarted."));
  const auto again = NewSessionAt(cluster.target("worker", 0), true);
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_EQ((*again)->Run(X(4), {}, {"init"}, nullptr), Status());
  EXPECT_EQ(Fetch(**again, X(1), "y").value_or(-1), 5);
}

TEST_F(RpcTest, AMasterThatHasRestartedDoesNotKnowTheSession) {
  TestCluster cluster({{"ps", 1}, {"worker", 2}});
  const auto session = NewSessionAt(cluster.target("worker", 0), true);
  ASSERT_TRUE(session.ok()) << session.status();
  cluster.Stop("worker", 0);
  cluster.Start("worker", 0);
  const Status status = cluster.RetryWhile([&] { return (*session)->Run(X(3), {}, {"init"}, nullptr); },
                                           [](const Status& s) { return errors::IsUnavailable(s); });
  EXPECT_TRUE(errors::IsAborted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("is not found. Possibly, this master has restarted."));
}

TEST_F(RpcTest, SessionsWithoutCallsAreClosedIfConfigured) {
  ServerOptions options;
  EXPECT_EQ(options.session_gc_in_ms, 0);
  options.session_gc_in_ms = 1000;
  TestCluster cluster({{"ps", 1}, {"worker", 2}}, options);
  const std::string target = cluster.target("worker", 0);
  const std::shared_ptr<Task> master = LocalTasks::Get().Find(target);
  ASSERT_NE(master, nullptr);
  // References: of the client, then of a step, then none.
  const auto here = NewSessionAt(target, false);
  const auto busy = NewSessionAt(target, true);
  ASSERT_TRUE(here.ok() && busy.ok()) << here.status() << busy.status();
  std::thread waiting([&] { EXPECT_FALSE(Fetch(**busy, X(1), "taken").ok()); });
  cluster.WaitForRuns("ps", 0, 1);
  const auto unused = NewSessionAt(target, true);
  ASSERT_TRUE(unused.ok()) << unused.status();
  const Status left = cluster.RetryWhile(
      [&] {
        const size_t sessions = master->master().num_sessions();
        return sessions > 2 ? errors::Unavailable(sessions, " sessions") : Status();
      },
      [](const Status& s) { return !s.ok(); });
  EXPECT_EQ(left, Status());
  EXPECT_EQ(master->master().num_sessions(), 2u);
  const Status status = (*unused)->Run(X(3), {}, {"init"}, nullptr);
  EXPECT_TRUE(errors::IsAborted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("is not found. Possibly, this master has restarted."));
  EXPECT_EQ((*here)->Run(X(3), {}, {"init"}, nullptr), Status());
  EXPECT_EQ((*busy)->Close(), Status()) << "a step in progress keeps its session";
  waiting.join();
}

// The end of gRPC would wait for up to 10 s after a large message. In a process without servers, which keep
// gRPC as well.
TEST(GrpcDeathTest, GrpcStaysWhenTheLastConnectionIsClosed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto connect_and_close = [] {
    const bool connected = ConnectWithGrpc({{"/job:w", "localhost:1"}}, TransportOptions()).ok();
    ::_exit(connected && grpc_is_initialized() == 1 ? 0 : 1);
  };
  EXPECT_EXIT(connect_and_close(), ::testing::ExitedWithCode(0), "");
}

TEST_F(RpcTest, AForkedChildGetsErrorsInsteadOfConnections) {
  TestCluster cluster({{"ps", 1}, {"worker", 2}});
  const auto session = NewSessionAt(cluster.target("worker", 0), true);
  ASSERT_TRUE(session.ok()) << session.status();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(30);  // ends the child if it waits
    int wrong = 0;
    for (const Status& refused : {NewSessionAt(cluster.target("worker", 0), true).status(),
                                  ListenWithGrpc("127.0.0.1:0", ChannelSecurity()).status()}) {
      const bool named = refused.message().find("fork()") != std::string::npos;
      if (!errors::IsFailedPrecondition(refused) || !named) ++wrong;
    }
    ::_exit(wrong);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_EQ((*session)->Run(X(3), {}, {"init"}, nullptr), Status()) << "the parent's session continues";
}

}  // namespace
}  // namespace millrace
