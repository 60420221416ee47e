// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// The bytes of the calls of clients, masters and tasks, compared with those for the field numbers of
// TensorFlow's messages, and answers made with those. wire_test.cc tests the other side.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>

#include "base/notification.h"
#include "distributed/clock_offset.h"
#include "distributed/collective_messages.h"
#include "distributed/remote_session.h"
#include "distributed/remote_worker.h"
#include "distributed/task.h"
#include "distributed/wire_testing.h"
#include "graph/testing.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/protobuf/master.pb.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using wire::Bytes;
using wire::Fixed64;
using wire::FloatBytes;
using wire::Int;
using wire::Node;
using wire::SentFloat;

// Answers each method with given bytes and keeps the requests.
class ScriptedTransport : public Transport {
 public:
  void Start(RemoteCall call, Reply reply) override {
    std::string answer;
    {
      MutexLock lock(mu_);
      requests_[call.method].push_back(call.request.ToString());
      answer = answers_[call.method];
      came_.NotifyAll();
    }
    reply(Status(), MessageBytes(answer));
  }
  void Answer(Method method, std::string bytes) {
    MutexLock lock(mu_);
    answers_[method] = std::move(bytes);
  }
  // The first request of the method since the last call; some requests are sent asynchronously.
  std::string Take(Method method) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    MutexLock lock(mu_);
    while (requests_[method].empty()) {
      if (!came_.WaitUntil(mu_, deadline) && requests_[method].empty()) {
        ADD_FAILURE() << "no call of " << MethodName(method);
        return "";
      }
    }
    return std::exchange(requests_[method], {})[0];
  }
  size_t Count(Method method) {
    MutexLock lock(mu_);
    return requests_[method].size();
  }

 private:
  Mutex mu_;
  CondVar came_;
  std::map<Method, std::string> answers_ MR_GUARDED_BY(mu_);
  std::map<Method, std::vector<std::string>> requests_ MR_GUARDED_BY(mu_);
};

// The random number in a request.
template <typename Request>
uint64_t RequestId(const std::string& bytes) {
  Request request;
  EXPECT_TRUE(request.ParseFromString(bytes));
  EXPECT_NE(request.request_id(), 0);
  return static_cast<uint64_t>(request.request_id());
}

