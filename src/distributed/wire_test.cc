// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Requests built from the field numbers of TensorFlow's messages, byte by byte, and the bytes of the answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <thread>

#include "base/notification.h"
#include "distributed/recent_requests.h"
#include "distributed/task.h"
#include "distributed/tensor_message.h"
#include "distributed/wire_testing.h"
#include "kernel/rendezvous.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace millrace {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using wire::Attr;
using wire::Bytes;
using wire::FedFloat;
using wire::Fixed64;
using wire::FloatBytes;
using wire::Int;
using wire::Node;
using wire::SentFloat;

// ---- The task

class NoNetwork : public Transport {
 public:
  void Start(RemoteCall call, Reply reply) override {
    reply(errors::Unavailable("There is no network to ", call.task), {});
  }
};

struct Answer {
  Status status = errors::Internal("no answer");
  std::string bytes;
};

class WireTest : public ::testing::Test {
 protected:
  WireTest() {
    ServerOptions options;
    options.cluster = *ClusterSpec::Parse("w=localhost:1");
    options.job = "w";
    auto made = Task::Make(options, std::make_shared<NoNetwork>());
    EXPECT_TRUE(made.ok()) << made.status();
    task_ = *std::move(made);
    FindIncarnation();
  }
  void FindIncarnation() {
    const Answer status = Call(Method::kGetStatus, "");
    const auto end = status.bytes.find('\x31');  // incarnation, the sixth field, fixed 64 bits
    for (int i = 7; i >= 0; --i)
      incarnation_ =
          incarnation_ << 8 | static_cast<unsigned char>(status.bytes[end + 1 + static_cast<size_t>(i)]);
  }
  Answer Call(Method method, const std::string& request) {
    CancellationManager cancellation;
    Answer answer;
    Notification answered;
    task_->Handle(method, MessageBytes(request), 0, cancellation,
                  [&](Status status, const MessageBytes& bytes) {
                    answer.status = std::move(status);
                    answer.bytes = bytes.ToString();
                    answered.Notify();
                  });
    answered.Wait();
    return answer;
  }
  std::string Good(Method method, const std::string& request) {
    const Answer answer = Call(method, request);
    EXPECT_EQ(answer.status, Status()) << MethodName(method);
    return answer.bytes;
  }
  std::string Key(const std::string& tensor) const {
    return Rendezvous::Key::Make(kDevice, incarnation_, kDevice, tensor).text;
  }
  // Attributes of a transfer with the client.
  std::string Transfer(const std::string& type_attr, const std::string& tensor) const {
    return Attr(type_attr, Int(6, 1)) + Attr("tensor_name", Bytes(2, tensor)) +
           Attr("send_device", Bytes(2, kDevice)) + Attr("send_device_incarnation", Int(3, incarnation_)) +
           Attr("recv_device", Bytes(2, kDevice)) + Attr("client_terminated", Int(5, 1));
  }

  const std::string kDevice = "/job:w/replica:0/task:0/device:CPU:0";
  std::shared_ptr<Task> task_;
  uint64_t incarnation_ = 0;
};

TEST_F(WireTest, GetStatusListsDevices) {
  // DeviceAttributes: name 1, type 2, memory limit 4, incarnation 6.
  EXPECT_THAT(Good(Method::kGetStatus, ""),
              HasSubstr(Bytes(1, kDevice) + Bytes(2, "CPU") + Int(4, 268435456) + Fixed64(6, incarnation_)));
}

