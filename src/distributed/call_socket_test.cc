// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// CallTransport at one end, CallServer at the other one, or a peer that violates the protocol.
#include "distributed/call_socket.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "base/notification.h"
#include "distributed/call_server.h"
#include "distributed/call_transport.h"
#include "distributed/socket_sender.h"
#include "distributed/tcp_socket.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr char kPeer[] = "/job:ps/replica:0/task:0";
constexpr milliseconds kPatience{600};
constexpr size_t kAnswer = 8000;

// Answers OpenCalls with `address`, everything else with "below".
class Below : public Transport {
 public:
  explicit Below(StatusOr<std::string> address) : address_(std::move(address)) {}
  void Start(RemoteCall call, Reply reply) override {
    if (call.method != Method::kOpenCalls) {
      ++calls_;
      return reply(Status(), MessageBytes("below"));
    }
    ++questions_;
    if (!address_.ok()) return reply(address_.status(), {});
    reply(Status(), MessageBytes(*address_));
  }
  int calls() const { return calls_; }
  int questions() const { return questions_; }

 private:
  const StatusOr<std::string> address_;
  std::atomic<int> calls_{0}, questions_{0};
};

struct Answer {
  Status status;
  std::string bytes;
};

// A call, to be waited for.
class Pending {
 public:
  Pending(Transport& transport, Method method, std::string request,
          CancellationManager* cancellation = nullptr, int64_t timeout_in_ms = 0) {
    RemoteCall call{kPeer, method, MessageBytes(std::move(request))};
    call.cancellation = cancellation;
    call.timeout_in_ms = timeout_in_ms;
    transport.Start(std::move(call), [this](Status status, const MessageBytes& bytes) {
      answer_ = {std::move(status), bytes.ToString()};
      answered_.Notify();
    });
  }
  ~Pending() { answered_.Wait(); }
  const Answer& Wait() {
    answered_.Wait();
    return answer_;
  }
  bool answered() const { return answered_.HasBeenNotified(); }

 private:
  Answer answer_;
  Notification answered_;
};

Answer Call(Transport& transport, Method method, std::string request) {
  return Pending(transport, method, std::move(request)).Wait();
}

// True when `condition` becomes true in time.
bool Becomes(const std::function<bool()>& condition) {
  const auto deadline = steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
}

class CallSocketTest : public ::testing::Test {
 protected:
  // The server's handler; the default one answers with the request.
  using Handler = std::function<void(Method, std::string, int64_t, CancellationManager&, Reply)>;
  Handler handler_ = [](Method, std::string request, int64_t, CancellationManager&, Reply reply) {
    reply(Status(), MessageBytes(std::move(request)));
  };

  // The maximum time in which a peer of the server may read nothing.
  milliseconds patience_ = kPatience;