TEST(WireCallsTest, AClientDrivesASession) {
  const auto transport = std::make_shared<ScriptedTransport>();
  SessionOptions options;
  options.target = "grpc://m:1";
  RemoteSession session({transport, "m"}, options);
  const std::string h = Bytes(1, "handle");

  // CreateSession: graph 1, config 2, target 3. Here the config has soft placement 7 and graph_options 10
  // only.
  transport->Answer(Method::kCreateSession, h + Int(2, 6));
  ASSERT_EQ(session.Create(GraphDefFromText(R"(node { name: "x" op: "NoOp" device: "/job:w" })")), Status());
  const std::string created = transport->Take(Method::kCreateSession);
  const std::string graph = Bytes(1, Node("x", "NoOp", {}, "/job:w", ""));
  EXPECT_THAT(created, StartsWith(graph));
  tensorflow::CreateSessionRequest create;
  ASSERT_TRUE(create.ParseFromString(created));
  EXPECT_EQ(created, graph + Bytes(2, create.config().SerializeAsString()) + Bytes(3, "grpc://m:1"));

  // ExtendSession: graph 2, known version 3. The response: new version 4.
  transport->Answer(Method::kExtendSession, Int(4, 7));
  for (const uint64_t version : {6, 7}) {
    ASSERT_EQ(session.Extend(GraphDefFromText(R"(node { name: "y" op: "NoOp" device: "/job:w" })")),
              Status());
    EXPECT_EQ(transport->Take(Method::kExtendSession),
              h + Bytes(2, Node("y", "NoOp", {}, "/job:w", "")) + Int(3, version));
  }

  // RunStep: feeds 2, fetches 3, targets 4, options 5, errors in the body 7, id 8.
  const std::string named = Bytes(1, "b:0") + Bytes(2, SentFloat(5));
  transport->Answer(Method::kRunStep, Bytes(1, named));
  std::vector<Tensor> out;
  ASSERT_EQ(session.Run({{"a:0", Tensor::Scalar(3.f)}}, {"b:0", "b:0"}, {"t"}, &out), Status());
  EXPECT_EQ(out[1].scalar<float>(), 5);
  const std::string run = transport->Take(Method::kRunStep);
  EXPECT_EQ(run, h + Bytes(2, Bytes(1, "a:0") + Bytes(2, SentFloat(3))) + Bytes(3, "b:0") + Bytes(4, "t") +
                     Bytes(5, "") + Int(7, 1) + Int(8, RequestId<tensorflow::RunStepRequest>(run)));
  RunOptions traced;
  traced.trace_level = RunOptions::TraceLevel::kFull;
  traced.timeout_in_ms = 50'000;
  traced.inter_op_thread_pool = 1;
  traced.output_partition_graphs = true;
  traced.report_tensor_allocations_upon_oom = true;
  ASSERT_EQ(session.Run(traced, {}, {"b:0"}, {}, &out, nullptr), Status());
  EXPECT_THAT(transport->Take(Method::kRunStep),
              HasSubstr(Bytes(5, Int(1, 3) + Int(2, 50'000) + Int(3, 1) + Int(5, 1) + Int(7, 1))));
  // Errors in the body: code 3, text 4.
  transport->Answer(Method::kRunStep, Int(3, 9) + Bytes(4, "why"));
  const Status failed = session.Run({}, {"b:0"}, {}, &out);
  EXPECT_EQ(failed.code(), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(failed.message(), "why");
  transport->Take(Method::kRunStep);

  // PartialRunSetup: feeds 2, fetches 3, targets 4, id 5. RunStep with its handle 6.
  transport->Answer(Method::kPartialRunSetup, Bytes(1, "part"));
  const auto part = session.PRunSetup({"a"}, {"b:0"}, {"t"});
  ASSERT_TRUE(part.ok()) << part.status();
  const std::string setup = transport->Take(Method::kPartialRunSetup);
  EXPECT_EQ(setup, h + Bytes(2, "a") + Bytes(3, "b:0") + Bytes(4, "t") +
                       Int(5, RequestId<tensorflow::PartialRunSetupRequest>(setup)));
  transport->Answer(Method::kRunStep, Bytes(1, named));
  ASSERT_EQ(session.PRun(*part, {}, {"b:0"}, &out), Status());
  EXPECT_THAT(transport->Take(Method::kRunStep),
              StartsWith(h + Bytes(3, "b:0") + Bytes(5, "") + Bytes(6, "part") + Int(7, 1)));
}

TEST(WireCallsTest, AClientUsesCallablesAndListsDevices) {
  const auto transport = std::make_shared<ScriptedTransport>();
  SessionOptions options;
  RemoteSession session({transport, "m"}, options);
  const std::string h = Bytes(1, "handle");
  transport->Answer(Method::kCreateSession, h);
  ASSERT_EQ(session.Create(GraphDefFromText(R"(node { name: "x" op: "NoOp" })")), Status());
  std::vector<Tensor> out;

  // MakeCallable: options 2 with feeds 1, fetches 2, targets 3, run options 4; id 3. The response: handle 1.
  transport->Answer(Method::kMakeCallable, Int(1, 12));
  CallableOptions wanted;
  wanted.feeds = {"a"};
  wanted.fetches = {"b"};
  wanted.targets = {"t"};
  // Connections 5 from 1 to 2, devices 6 and 7 by tensor, no wait for the device 8.
  wanted.tensor_connections = {{"f:1", "to"}};
  wanted.feed_devices = {{"a", "D"}};
  wanted.fetch_devices = {{"b", "E"}};
  wanted.fetch_skip_sync = true;
  const auto callable = session.MakeCallable(wanted);
  ASSERT_TRUE(callable.ok()) << callable.status();
  const std::string made = transport->Take(Method::kMakeCallable);
  EXPECT_EQ(made, h +
                      Bytes(2, Bytes(1, "a") + Bytes(2, "b") + Bytes(3, "t") + Bytes(4, "") +
                                   Bytes(5, Bytes(1, "f:1") + Bytes(2, "to")) +
                                   Bytes(6, Bytes(1, "a") + Bytes(2, "D")) +
                                   Bytes(7, Bytes(1, "b") + Bytes(2, "E")) + Int(8, 1)) +
                      Int(3, RequestId<tensorflow::MakeCallableRequest>(made)));
  // RunCallable: handle 2, feeds 3, id 4. The response: fetches 1.
  transport->Answer(Method::kRunCallable, Bytes(1, SentFloat(8)));
  const std::vector<Tensor> feeds{Tensor::Scalar(2.f)};
  ASSERT_EQ(session.RunCallable(*callable, feeds, &out, nullptr), Status());
  EXPECT_EQ(out[0].scalar<float>(), 8);
  const std::string called = transport->Take(Method::kRunCallable);
  EXPECT_EQ(called, h + Int(2, 12) + Bytes(3, SentFloat(2)) +
                        Int(4, RequestId<tensorflow::RunCallableRequest>(called)));
  ASSERT_EQ(session.ReleaseCallable(*callable), Status());
  EXPECT_EQ(transport->Take(Method::kReleaseCallable), h + Int(2, 12));

  // ListDevices. The response: those of the task 1, others 2.
  const auto device = [](const std::string& name) {
    return Bytes(1, name) + Bytes(2, "CPU") + Int(4, 99) + Fixed64(6, 7);
  };
  transport->Answer(Method::kListDevices, Bytes(2, device("b")) + Bytes(1, device("a")));
  const auto devices = session.ListDevices();
  ASSERT_TRUE(devices.ok()) << devices.status();
  ASSERT_EQ(devices->size(), 2u);
  EXPECT_EQ((*devices)[0].name, "a");
  EXPECT_EQ((*devices)[1].memory_limit, 99);
  EXPECT_EQ((*devices)[1].incarnation, 7u);
  EXPECT_EQ(transport->Take(Method::kListDevices), h);
  ASSERT_EQ(session.Close(), Status());
  EXPECT_EQ(transport->Take(Method::kCloseSession), h);
  // Reset: containers 1, filters 2.
  options.device_filters = {"/job:ps"};
  ASSERT_EQ(ResetRemotely({transport, "m"}, options, {"c", "d"}), Status());
  EXPECT_EQ(transport->Take(Method::kReset), Bytes(1, "c") + Bytes(1, "d") + Bytes(2, "/job:ps"));
}

// A master with one worker elsewhere, whose answers are made by hand.
class WireMasterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ServerOptions options;
    options.cluster = *ClusterSpec::Parse("a=localhost:1,b=localhost:2");
    options.job = "a";
    options.transfers.shared_memory_bytes = 0;
    auto made = Task::Make(options, transport_);
    ASSERT_TRUE(made.ok()) << made.status();
    task_ = *std::move(made);
    // DeviceAttributes: name 1, type 2, memory limit 4, incarnation 6.
    transport_->Answer(Method::kGetStatus, Bytes(1, attributes_));
    transport_->Answer(Method::kRegisterGraph, Bytes(1, "graph"));
    auto session = task_->NewSession({});
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
    ASSERT_EQ(session_->Create(GraphDefFromText(R"(node { name: "n" op: "NoOp" device: "/job:b" })")),
              Status());
  }
  std::string OwnDevices() {
    CancellationManager cancellation;
    std::string bytes;
    Notification answered;
    task_->Handle(Method::kGetStatus, {}, 0, cancellation, [&](const Status&, const MessageBytes& response) {
      bytes = response.ToString();
      answered.Notify();
    });
    answered.Wait();
    return bytes;
  }

  const std::string there_ = "/job:b/replica:0/task:0/device:CPU:0";
  const std::string attributes_ = Bytes(1, there_) + Bytes(2, "CPU") + Int(4, 99) + Fixed64(6, 7);
  const std::shared_ptr<ScriptedTransport> transport_ = std::make_shared<ScriptedTransport>();
  std::shared_ptr<Task> task_;
  std::unique_ptr<Session> session_;
};

TEST_F(WireMasterTest, AMasterDrivesAWorker) {
  EXPECT_EQ(transport_->Take(Method::kGetStatus), "");
  // CreateWorkerSession: handle 1, ServerDef 2 (cluster 1, job 2, task 3, protocol 5), devices 4; 5 and 6 are
  // of later versions. A message given in parts is merged.
  const std::string created = transport_->Take(Method::kCreateWorkerSession);
  const std::string h = created.substr(2, static_cast<size_t>(created[1]));
  const auto job = [](const std::string& name, const std::string& address) {
    return Bytes(1, Bytes(1, name) + Bytes(2, Int(1, 0) + Bytes(2, address)));
  };
  std::string own = OwnDevices().substr(1);
  own = own.substr(own[0] & 0x80 ? 2 : 1);
  tensorflow::CreateWorkerSessionRequest create;
  ASSERT_TRUE(create.ParseFromString(created));
  std::string incarnation = wire::Varint(6 << 3);
  incarnation += wire::Varint(static_cast<uint64_t>(create.master_incarnation()));
  EXPECT_EQ(created,
            Bytes(1, h) +
                Bytes(2, Bytes(1, job("a", "localhost:1") + job("b", "localhost:2")) + Bytes(5, "grpc")) +
                Bytes(4, own) + Bytes(4, attributes_) + Bytes(5, "/job:a/replica:0/task:0") + incarnation +
                Bytes(2, Bytes(2, "b")));

  ASSERT_EQ(session_->Run({}, {}, {"n"}, nullptr), Status());
  // RegisterGraph: session 1, graph 2, options 4, that there is a worker session 6.
  const std::string registered = transport_->Take(Method::kRegisterGraph);
  tensorflow::RegisterGraphRequest graph;
  ASSERT_TRUE(graph.ParseFromString(registered));
  const std::string nodes = graph.graph_def().SerializeAsString();
  EXPECT_THAT(nodes, HasSubstr(Bytes(1, "n") + Bytes(2, "NoOp") + Bytes(4, there_)));
  EXPECT_EQ(registered, Bytes(1, h) + Bytes(2, nodes) + Bytes(4, "") + Int(6, 1));
  // RunGraph: graph 1, step 2, ExecutorOpts 5, session 8, errors in the body 9, worker session 10, id 11, and
  // 10004, which other workers ignore: the worker may clean up.
  const std::string run = transport_->Take(Method::kRunGraph);
  tensorflow::RunGraphRequest step;
  ASSERT_TRUE(step.ParseFromString(run));
  const auto step_id = static_cast<uint64_t>(step.step_id());
  EXPECT_EQ(step_id >> 56, 1u);
  EXPECT_EQ(run, Bytes(1, "graph") + Int(2, step_id) + Bytes(5, "") + Bytes(8, h) + Int(9, 1) + Int(10, 1) +
                     Int(11, RequestId<tensorflow::RunGraphRequest>(run)) + Int(10004, 1));
  EXPECT_EQ(transport_->Take(Method::kCleanupGraph), Int(1, step_id));
  // A worker that reports in field 10003 that it has cleaned up gets no further message.
  transport_->Answer(Method::kRunGraph, Int(10003, 1));
  ASSERT_EQ(session_->Run({}, {}, {"n"}, nullptr), Status());
  transport_->Take(Method::kRunGraph);
  EXPECT_EQ(transport_->Count(Method::kCleanupGraph), 0u);
  // Errors in the body: code 5, text 6.
  transport_->Answer(Method::kRunGraph, Int(5, 9) + Bytes(6, "why"));
  const Status failed = session_->Run({}, {}, {"n"}, nullptr);
  EXPECT_EQ(failed.code(), ErrorCode::kFailedPrecondition);
  EXPECT_THAT(std::string(failed.message()), HasSubstr("why"));

  session_.reset();
  EXPECT_EQ(transport_->Take(Method::kDeregisterGraph), Bytes(1, "graph") + Bytes(2, h) + Int(3, 1));
  EXPECT_EQ(transport_->Take(Method::kDeleteWorkerSession), Bytes(1, h));
  ASSERT_EQ(task_->master().Reset({"c"}, {}), Status());
  EXPECT_EQ(transport_->Take(Method::kCleanupAll), Bytes(1, "c"));
}

// The worker's clock is an hour ahead; its node runs 5 ms after the arrival of the request.
TEST_F(WireMasterTest, TracesOfAllTasksAreOnOneClock) {
  const int64_t now = std::chrono::duration_cast<std::chrono::microseconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  const auto there = static_cast<uint64_t>(now + int64_t{3600} * 1000 * 1000);
  // StepStats 2: devices 1 with name 1 and nodes 2 (name 1, start 2, length 5).
  const std::string node = Bytes(1, "n") + Int(2, there + 5000) + Int(5, 1000);
  transport_->Answer(Method::kRunGraph, Bytes(2, Bytes(1, Bytes(1, there_) + Bytes(2, node))) +
                                            Int(10001, there) + Int(10002, there));
  RunOptions options;
  options.trace_level = RunOptions::TraceLevel::kFull;
  RunMetadata metadata;
  std::vector<Tensor> none;
  ASSERT_EQ(session_->Run(options, {}, {}, {"n"}, &none, &metadata), Status());
  const NodeStats* found = nullptr;
  for (const DeviceStats& device : metadata.devices) {
    for (const NodeStats& stats : device.nodes) {
      if (device.device == there_ && stats.node == "n") found = &stats;
    }
  }
  ASSERT_NE(found, nullptr);
  // The test may be stopped for a while between `now` and the step.
  EXPECT_NEAR(static_cast<double>(found->start_ns), 5e6, 2e10);
  EXPECT_EQ(found->end_ns - found->start_ns, 1'000'000);
}

TEST(ClockOffsetTest, TheCallThatWasLeastOnItsWayCounts) {
  ClockOffset clock;
  EXPECT_EQ(clock.Micros(), 0);
  clock.Add({1000, 6600, 6700, 2000});  // 900 us on its way, 700 of them there
  EXPECT_EQ(clock.Micros(), 5150);
  clock.Add({3000, 8010, 9010, 4020});  // 20 us
  EXPECT_EQ(clock.Micros(), 5000);
  clock.Add({5000, 10'300, 10'400, 5500});  // 400 us
  EXPECT_EQ(clock.Micros(), 5000);
  for (const ClockOffset::Call& odd : {ClockOffset::Call{0, 1, 1, 2},
                                       {10, 5, 4, 11},
                                       {10, 5, 50, 11},
                                       {10, INT64_MAX, INT64_MAX, 11},
                                       {10, INT64_MIN, 1, 11}})
    clock.Add(odd);
  EXPECT_EQ(clock.Micros(), 5000);
  // Old samples are dropped.
  for (int i = 0; i < 100; ++i) clock.Add({1000, 8100, 8100, 1200});
  EXPECT_EQ(clock.Micros(), 7000);
}

TEST(WireCallsTest, ATaskPullsATensor) {
  ScriptedTransport transport;
  transport.Answer(Method::kRecvTensor, Bytes(1, SentFloat(2)) + Int(3, 1));
  float value = 0;
  RecvTensorFrom(transport, nullptr, "/job:b/replica:0/task:0", 4, {"key", 1}, nullptr,
                 [&](const Status& status, const Tensor& tensor, bool is_dead) {
                   ASSERT_EQ(status, Status());
                   EXPECT_FALSE(is_dead);
                   value = tensor.scalar<float>();
                 });
  EXPECT_EQ(value, 2);
  const std::string request = transport.Take(Method::kRecvTensor);
  EXPECT_EQ(request, Int(1, 4) + Bytes(2, "key") + Int(7, RequestId<tensorflow::RecvTensorRequest>(request)));
}

TEST(WireCallsTest, MembersOfCollectivesMeet) {
  ScriptedTransport transport;
  TransportCollectivePeers peers(transport);
  CancellationManager cancellation;
  const std::string a = "/job:w/replica:0/task:0/device:CPU:0", b = "/job:w/replica:0/task:1/device:CPU:0";
  CollectiveMember member;
  member.name = "node";
  member.kind = CollectiveMember::Kind::kBroadcast;
  member.shape = TensorShape({3});
  member.group_key = 5;
  member.group_size = 2;
  member.instance_key = 9;
  member.device_type = "CPU";
  member.device = a;
  member.is_source = true;
  transport.Answer(Method::kCompleteGroup,
                   Int(1, 5) + Int(2, 2) + Bytes(3, "CPU") + Int(4, 2) + Bytes(5, a) + Bytes(5, b));
  peers.CompleteGroup("/job:w/replica:0/task:1", member, cancellation,
                      [&](const StatusOr<std::vector<std::string>>& devices) {
                        ASSERT_TRUE(devices.ok()) << devices.status();
                        EXPECT_EQ(*devices, (std::vector<std::string>{a, b}));
                      });
  EXPECT_EQ(transport.Take(Method::kCompleteGroup),
            Int(1, 5) + Int(2, 2) + Bytes(3, "CPU") + Bytes(4, a) + Int(5, 1));
  transport.Answer(Method::kCompleteInstance, Int(1, 9) + Int(2, 1));
  peers.CompleteInstance("/job:w/replica:0/task:1", member, cancellation, [](const StatusOr<int>& source) {
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_EQ(*source, 1);
  });
  EXPECT_EQ(transport.Take(Method::kCompleteInstance),
            Bytes(1, "node") + Int(2, 1) + Int(3, 1) + Bytes(4, Bytes(2, Int(1, 3))) + Int(5, 5) + Int(6, 2) +
                Int(7, 9) + Bytes(8, "CPU") + Bytes(10, a) + Int(11, 1));
  // Numbers from 10001 on are Millrace's own.
  transport.Answer(Method::kGetStepSequence, Bytes(1, Int(1, 77) + Int(2, 1234)));
  const auto step = peers.NextStep("/job:w/replica:0/task:1", 77, {"t", 0, 0, false});
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_EQ(step->number, 1234);
  EXPECT_FALSE(step->for_taker);
  EXPECT_EQ(transport.Take(Method::kGetStepSequence), Bytes(1, wire::Varint(77)) + Bytes(10001, "t"));
  // The bytes of a buffer are in an Any 4: its type 1, and a RecvBufRespExtra 2 with parts 1.
  transport.Answer(Method::kRecvBuf,
                   Int(2, 8) + Bytes(4, Bytes(1, "type.googleapis.com/tensorflow.RecvBufRespExtra") +
                                            Bytes(2, Bytes(1, FloatBytes(1)) + Bytes(1, FloatBytes(2)))));
  peers.Fetch({4, "key", b, a, DataType::kFloat, 2}, cancellation,
              [](const Status& status, const Tensor& tensor) {
                ASSERT_EQ(status, Status());
                EXPECT_EQ(tensor.data<float>()[1], 2);
              });
  const std::string fetched = transport.Take(Method::kRecvBuf);
  EXPECT_EQ(fetched, Int(1, 4) + Bytes(2, "key") + Int(3, 8) + Bytes(8, b) + Bytes(9, a) +
                         Int(10, RequestId<tensorflow::RecvBufRequest>(fetched)));
}

}  // namespace
}  // namespace millrace