TEST_F(WireTest, AGraphIsRegisteredRunAndDropped) {
  EXPECT_EQ(Good(Method::kCreateWorkerSession, Bytes(1, "s")), "");
  EXPECT_EQ(Good(Method::kCreateWorkerSession, Bytes(1, "s")), "");
  const std::string graph = Node("in", "_Recv", {}, kDevice, Transfer("tensor_type", "x:0")) +
                            Node("sum", "Add", {"in", "in"}, kDevice, Attr("T", Int(6, 1))) +
                            Node("out", "_Send", {"sum"}, kDevice, Transfer("T", "sum:0")) +
                            Node("kept", "_Send", {"in"}, kDevice,
                                 Attr("T", Int(6, 1)) + Attr("tensor_name", Bytes(2, "kept")) +
                                     Attr("send_device", Bytes(2, kDevice)) +
                                     Attr("send_device_incarnation", Int(3, incarnation_)) +
                                     Attr("recv_device", Bytes(2, "/job:v/replica:0/task:0/device:CPU:0")));
  const std::string registered = Good(Method::kRegisterGraph, Bytes(1, "s") + Int(6, 1) + Bytes(2, graph));
  EXPECT_EQ(registered, Bytes(1, "0000000000000001"));

  const uint64_t step = uint64_t{1} << 56 | 77;
  const std::string handles = Bytes(8, "s") + Int(10, 1) + Bytes(1, "0000000000000001") + Int(2, step);
  EXPECT_EQ(Good(Method::kRunGraph, handles + Bytes(3, Bytes(1, Key("x:0")) + Bytes(2, FedFloat(1.5f))) +
                                        Bytes(4, Key("sum:0"))),
            Bytes(1, Bytes(1, Key("sum:0")) + Bytes(2, SentFloat(3))));

  const std::string kept =
      Rendezvous::Key::Make(kDevice, incarnation_, "/job:v/replica:0/task:0/device:CPU:0", "kept").text;
  const std::string received = Good(Method::kRecvTensor, Int(1, step) + Bytes(2, kept) + Int(7, 5));
  EXPECT_EQ(received[0], '\x18');  // send_start_micros, field 3
  EXPECT_THAT(received, EndsWith(Bytes(1, SentFloat(1.5f))));
  const auto tensor = TensorFromResponse(MessageBytes(received));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->tensor.scalar<float>(), 1.5f);

  EXPECT_EQ(Good(Method::kCleanupGraph, Int(1, step)), "");
  EXPECT_TRUE(errors::IsAborted(Call(Method::kRecvTensor, Int(1, step) + Bytes(2, kept)).status));
  // Errors in the body: code 5, text 6.
  const std::string late = Good(Method::kRunGraph, handles + Int(9, 1));
  EXPECT_THAT(late, StartsWith(Int(5, 10)));
  EXPECT_THAT(late, HasSubstr("has ended at /job:w/replica:0/task:0"));

  // With field 10004 the worker cleans up and reports it in field 10003, but not while a tensor waits for its
  // receiver.
  const std::string again = Bytes(8, "s") + Int(10, 1) + Bytes(1, "0000000000000001") + Int(10004, 1) +
                            Bytes(3, Bytes(1, Key("x:0")) + Bytes(2, FedFloat(1)));
  EXPECT_EQ(Good(Method::kRunGraph, again + Int(2, step + 1) + Bytes(4, Key("sum:0"))),
            Bytes(1, Bytes(1, Key("sum:0")) + Bytes(2, SentFloat(2))));
  EXPECT_EQ(task_->worker().GetState().steps, 1u);
  EXPECT_EQ(Good(Method::kCleanupGraph, Int(1, step + 1)), "");
  EXPECT_EQ(Good(Method::kRunGraph, again + Int(2, step + 2) + Bytes(4, Key("sum:0")) + Bytes(4, kept)),
            Bytes(1, Bytes(1, Key("sum:0")) + Bytes(2, SentFloat(2))) +
                Bytes(1, Bytes(1, kept) + Bytes(2, SentFloat(1))) + Int(10003, 1));
  EXPECT_EQ(task_->worker().GetState().steps, 0u);
  EXPECT_TRUE(errors::IsAborted(Call(Method::kRecvTensor, Int(1, step + 2) + Bytes(2, kept)).status));

  EXPECT_EQ(Good(Method::kDeregisterGraph, Bytes(2, "s") + Int(3, 1) + Bytes(1, "0000000000000001")), "");
  EXPECT_EQ(Call(Method::kDeregisterGraph, Bytes(2, "s") + Int(3, 1) + Bytes(1, "0000000000000001"))
                .status.message(),
            "Graph handle is not found: 0000000000000001. Possibly, this worker just restarted.");
  EXPECT_EQ(Good(Method::kDeleteWorkerSession, Bytes(1, "s")), "");
  EXPECT_EQ(
      Call(Method::kRunGraph, handles).status.message(),
      "Session handle is not found: s. Possibly this worker (\"/job:w/replica:0/task:0\") just restarted.");
  EXPECT_EQ(Good(Method::kCleanupAll, Bytes(1, "some container")), "");
  EXPECT_EQ(task_->worker().GetState().graphs, 0u);
  EXPECT_EQ(task_->worker().GetState().steps, 0u);
}

TEST_F(WireTest, AMasterOfTensorFlowNeedsNoWorkerSession) {
  const std::string registered =
      Good(Method::kRegisterGraph, Bytes(1, "s") + Bytes(2, Node("n", "NoOp", {}, kDevice, "")));
  EXPECT_EQ(registered, Bytes(1, "0000000000000001"));
  EXPECT_EQ(task_->worker().GetState().sessions, 1u);
  EXPECT_EQ(Good(Method::kRunGraph, Bytes(8, "s") + Bytes(1, "0000000000000001") + Int(2, 9)), "");
  EXPECT_EQ(Good(Method::kDeregisterGraph, Bytes(2, "s") + Bytes(1, "0000000000000001")), "");
  EXPECT_EQ(task_->worker().GetState().sessions, 0u);
}