  void Serve() {
    server_ = std::make_unique<CallServer>(
        [this](Method method, const MessageBytes& request, int64_t timeout_in_ms,
               CancellationManager& cancellation, Reply reply) {
          handler_(method, request.ToString(), timeout_in_ms, cancellation, std::move(reply));
        },
        patience_);
    sender_ = std::make_unique<SocketSender>(
        HeldTensors::Make(),
        SocketSender::Options{"127.0.0.1", 0, kPatience,
                              [this](FileDescriptor fd) { server_->Add(std::move(fd)); }},
        threads_);
    address_ = *sender_->AddressForCalls();
    Connect(address_.ToString());
    ASSERT_TRUE(Becomes([&] { return transport_->num_connections() == 1; }));
  }
  // Makes the transport, and calls once, which opens the connection.
  void Connect(StatusOr<std::string> address) {
    below_ = std::make_shared<Below>(std::move(address));
    transport_ = std::make_unique<CallTransport>(
        below_, CallTransport::Options{.peers = {{kPeer, "127.0.0.1:1"}}, .patience = kPatience});
    EXPECT_EQ(Call(*transport_, Method::kRunGraph, "first").bytes, "below");
  }
  // A peer that grants the connection, and then calls `serve`.
  void ConnectTo(std::function<void(int fd)> serve) {
    auto listening = ListenOnTcp("127.0.0.1", 0);
    ASSERT_TRUE(listening.ok());
    const int port = PortOf(*listening);
    peer_ = std::thread([of = *std::move(listening), serve = std::move(serve)] {
      const StatusOr<FileDescriptor> fd = AcceptOnTcp(of.get());
      ASSERT_TRUE(fd.ok());
      SocketRequest hello;
      ASSERT_TRUE(ReadAll(fd->get(), &hello, sizeof(hello), milliseconds(5000)).status.ok());
      EXPECT_EQ(hello.magic, SocketRequest::kCallsMagic);
      const SocketAnswer answer{SocketAnswer::kGranted, 0};
      const std::string_view text(reinterpret_cast<const char*>(&answer), sizeof(answer));
      ASSERT_TRUE(WriteAll(fd->get(), text, {}, milliseconds(5000)).ok());
      serve(fd->get());
    });
    Connect(SocketAddress{port, {1, 2}}.ToString());
    ASSERT_TRUE(Becomes([&] { return transport_->num_connections() == 1; }));
  }
  // Sends `bytes` on a connection with this token: true if the server closes it.
  bool IsClosedAfter(const SocketAddress& address, const std::string& bytes) {
    auto fd = ConnectWithTcp("127.0.0.1", address.port, milliseconds(5000));
    EXPECT_TRUE(fd.ok());
    const SocketRequest hello{SocketRequest::kCallsMagic, address.token, 0, 0, 0};
    const std::string_view text(reinterpret_cast<const char*>(&hello), sizeof(hello));
    WriteAll(fd->get(), text, bytes, milliseconds(5000)).IgnoreError("it may be closed");
    std::string read(1 << 16, '\0');
    return errors::IsUnavailable(ReadAll(fd->get(), read.data(), read.size(), milliseconds(2000)).status);
  }
  void TearDown() override {
    transport_.reset();
    if (server_ != nullptr) server_->Stop(0);
    if (sender_ != nullptr) sender_->Stop();
    if (peer_.joinable()) peer_.join();
  }

  std::shared_ptr<Below> below_;
  std::unique_ptr<CallTransport> transport_;
  std::unique_ptr<CallServer> server_;
  SocketAddress address_;
  std::thread peer_;
  std::unique_ptr<SocketSender> sender_;
  WaitingThreads threads_;  // destroyed before the sender
};

std::string Head(const CallHeader& frame) { return {reinterpret_cast<const char*>(&frame), sizeof(frame)}; }

TEST_F(CallSocketTest, CallsOfAStepTakeTheSocketAndOthersDoNot) {
  Serve();
  const int before = below_->calls();
  EXPECT_EQ(Call(*transport_, Method::kRecvTensor, "hello").bytes, "hello");
  EXPECT_EQ(Call(*transport_, Method::kCleanupGraph, "").bytes, "");
  EXPECT_EQ(below_->calls(), before);
  EXPECT_EQ(Call(*transport_, Method::kRegisterGraph, "graph").bytes, "below");
  EXPECT_EQ(Call(*transport_, Method::kRunGraph, std::string(CallSocket::kMostRequest + 1, 'x')).bytes,
            "below");
  EXPECT_EQ(below_->calls(), before + 2);
  EXPECT_EQ(below_->questions(), 1);
}

TEST_F(CallSocketTest, LargeMessagesArriveWhole) {
  std::string large(9'000'001, '\0');
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 7 + i / 1000);
  handler_ = [&](Method, std::string request, int64_t, CancellationManager&, Reply reply) {
    reply(Status(), MessageBytes(request == "large" ? large : StrCat(request.size())));
  };
  Serve();
  EXPECT_EQ(Call(*transport_, Method::kRecvTensor, "large").bytes, large);
  const std::string request(CallSocket::kMostRequest, 'y');
  EXPECT_EQ(Call(*transport_, Method::kRunGraph, request).bytes, StrCat(request.size()));
}