TEST_F(WireTest, TransfersAreLoggedWhenAsked) {
  EXPECT_EQ(Good(Method::kLogging, Int(1, 1)), "");
  Good(Method::kRegisterGraph,
       Bytes(1, "s") + Bytes(2, Node("c", "Const", {}, kDevice,
                                     Attr("dtype", Int(6, 1)) + Attr("value", Bytes(8, FedFloat(2)))) +
                                    Node("out", "_Send", {"c"}, kDevice, Transfer("T", "c:0"))));
  Good(Method::kRunGraph, Bytes(8, "s") + Bytes(1, "0000000000000001") + Int(2, 9));
  Good(Method::kRecvTensor, Int(1, 9) + Bytes(2, Key("c:0")));
  // LabeledStepStats 1: step 1, StepStats 2.
  const std::string logged = Good(Method::kLogging, Int(3, 9) + Int(4, 1) + Int(2, 1));
  EXPECT_THAT(logged, HasSubstr("RecvTensor"));
  EXPECT_THAT(logged, HasSubstr("c:0 from /job:w/replica:0/task:0/device:CPU:0"));
  EXPECT_EQ(Good(Method::kLogging, Int(3, 9)), Bytes(1, Int(1, 9)));
}

// A receiver that lists the "socket" channel gets an offer, unless the messages of the task are encrypted;
// one of TensorFlow, which lists none, gets the elements.
TEST_F(WireTest, OnlyReceiversThatListAChannelGetOffersByIt) {
  // TensorChannelList in an Any, field 6: channels 1 with a name 1.
  const std::string listed = Bytes(6, Bytes(1, "type.googleapis.com/tensorflow.TensorChannelList") +
                                          Bytes(2, Bytes(1, Bytes(1, "socket"))));
  for (const bool encrypted : {false, true}) {
    ServerOptions options;
    options.cluster = *ClusterSpec::Parse("w=localhost:1");
    options.job = "w";
    options.transfers.min_socket_bytes = 1;
    auto made =
        Task::Make(options, std::make_shared<NoNetwork>(),
                   Task::Network{{{"/job:w/replica:0/task:0", "localhost:1"}}, "127.0.0.1", encrypted});
    ASSERT_TRUE(made.ok()) << made.status();
    task_ = *std::move(made);
    FindIncarnation();
    Good(Method::kRegisterGraph,
         Bytes(1, "s") + Bytes(2, Node("c", "Const", {}, kDevice,
                                       Attr("dtype", Int(6, 1)) + Attr("value", Bytes(8, FedFloat(2)))) +
                                      Node("out", "_Send", {"c"}, kDevice, Transfer("T", "c:0"))));
    for (const uint64_t step : {9, 10}) {
      Good(Method::kRunGraph, Bytes(8, "s") + Bytes(1, "0000000000000001") + Int(2, step));
      const bool lists = step == 9;
      const std::string response =
          Good(Method::kRecvTensor, Int(1, step) + Bytes(2, Key("c:0")) + (lists ? listed : ""));
      if (lists && !encrypted) {
        EXPECT_THAT(response, HasSubstr("tensorflow.TensorOffer"));
        EXPECT_THAT(response, ::testing::Not(HasSubstr(SentFloat(2))));
      } else {
        EXPECT_THAT(response, EndsWith(Bytes(1, SentFloat(2))));
      }
    }
  }
}

TEST_F(WireTest, AClientDrivesASession) {
  const std::string graph = Node("x", "Placeholder", {}, "", Attr("dtype", Int(6, 1))) +
                            Node("y", "Neg", {"x"}, "", Attr("T", Int(6, 1)));
  const std::string created = Good(Method::kCreateSession, Bytes(1, graph) + Bytes(3, "grpc://localhost:1"));
  ASSERT_EQ(created.substr(0, 2), "\x0a\x10");
  ASSERT_EQ(created.size(), 18u);  // the version is 0
  const std::string handle = created.substr(2);
  const std::string session = Bytes(1, handle);

  const std::string more = Bytes(2, Node("z", "Square", {"y"}, "", Attr("T", Int(6, 1))));
  EXPECT_EQ(Good(Method::kExtendSession, session + more), Int(4, 1));
  const Answer stale = Call(Method::kExtendSession, session + more);
  EXPECT_TRUE(errors::IsAborted(stale.status));
  EXPECT_EQ(stale.status.message(), "Current version is 1 but caller expected version 0.");
  EXPECT_TRUE(errors::IsInvalidArgument(Call(Method::kExtendSession, session + more + Int(3, 1)).status));

  const std::string feed = Bytes(2, Bytes(1, "x") + Bytes(2, FedFloat(3)));
  EXPECT_THAT(Good(Method::kRunStep, session + feed + Bytes(3, "z:0") + Bytes(3, "y") + Int(7, 1)),
              StartsWith(Bytes(1, Bytes(1, "z:0") + Bytes(2, SentFloat(9))) +
                         Bytes(1, Bytes(1, "y") + Bytes(2, SentFloat(-3)))));
  // Errors in the body: code 3, text 4.
  EXPECT_THAT(Good(Method::kRunStep, session + Bytes(3, "nobody") + Int(7, 1)), StartsWith(Int(3, 3)));
  EXPECT_TRUE(errors::IsInvalidArgument(Call(Method::kRunStep, session + Bytes(3, "nobody")).status));

  EXPECT_EQ(Good(Method::kMakeCallable, session + Bytes(2, Bytes(1, "x") + Bytes(2, "y"))), "");  // handle 0
  EXPECT_THAT(Good(Method::kRunCallable, session + Bytes(3, FedFloat(4))),
              StartsWith(Bytes(1, SentFloat(-4))));
  EXPECT_EQ(Good(Method::kReleaseCallable, session), "");
  EXPECT_TRUE(errors::IsInvalidArgument(Call(Method::kReleaseCallable, session).status));

  const std::string partial =
      Good(Method::kPartialRunSetup, session + Bytes(2, "x") + Bytes(3, "y") + Bytes(3, "z"));
  ASSERT_EQ(partial[0], '\x0a');
  const std::string run = Bytes(6, partial.substr(2));
  EXPECT_THAT(Good(Method::kRunStep, session + feed + Bytes(3, "y") + run),
              StartsWith(Bytes(1, Bytes(1, "y") + Bytes(2, SentFloat(-3)))));
  EXPECT_THAT(Good(Method::kRunStep, session + Bytes(3, "z") + run),
              StartsWith(Bytes(1, Bytes(1, "z") + Bytes(2, SentFloat(9)))));

  // local_device 1.
  EXPECT_THAT(Good(Method::kListDevices, session), HasSubstr(Bytes(1, kDevice) + Bytes(2, "CPU")));
  EXPECT_EQ(Good(Method::kCloseSession, session), "");
  const Answer closed = Call(Method::kCloseSession, session);
  EXPECT_TRUE(errors::IsAborted(closed.status));
  EXPECT_EQ(closed.status.message(),
            "Session " + handle + " is not found. Possibly, this master has restarted.");
  EXPECT_EQ(Good(Method::kReset, Bytes(1, "c")), "");
}

TEST_F(WireTest, AnyBytesToAnyMethodAreAnswered) {
  const std::string odd[] = {"\x0a\x7f", std::string("\x0a\x03\xff\xfe\xfd", 5), "\x08",
                             std::string(1000, '\x0a')};
  for (int i = 0; i < kNumMethods; ++i) {
    const auto method = static_cast<Method>(i);
    // A field that is unknown in one request may be an error in another.
    for (const std::string& bytes : odd) Call(method, bytes);
    if (method == Method::kGetStatus || method == Method::kDescribe) continue;  // don't read their request
    EXPECT_FALSE(Call(method, "\xff\xff\xff").status.ok()) << MethodName(method);
  }
}

TEST_F(WireTest, StepsAreTracedForAsLongAsThatWasAsked) {
  Good(Method::kRegisterGraph, Bytes(1, "s") + Bytes(2, Node("n", "NoOp", {}, kDevice, "")));
  const std::string run = Bytes(8, "s") + Bytes(1, "0000000000000001");
  EXPECT_EQ(Good(Method::kRunGraph, run + Int(2, 7)), "");
  // TraceOpts 1: duration 1, a double; use_step_profiler 2.
  const auto duration = [](double seconds) {
    uint64_t bits = 0;
    std::memcpy(&bits, &seconds, sizeof(bits));
    return Fixed64(1, bits);
  };
  EXPECT_EQ(Good(Method::kTracing, Bytes(1, duration(600) + Int(2, 1))), "");
  EXPECT_EQ(Good(Method::kRunGraph, run + Int(2, 8)), "") << "the master has requested nothing";
  EXPECT_EQ(Good(Method::kTracing, ""), "");
  EXPECT_EQ(Good(Method::kRunGraph, run + Int(2, 9)), "");
  // LabeledStepStats 1: step 1, StepStats 2 with DeviceStepStats 1: device 1, NodeExecStats 2: name 1.
  EXPECT_EQ(Good(Method::kLogging, Int(3, 7)), Bytes(1, Int(1, 7)));
  const std::string logged = Good(Method::kLogging, Int(3, 8));
  EXPECT_THAT(logged, HasSubstr(Int(1, 8)));
  EXPECT_THAT(logged, HasSubstr(Bytes(1, kDevice)));
  EXPECT_THAT(logged, HasSubstr(Bytes(1, "n")));
  EXPECT_EQ(Good(Method::kLogging, Int(3, 9)), Bytes(1, Int(1, 9)));
  EXPECT_TRUE(errors::IsInvalidArgument(Call(Method::kTracing, Bytes(1, duration(-1))).status));
  EXPECT_TRUE(errors::IsInvalidArgument(Call(Method::kTracing, Bytes(1, duration(NAN))).status));
  const Status gpu = Call(Method::kTracing, Bytes(1, duration(1) + Int(5, 1))).status;
  EXPECT_EQ(gpu.code(), ErrorCode::kUnimplemented);
  EXPECT_EQ(gpu.message(), "Tracing with use_gpu_profiler");
}