TEST_F(CallSocketTest, ErrorsAndTimeLimitsTravel) {
  std::atomic<int64_t> limit{-1};
  handler_ = [&](Method, const std::string&, int64_t timeout_in_ms, CancellationManager&, Reply reply) {
    limit = timeout_in_ms;
    reply(errors::Aborted("it has restarted"), {});
  };
  Serve();
  Pending call(*transport_, Method::kRunGraph, "", nullptr, 30'000);
  EXPECT_EQ(call.Wait().status, errors::Aborted("it has restarted"));
  EXPECT_EQ(limit, 30'000);
}

TEST_F(CallSocketTest, ManyCallsAtTheSameTimeGetTheirOwnAnswers) {
  Serve();
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        const std::string text = std::string(static_cast<size_t>(i % 7 * 1000), 'a') + StrCat(t, "/", i);
        EXPECT_EQ(Call(*transport_, Method::kRecvTensor, text).bytes, text);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CallSocketTest, AHandlerThatWaitsForALaterCallDoesNotHoldItUp) {
  Notification second;
  handler_ = [&](Method, const std::string& request, int64_t, CancellationManager&, Reply reply) {
    if (request == "second") second.Notify();
    if (request == "first") second.Wait();
    reply(Status(), {});
  };
  Serve();
  Pending first(*transport_, Method::kRecvTensor, "first");
  Pending other(*transport_, Method::kRecvTensor, "second");
  EXPECT_TRUE(first.Wait().status.ok());
  EXPECT_TRUE(other.Wait().status.ok());
}

TEST_F(CallSocketTest, ACancelledStepAnswersItself) {
  Notification started;
  handler_ = [&](Method, const std::string&, int64_t, CancellationManager& cancellation, Reply reply) {
    const auto kept = std::make_shared<Reply>(std::move(reply));
    cancellation.Register([kept] { (*kept)(errors::Internal("the error of the step"), {}); });
    started.Notify();
  };
  Serve();
  CancellationManager cancellation;
  Pending call(*transport_, Method::kRunGraph, "", &cancellation);
  started.Wait();
  cancellation.StartCancel();
  EXPECT_EQ(call.Wait().status, errors::Internal("the error of the step"));
}

TEST_F(CallSocketTest, ACancelledTensorIsAbandonedImmediately) {
  Notification started, told;
  handler_ = [&](Method, const std::string&, int64_t, CancellationManager& cancellation, Reply reply) {
    const auto kept = std::make_shared<Reply>(std::move(reply));
    cancellation.Register([kept, &told] {
      told.Notify();
      (*kept)(Status(), {});
    });
    started.Notify();
  };
  Serve();
  CancellationManager cancellation;
  Pending call(*transport_, Method::kRecvTensor, "", &cancellation);
  started.Wait();
  cancellation.StartCancel();
  EXPECT_TRUE(call.answered());
  EXPECT_EQ(call.Wait().status.code(), ErrorCode::kCancelled);
  told.Wait();
  Pending late(*transport_, Method::kRunGraph, "", &cancellation);
  EXPECT_EQ(late.Wait().status, errors::Cancelled("Step was cancelled"));
}

TEST_F(CallSocketTest, TheEndOfTheClientCancelsItsCalls) {
  Notification started, told;
  handler_ = [&](Method, const std::string&, int64_t, CancellationManager& cancellation, Reply reply) {
    const auto kept = std::make_shared<Reply>(std::move(reply));
    cancellation.Register([kept, &told] {
      (*kept)(Status(), {});
      told.Notify();
    });
    started.Notify();
  };
  Serve();
  Pending call(*transport_, Method::kRunGraph, "");
  started.Wait();
  transport_.reset();
  told.Wait();
  EXPECT_EQ(call.Wait().status.code(), ErrorCode::kCancelled);
  EXPECT_TRUE(Becomes([&] { return server_->num_connections() == 0; }));
}

TEST_F(CallSocketTest, APeerThatLeavesEndsItsCallsAndIsAskedAgain) {
  ConnectTo([](int fd) {
    CallHeader frame;
    EXPECT_TRUE(ReadAll(fd, &frame, sizeof(frame), milliseconds(5000)).status.ok());
  });
  Answer answer = Call(*transport_, Method::kRunGraph, "");
  EXPECT_TRUE(errors::IsUnavailable(answer.status));
  EXPECT_NE(answer.status.message().find(kPeer), std::string::npos) << answer.status;
  EXPECT_NE(answer.status.message().find("RunGraph"), std::string::npos) << answer.status;
  EXPECT_EQ(Call(*transport_, Method::kRunGraph, "").bytes, "below");
  EXPECT_TRUE(Becomes([&] { return below_->questions() == 2; }));
}

TEST_F(CallSocketTest, ASilentPeerIsAbandoned) {
  const auto over = std::make_shared<Notification>();  // the peer's thread ends after this function
  ConnectTo([over](int) { over->Wait(); });
  const auto start = steady_clock::now();
  const Answer answer = Call(*transport_, Method::kRecvTensor, "");
  const auto waited = steady_clock::now() - start;
  over->Notify();
  EXPECT_TRUE(errors::IsUnavailable(answer.status)) << answer.status;
  EXPECT_NE(answer.status.message().find("has been silent for"), std::string::npos) << answer.status;
  EXPECT_GE(waited, kPatience - CallLoop::kTick);
}

TEST_F(CallSocketTest, APeerThatAnswersQuestionsIsWaitedFor) {
  Notification go;
  std::thread late;
  handler_ = [&](Method, const std::string&, int64_t, CancellationManager&, Reply reply) {
    late = std::thread([kept = std::make_shared<Reply>(std::move(reply)), &go] {
      go.Wait();
      (*kept)(Status(), MessageBytes("late"));
    });
  };
  Serve();
  Pending call(*transport_, Method::kRunGraph, "");
  std::this_thread::sleep_for(2 * kPatience);  // longer than the limit for a silent peer
  EXPECT_FALSE(call.answered());
  go.Notify();
  EXPECT_EQ(call.Wait().bytes, "late");
  late.join();
}

TEST_F(CallSocketTest, CallsEndAtTheirTimeLimit) {
  handler_ = [&](Method, const std::string&, int64_t, CancellationManager& cancellation, Reply reply) {
    const auto kept = std::make_shared<Reply>(std::move(reply));
    cancellation.Register([kept] { (*kept)(Status(), {}); });
  };
  Serve();
  Pending call(*transport_, Method::kRunGraph, "", nullptr, 200);
  EXPECT_EQ(call.Wait().status.code(), ErrorCode::kDeadlineExceeded);
}

TEST_F(CallSocketTest, UnrequestedAnswersAreDroppedAndMalformedDataEndsTheConnection) {
  ConnectTo([](int fd) {
    CallHeader request;
    EXPECT_TRUE(ReadAll(fd, &request, sizeof(request), milliseconds(5000)).status.ok());
    const std::string other =
        Head({.kind = CallHeader::kResponse, .call = 77}) +
        Head({.kind = CallHeader::kError, .call = request.call, .number = 1234, .size = 4}) + "odd!";
    EXPECT_TRUE(WriteAll(fd, other, {}, milliseconds(5000)).ok());
    EXPECT_TRUE(ReadAll(fd, &request, sizeof(request), milliseconds(5000)).status.ok());
    EXPECT_TRUE(WriteAll(fd, Head({.kind = 99}), {}, milliseconds(5000)).ok());
    EXPECT_FALSE(ReadAll(fd, &request, sizeof(request), milliseconds(5000)).status.ok());
  });
  EXPECT_EQ(Call(*transport_, Method::kRunGraph, "").status, Status(ErrorCode::kUnknown, "odd!"));
  EXPECT_TRUE(errors::IsUnavailable(Call(*transport_, Method::kRunGraph, "").status));
}

TEST_F(CallSocketTest, ATaskWithoutSocketsIsNotAskedAgain) {
  Connect(errors::Unimplemented("OpenCalls"));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Call(*transport_, Method::kRunGraph, "").bytes, "below");
  EXPECT_EQ(below_->questions(), 1);
  EXPECT_EQ(below_->calls(), 11);
}

TEST_F(CallSocketTest, AnAddressThatLeadsNowhereLeavesTheOtherTransport) {
  for (const char* address : {"nonsense", "1/00000000000000000000000000000000"}) {
    Connect(std::string(address));
    EXPECT_EQ(Call(*transport_, Method::kRunGraph, "").bytes, "below");
    EXPECT_EQ(transport_->num_connections(), 0u);
  }
}

TEST_F(CallSocketTest, OnlyATokenOpensAConnectionAndOnlyOnce) {
  Serve();
  EXPECT_TRUE(IsClosedAfter(address_, "")) << "its token was used";
  EXPECT_TRUE(IsClosedAfter({address_.port, {1, 2}}, ""));
  EXPECT_EQ(server_->num_connections(), 1u);
}

TEST_F(CallSocketTest, RequestsThatMakeNoSenseCloseTheirConnection) {
  Serve();
  const std::string ping = Head({.kind = CallHeader::kPing});
  for (const CallHeader& frame : std::vector<CallHeader>{
           {.kind = 0},
           {.kind = CallHeader::kResponse},
           {.kind = CallHeader::kRequest, .method = 1'000'000},
           {.kind = CallHeader::kRequest, .method = static_cast<uint32_t>(Method::kRunStep)},
           {.kind = CallHeader::kRequest,
           .method = static_cast<uint32_t>(Method::kRunGraph),
           .size = CallSocket::kMostRequest + 1}}) {
    EXPECT_TRUE(IsClosedAfter(*sender_->AddressForCalls(), ping + Head(frame))) << frame.kind;
  }
  std::mt19937 random(7);
  for (int i = 0; i < 50; ++i) {
    std::string bytes(random() % 300 + 32, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    EXPECT_TRUE(IsClosedAfter(*sender_->AddressForCalls(), bytes));
  }
  EXPECT_EQ(Call(*transport_, Method::kRecvTensor, "still").bytes, "still");
}

TEST_F(CallSocketTest, APeerThatReadsLateGetsEveryAnswer) {
  std::atomic<int> answered{0};
  handler_ = [&](Method, const std::string& request, int64_t, CancellationManager&, Reply reply) {
    ++answered;
    reply(Status(), MessageBytes(std::string(kAnswer, request[0])));
  };
  patience_ = milliseconds(20'000);
  Serve();
  answered = 0;
  const SocketAddress address = *sender_->AddressForCalls();
  const auto fd = ConnectWithTcp("127.0.0.1", address.port, milliseconds(5000));
  ASSERT_TRUE(fd.ok());
  // Without a size of its own the buffer may grow to 32 MB and more, as the system sees fit.
  constexpr int kReceiveBuffer = 1 << 18;
  ASSERT_EQ(::setsockopt(fd->get(), SOL_SOCKET, SO_RCVBUF, &kReceiveBuffer, sizeof(kReceiveBuffer)), 0);
  const SocketRequest hello{SocketRequest::kCallsMagic, address.token, 0, 0, 0};
  ASSERT_TRUE(
      WriteAll(fd->get(), {reinterpret_cast<const char*>(&hello), sizeof(hello)}, {}, kPatience).ok());
  SocketAnswer answer;
  ASSERT_TRUE(ReadAll(fd->get(), &answer, sizeof(answer), kPatience).status.ok());
  // 320 MB of answers: more than the sockets and the server hold.
  constexpr int kCalls = 40'000;
  std::thread writing([&] {
    const std::string request(200, 'r');
    for (int i = 0; i < kCalls; ++i) {
      const CallHeader head{.kind = CallHeader::kRequest,
                            .method = static_cast<uint32_t>(Method::kRecvTensor),
                            .call = static_cast<uint64_t>(i),
                            .size = request.size()};
      ASSERT_TRUE(WriteAll(fd->get(), Head(head), request, milliseconds(20'000)).ok());
    }
  });
  // Nothing reads the answers, so the server stops reading calls: at 4,096 answers that wait, but it has then
  // read up to 1 MB of calls more, and answers a second MB of them.
  const auto give_up = steady_clock::now() + kPatience / 3;
  for (int before = -1; before != answered && steady_clock::now() < give_up;) {
    before = answered;
    std::this_thread::sleep_for(kPatience / 8);
  }
  EXPECT_LT(answered, kCalls / 2);
  std::vector<bool> seen(kCalls);
  std::string bytes(kAnswer, '\0');
  for (int i = 0; i < kCalls; ++i) {
    CallHeader head;
    ASSERT_TRUE(ReadAll(fd->get(), &head, sizeof(head), milliseconds(20'000)).status.ok());
    ASSERT_EQ(head.kind, CallHeader::kResponse);
    ASSERT_LT(head.call, seen.size());
    EXPECT_FALSE(seen[head.call]);
    seen[head.call] = true;
    ASSERT_EQ(head.size, bytes.size());
    ASSERT_TRUE(ReadAll(fd->get(), bytes.data(), bytes.size(), milliseconds(20'000)).status.ok());
  }
  writing.join();
}

TEST_F(CallSocketTest, StopWaitsForAnswersAndRefusesFurtherCalls) {
  Notification started;
  std::thread late;
  handler_ = [&](Method, const std::string&, int64_t, CancellationManager&, Reply reply) {
    late = std::thread([kept = std::make_shared<Reply>(std::move(reply))] {
      std::this_thread::sleep_for(milliseconds(100));
      (*kept)(Status(), MessageBytes("done"));
    });
    started.Notify();
  };
  Serve();
  Pending call(*transport_, Method::kRunGraph, "");
  started.Wait();
  server_->Stop(10'000);
  EXPECT_EQ(call.Wait().bytes, "done");
  EXPECT_EQ(server_->num_connections(), 0u);
  late.join();
}

TEST(TcpSocketTest, AcceptingWaitsUntilThereIsAFileDescriptor) {
  StatusOr<FileDescriptor> listening = ListenOnTcp("localhost", 0);
  ASSERT_TRUE(listening.ok()) << listening.status();
  const StatusOr<FileDescriptor> caller = ConnectWithTcp("localhost", PortOf(*listening), kPatience);
  ASSERT_TRUE(caller.ok()) << caller.status();
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 1;  // poll() needs as many as are passed to it
  StatusOr<FileDescriptor> accepted = errors::Unknown("nothing yet");
  // Threads lower the limit themselves: UndefinedBehaviorSanitizer needs a descriptor at their begin and end.
  Notification ended;
  std::thread accepting([&] {
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    accepted = AcceptOnTcp(listening->get());
    ended.Notify();
  });
  std::this_thread::sleep_for(milliseconds(150));
  EXPECT_FALSE(ended.HasBeenNotified());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  accepting.join();
  EXPECT_TRUE(accepted.ok()) << accepted.status();

  std::thread stopped([&] {
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    accepted = AcceptOnTcp(listening->get());
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  });
  ShutDownSocket(listening->get());
  stopped.join();
  EXPECT_FALSE(accepted.ok());
}

}  // namespace
}  // namespace millrace