TEST_F(WireTest, AMasterGetsTheRequestedCostsAndGraphs) {
  Good(Method::kRegisterGraph, Bytes(1, "s") + Bytes(2, Node("n", "NoOp", {}, kDevice, "")));
  const std::string run = Bytes(8, "s") + Bytes(1, "0000000000000001");
  // ExecutorOpts 5: record_costs 1, record_timeline 3, record_partition_graphs 4.
  const std::string costs = Good(Method::kRunGraph, run + Int(2, 7) + Bytes(5, Int(1, 1)));
  EXPECT_EQ(costs.substr(0, 1), "\x1a");  // cost_graph 3, whose nodes 1 have a name 1
  EXPECT_THAT(costs, HasSubstr(Bytes(1, "n") + Bytes(2, kDevice)));
  const std::string timeline = Good(Method::kRunGraph, run + Int(2, 8) + Bytes(5, Int(3, 1)));
  EXPECT_EQ(timeline.substr(0, 1), "\x12");  // step_stats 2
  const std::string graphs = Good(Method::kRunGraph, run + Int(2, 9) + Bytes(5, Int(4, 1)));
  EXPECT_EQ(graphs.substr(0, 1), "\x22");  // partition_graph 4
  EXPECT_THAT(graphs, HasSubstr(Bytes(1, "n") + Bytes(2, "NoOp")));
}

// RunGraph: is_partial 6, is_last_partial_run 7.
TEST_F(WireTest, AnotherMasterRunsAGraphInParts) {
  const auto doubled = [this](const std::string& name) {
    return Node("in_" + name, "_Recv", {}, kDevice, Transfer("tensor_type", name + ":0")) +
           Node("sum_" + name, "Add", {"in_" + name, "in_" + name}, kDevice, Attr("T", Int(6, 1))) +
           Node("out_" + name, "_Send", {"sum_" + name}, kDevice, Transfer("T", "sum_" + name + ":0"));
  };
  Good(Method::kRegisterGraph, Bytes(1, "s") + Bytes(2, doubled("x") + doubled("y")));
  const uint64_t step = uint64_t{1} << 56 | 99;
  const std::string part = Bytes(8, "s") + Bytes(1, "0000000000000001") + Int(6, 1);
  const auto feed = [this](const std::string& name, float value) {
    return Bytes(3, Bytes(1, Key(name + ":0")) + Bytes(2, FedFloat(value)));
  };
  const auto fetched = [this](const std::string& name, float value) {
    return Bytes(1, Bytes(1, Key("sum_" + name + ":0")) + Bytes(2, SentFloat(value)));
  };
  EXPECT_EQ(Good(Method::kRunGraph, part + Int(2, step) + feed("x", 2) + Bytes(4, Key("sum_x:0"))),
            fetched("x", 4));
  EXPECT_EQ(task_->worker().GetState().steps, 1u);
  EXPECT_EQ(
      Good(Method::kRunGraph, part + Int(2, step) + Int(7, 1) + feed("y", 3) + Bytes(4, Key("sum_y:0"))),
      fetched("y", 6));
  EXPECT_EQ(Good(Method::kCleanupGraph, Int(1, step)), "");
  EXPECT_EQ(task_->worker().GetState().steps, 0u);

  // A part that waits for a tensor that never comes is ended by its caller, and the step with it.
  CancellationManager caller;
  Status waited;
  Notification answered;
  task_->Handle(Method::kRunGraph, MessageBytes(part + Int(2, step + 1) + Bytes(4, Key("sum_x:0"))), 0,
                caller, [&](Status status, const MessageBytes&) {
                  waited = std::move(status);
                  answered.Notify();
                });
  EXPECT_FALSE(answered.HasBeenNotified());
  caller.StartCancel();
  answered.Wait();
  EXPECT_TRUE(errors::IsCancelled(waited)) << waited;
  const Answer later =
      Call(Method::kRunGraph, part + Int(2, step + 1) + Int(7, 1) + Bytes(4, Key("sum_y:0")));
  EXPECT_TRUE(errors::IsCancelled(later.status)) << later.status;
  // A bad feed of the first part, and errors in the body.
  const std::string bad = Bytes(3, Bytes(1, "no key") + Bytes(2, FedFloat(1)));
  EXPECT_TRUE(
      errors::IsInvalidArgument(Call(Method::kRunGraph, part + Int(2, step + 2) + Int(7, 1) + bad).status));
  EXPECT_THAT(Good(Method::kRunGraph, part + Int(2, step + 3) + Int(9, 1) + bad), StartsWith(Int(5, 3)));
  for (uint64_t i = 1; i <= 3; ++i) Good(Method::kCleanupGraph, Int(1, step + i));
  EXPECT_EQ(task_->worker().GetState().steps, 0u);
}

TEST_F(WireTest, APartThatWaitsIsToldThatTheTaskEnds) {
  Good(Method::kRegisterGraph,
       Bytes(1, "s") + Bytes(2, Node("in", "_Recv", {}, kDevice, Transfer("tensor_type", "x:0")) +
                                    Node("out", "_Send", {"in"}, kDevice, Transfer("T", "y:0"))));
  const std::string part = Bytes(8, "s") + Bytes(1, "0000000000000001") + Int(6, 1);
  CancellationManager caller;
  Status waited;
  Notification answered;
  task_->Handle(Method::kRunGraph, MessageBytes(part + Int(2, 99) + Bytes(4, Key("y:0"))), 0, caller,
                [&](Status status, const MessageBytes&) {
                  waited = std::move(status);
                  answered.Notify();
                });
  EXPECT_FALSE(answered.HasBeenNotified());
  task_->Stop();
  answered.Wait();
  EXPECT_EQ(waited, errors::Unavailable("Task /job:w/replica:0/task:0 ends"));
}

// RunStep: id 8; PartialRunSetup: 5; MakeCallable: 3; RunCallable: 4.
TEST_F(WireTest, ARequestToTheMasterThatComesTwiceTakesEffectOnce) {
  const std::string created =
      Good(Method::kCreateSession, Bytes(1, Node("x", "NoOp", {}, "", "")) + Bytes(3, "grpc://localhost:1"));
  const std::string h = created.substr(0, 2 + static_cast<size_t>(created[1]));
  const std::string run = h + Bytes(4, "x") + Int(8, 77);
  Good(Method::kRunStep, run);
  const std::string setup = h + Bytes(4, "x") + Int(5, 78);
  Good(Method::kPartialRunSetup, setup);
  const std::string make = h + Bytes(2, Bytes(3, "x")) + Int(3, 79);
  const std::string handle = Good(Method::kMakeCallable, make);
  ASSERT_EQ(handle, "") << "the first callable of a session has the handle 0, which is not written";
  const std::string call = h + Int(2, 0) + Int(4, 80);
  Good(Method::kRunCallable, call);
  const auto again = [this](Method method, const std::string& request) {
    const Status status = Call(method, request).status;
    EXPECT_TRUE(errors::IsAborted(status)) << status;
    EXPECT_THAT(std::string(status.message()), StartsWith(StrCat("The same ", MethodName(method),
                                                                 " (Master) request was received twice. ")));
  };
  again(Method::kRunStep, run);
  again(Method::kPartialRunSetup, setup);
  again(Method::kMakeCallable, make);
  again(Method::kRunCallable, call);
}

TEST_F(WireTest, ARequestThatComesTwiceTakesEffectOnce) {
  Good(Method::kRegisterGraph, Bytes(1, "s") + Bytes(2, Node("n", "NoOp", {}, kDevice, "")));
  const std::string run = Bytes(8, "s") + Bytes(1, "0000000000000001") + Int(2, 7) + Int(11, 555);
  EXPECT_EQ(Good(Method::kRunGraph, run), "");
  const Status again = Call(Method::kRunGraph, run).status;
  EXPECT_TRUE(errors::IsAborted(again));
  EXPECT_EQ(
      again.message(),
      "The same RunGraph (Worker) request was received twice. graph_handle: \"0000000000000001\" step_id: "
      "7 session_handle: \"s\" request_id: 555");
  const std::string recv = Int(1, 9) + Bytes(2, Key("c:0")) + Int(7, 556);
  CancellationManager gone;
  gone.StartCancel();
  Notification answered;
  task_->Handle(Method::kRecvTensor, MessageBytes(recv), 0, gone,
                [&](const Status&, const MessageBytes&) { answered.Notify(); });
  answered.Wait();
  const Status twice = Call(Method::kRecvTensor, recv).status;
  EXPECT_TRUE(errors::IsAborted(twice));
  EXPECT_THAT(std::string(twice.message()),
              StartsWith("The same RecvTensor (GrpcWorker) request was received twice. step_id: 9"));
  RecentRequests few(2);
  const tensorflow::RecvTensorRequest any;
  for (const int64_t id : {1, 2, 3, 1, 0, 0}) EXPECT_EQ(few.CheckNew(id, "X", any), Status()) << id;
  EXPECT_TRUE(errors::IsAborted(few.CheckNew(3, "X", any)));
}

TEST_F(WireTest, MembersOfCollectivesMeet) {
  // CompleteGroup: key 1, size 2, type 3, devices 4. The response: key 1, size 2, type 3, tasks 4, devices 5,
  // their tasks 6.
  EXPECT_EQ(Good(Method::kCompleteGroup, Int(1, 5) + Int(2, 1) + Bytes(3, "CPU") + Bytes(4, kDevice)),
            Int(1, 5) + Int(2, 1) + Bytes(3, "CPU") + Int(4, 1) + Bytes(5, kDevice) +
                Bytes(6, "/job:w/replica:0/task:0"));
  // CompleteInstance: name 1, type 2, dtype 3, shape 4, group 5, size 6, instance 7, device type 8, device
  // 10, source 11. The response: instance 1, rank of the source 2.
  EXPECT_EQ(Good(Method::kCompleteInstance, Bytes(1, "b") + Int(2, 1) + Int(3, 1) + Bytes(4, "") + Int(5, 5) +
                                                Int(6, 1) + Int(7, 9) + Bytes(8, "CPU") + Bytes(10, kDevice) +
                                                Int(11, 1)),
            Int(1, 9));
  // GetStepSequence: keys 1. The response: sequences 1 of key 1 and step 2.
  const std::string first = Good(Method::kGetStepSequence, Int(1, 77));
  EXPECT_EQ(first.substr(2, 3), Int(1, 77) + "\x10");
  EXPECT_EQ(Good(Method::kGetStepSequence, Int(1, 77)), first) << "no step of the leader has ended";
  // RecvBuf: step 1, key 2, bytes 3, devices 8 and 9, id 10, incarnation 11.
  const auto buffer = [&](uint64_t incarnation) {
    return Int(1, 4) + Bytes(2, "k") + Int(3, 4) + Bytes(8, kDevice) + Bytes(9, kDevice) + Int(10, 3) +
           Int(11, incarnation);
  };
  const Status other = Call(Method::kRecvBuf, buffer(incarnation_ ^ 1)).status;
  EXPECT_EQ(other.code(), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(other.message(),
            StrCat("RecvBuf expects a different device incarnation: ", incarnation_ ^ 1, " vs. ",
                   incarnation_, ". Your worker job that contains the device (\"", kDevice,
                   "\") was probably restarted. Check your worker job for the reason why it was restarted."));
}

TEST_F(WireTest, AMemberTakesTheBufferOfAnother) {
  const auto step = task_->worker().collectives().Begin(4, "");
  ASSERT_TRUE(step.ok()) << step.status();
  const std::string other = "/job:w/replica:0/task:1/device:CPU:0";
  const auto request = [&](const std::string& key, uint64_t bytes, uint64_t id) {
    return Int(1, 4) + Bytes(2, key) + Int(3, bytes) + Bytes(8, kDevice) + Bytes(9, other) + Int(10, id) +
           Int(11, incarnation_);
  };
  std::vector<Status> taken;
  const auto provide = [&](const std::string& key, Tensor buffer) {
    (*step)->Provide(key, kDevice, other, std::move(buffer),
                     [&taken](Status status) { taken.push_back(std::move(status)); });
  };
  // The response: number of bytes 2; an Any 4 of type 1, whose value 2 is a RecvBufRespExtra: parts 1.
  const auto response = [](uint64_t size, const std::string& extra) {
    return (size > 0 ? Int(2, size) : "") +
           Bytes(4, Bytes(1, "type.googleapis.com/tensorflow.RecvBufRespExtra") + extra);
  };
  provide("k", Tensor::Vector(std::vector<float>{1, 2}));
  EXPECT_TRUE(taken.empty());
  EXPECT_EQ(Good(Method::kRecvBuf, request("k", 8, 3)),
            response(8, Bytes(2, Bytes(1, FloatBytes(1) + FloatBytes(2)))));
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0], Status());
  // Requested before it is available.
  std::string late;
  std::thread asking([&] { late = Good(Method::kRecvBuf, request("later", 4, 4)); });
  provide("later", Tensor::Vector(std::vector<float>{5}));
  asking.join();
  EXPECT_EQ(late, response(4, Bytes(2, Bytes(1, FloatBytes(5)))));
  provide("none", Tensor::Vector(std::vector<float>{}));
  const std::string none = Good(Method::kRecvBuf, request("none", 0, 5));
  EXPECT_TRUE(none == response(0, "") || none == response(0, Bytes(2, Bytes(1, "")))) << none;
  provide("odd", Tensor::Vector(std::vector<float>{5}));
  const Status odd = Call(Method::kRecvBuf, request("odd", 8, 6)).status;
  EXPECT_EQ(odd.message(), "RecvBuf requests 8 bytes, but the buffer has 4");
  const Status twice = Call(Method::kRecvBuf, request("odd", 8, 6)).status;
  EXPECT_TRUE(errors::IsAborted(twice)) << twice;
  task_->worker().collectives().End(4, errors::Aborted("over"));
  const Status over = Call(Method::kRecvBuf, request("other", 4, 7)).status;
  EXPECT_THAT(std::string(over.message()), HasSubstr("over"));
}

// ---- Tensors

TEST(TensorMessageTest, AnyFormOfAResponseIsRead) {
  const std::string shape = Bytes(2, Bytes(2, Int(1, 2)));
  const std::string content = FloatBytes(1) + FloatBytes(2);
  const std::string forms[] = {
      Bytes(1, Int(1, 1) + shape + Bytes(4, content)),
      Int(2, 0) + Int(3, 12345) + Bytes(1, Int(1, 1) + shape + Int(3, 0) + Bytes(4, content)),
      Bytes(1, Int(1, 1) + shape + Bytes(4, content)) + Int(3, 7) + Int(5, 1),
      Bytes(1, shape + Int(1, 1) + Bytes(4, content)),
      Bytes(1, Bytes(4, content) + Int(1, 1) + shape),
      Bytes(1, Int(1, 1) + shape + Bytes(5, content)),
      Bytes(1, Int(1, 1) + shape + Bytes(4, content)) + Bytes(4, ""),
  };
  for (const std::string& form : forms) {
    // In one piece, and cut at each position.
    for (size_t cut = 0; cut < form.size(); ++cut) {
      MessageBytes bytes(form.substr(0, cut));
      bytes.Append(form.substr(cut));
      const auto received = TensorFromResponse(bytes);
      ASSERT_TRUE(received.ok()) << received.status();
      EXPECT_FALSE(received->is_dead);
      ASSERT_EQ(received->tensor.shape(), TensorShape({2}));
      EXPECT_EQ(received->tensor.data<float>()[0], 1);
      EXPECT_EQ(received->tensor.data<float>()[1], 2);
    }
  }
}

TEST(TensorMessageTest, DeadEmptyAndOddTensorsTravel) {
  const auto dead = TensorToResponse(Tensor(), true, 5);
  ASSERT_TRUE(dead.ok());
  EXPECT_EQ(dead->ToString(), Int(2, 1) + Int(3, 5));
  EXPECT_TRUE(TensorFromResponse(*dead)->is_dead);
  const Tensor tensors[] = {Tensor(DataType::kFloat, TensorShape({0, 3})),
                            Tensor::Vector({true, false, true}),
                            Tensor::Vector<std::string>({"a", "", std::string(3000, 'b')}),
                            Tensor::Vector(std::vector<double>(500, 0.25))};
  for (const Tensor& tensor : tensors) {
    const auto bytes = TensorToResponse(tensor, false, 1);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    const auto back = TensorFromResponse(*bytes);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->tensor.shape(), tensor.shape());
    EXPECT_EQ(back->tensor.ToString(), tensor.ToString());
  }
}

TEST(TensorMessageTest, WrongSizesAreErrors) {
  const std::string shape = Bytes(2, Bytes(2, Int(1, 2)));
  for (const std::string& wrong :
       {Bytes(1, Int(1, 1) + shape + Bytes(4, "123")), Bytes(1, Int(1, 99) + shape + Bytes(4, "12345678")),
        Bytes(1, Int(1, 1) + shape).substr(0, 5), std::string(),
        Bytes(1, Int(1, 1) + Bytes(2, Bytes(2, Int(1, uint64_t{1} << 62))) + Bytes(4, "12345678"))}) {
    EXPECT_FALSE(TensorFromResponse(MessageBytes(wrong)).ok()) << testing::PrintToString(wrong);
  }
}

}  // namespace
}  // namespace millrace
