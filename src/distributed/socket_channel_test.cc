// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/socket_channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>

#include "base/notification.h"
#include "base/strings.h"
#include "distributed/free_port_testing.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr char kTask[] = "/job:w/replica:0/task:1";
constexpr std::chrono::seconds kLong{20};
constexpr milliseconds kShort{300};  // the patience in tests of its end
// Enough for several parts, and more than the buffers of sockets.
constexpr int64_t kMany = int64_t{9} << 20;
constexpr int64_t kOnePart = int64_t{3} << 20;

Tensor Numbers(int64_t count, float first = 0) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), first);
  return Tensor::Vector(values);
}

void ExpectNumbers(const StatusOr<Tensor>& tensor, int64_t count, float first = 0) {
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  ASSERT_EQ(tensor->shape(), TensorShape({count}));
  for (int64_t i = 0; i < count; ++i) ASSERT_EQ(tensor->data<float>()[i], first + static_cast<float>(i));
}

// The other channel: finds the tensor at once.
class OtherWay : public TensorChannel {
 public:
  explicit OtherWay(std::shared_ptr<HeldTensors> held) : held_(std::move(held)) {}
  std::string_view name() const override { return "other"; }
  std::optional<std::string> AddressFor(std::string_view, int64_t) override { return ""; }
  void Fetch(TensorFetch fetch) override {
    ++fetches;
    fetch.done(held_->Find(fetch.ticket));
  }
  std::atomic<int> fetches{0};

 private:
  const std::shared_ptr<HeldTensors> held_;
};

struct Result {
  UniqueFunction<void(StatusOr<Tensor>)> Done() {
    return [this](StatusOr<Tensor> t) {
      EXPECT_FALSE(came.HasBeenNotified());
      tensor = std::move(t);
      came.Notify();
    };
  }
  StatusOr<Tensor> Wait() {
    EXPECT_TRUE(came.WaitUntil(std::chrono::steady_clock::now() + kLong));
    return std::exchange(tensor, errors::Internal("taken"));
  }
  Notification came;
  StatusOr<Tensor> tensor = errors::Internal("no answer");
};

template <typename Condition>
bool Eventually(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + kLong;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

class SocketChannelTest : public ::testing::Test {
 protected:
  std::unique_ptr<SocketChannel> Channel(milliseconds patience = kLong,
                                         int most_threads = std::numeric_limits<int>::max()) {
    return std::make_unique<SocketChannel>(
        held_, other_,
        SocketChannel::Options{
            .patience = patience, .peers = {{kTask, "localhost:1"}}, .most_threads = most_threads});
  }
  void SetUp() override {
    sender_ = Channel();
    receiver_ = Channel();
  }
  uint64_t Hold(const Tensor& tensor) { return *held_->Hold(**steps_.Find(1), tensor); }
  std::string AddressFor(const Tensor& tensor) {
    return sender_->AddressFor("", static_cast<int64_t>(tensor.num_bytes())).value_or("");
  }
  static TensorFetch FetchOf(const std::string& address, uint64_t ticket, const Tensor& tensor,
                             Result* result) {
    TensorFetch fetch{
        kTask,   address, ticket, tensor.dtype(), tensor.shape(), static_cast<int64_t>(tensor.num_bytes()),
        nullptr, {}};
    fetch.done = result->Done();
    return fetch;
  }
  StatusOr<Tensor> FetchFrom(const std::string& address, const Tensor& tensor) {
    Result result;
    receiver_->Fetch(FetchOf(address, Hold(tensor), tensor, &result));
    return result.Wait();
  }
  StatusOr<Tensor> Send(const Tensor& tensor) { return FetchFrom(AddressFor(tensor), tensor); }

  const std::shared_ptr<HeldTensors> held_ = HeldTensors::Make();
  OtherWay other_{held_};
  TaskSteps steps_{"there", nullptr};
  std::unique_ptr<SocketChannel> sender_, receiver_;
};

TEST_F(SocketChannelTest, TensorsOfAnySizeArrive) {
  for (const int64_t count : {int64_t{1}, int64_t{2}, int64_t{1023}, int64_t{1} << 20, (int64_t{2} << 20) + 1,
                              kMany, kMany + 1, (int64_t{8} << 20) + 3})
    ExpectNumbers(Send(Numbers(count, 5)), count, 5);
  EXPECT_EQ(other_.fetches, 0);
  // The sender may not have noted yet that the last bytes were sent.
  EXPECT_TRUE(Eventually([&] { return held_->size() == 0; })) << "what has arrived is dropped";
  EXPECT_TRUE(Eventually([&] { return sender_->num_grants() == 0; }));
}

TEST_F(SocketChannelTest, ConnectionsAreUsedAgain) {
  for (int i = 0; i < 50; ++i) ExpectNumbers(Send(Numbers(100)), 100);
  EXPECT_EQ(sender_->num_connections(), 1u);
  // The sender closes a connection that the receiver still keeps.
  sender_ = Channel();
  ExpectNumbers(Send(Numbers(100)), 100);
  EXPECT_EQ(sender_->num_connections(), 1u);
  EXPECT_EQ(other_.fetches, 0);
}

TEST_F(SocketChannelTest, ManyAtTheSameTime) {
  constexpr int kThreads = 8;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([this, i] {
      for (int k = 0; k < 20; ++k)
        ExpectNumbers(Send(Numbers(50'000 + i, static_cast<float>(k))), 50'000 + i, static_cast<float>(k));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(other_.fetches, 0);
  EXPECT_TRUE(Eventually([&] { return held_->size() == 0; }));
}

TEST_F(SocketChannelTest, WhatCannotBeReachedTakesTheOtherWay) {
  const Tensor tensor = Numbers(10);
  for (const char* address :
       {"", "1", "1/00", "0/00000000000000000000000000000000", "70000/00000000000000000000000000000000",
        "1/0000000000000000000000000000000g", "1/00000000000000000000000000000000"})
    ExpectNumbers(FetchFrom(address, tensor), 10);
  EXPECT_EQ(other_.fetches, 7);
  // A task without an address.
  Result result;
  TensorFetch fetch = FetchOf(AddressFor(tensor), Hold(tensor), tensor, &result);
  fetch.task = "/job:x/replica:0/task:0";
  receiver_->Fetch(std::move(fetch));
  ExpectNumbers(result.Wait(), 10);
  EXPECT_EQ(other_.fetches, 8);
}

TEST_F(SocketChannelTest, WithoutThreadsTensorsArrive) {
  constexpr int64_t kParts = int64_t{6} << 20;
  const auto sender = Channel(kLong, 0);
  EXPECT_EQ(sender->AddressFor("", 4), std::nullopt);
  receiver_ = Channel(kLong, 0);
  ExpectNumbers(Send(Numbers(10)), 10);
  EXPECT_EQ(other_.fetches, 1);
  // One thread takes all parts of a tensor.
  receiver_ = Channel(kLong, 1);
  ExpectNumbers(Send(Numbers(kParts)), kParts);
  EXPECT_EQ(other_.fetches, 1);
  // The sender has a thread that accepts connections, and none that serves them.
  sender_ = Channel(kLong, 1);
  ExpectNumbers(Send(Numbers(10)), 10);
  EXPECT_EQ(other_.fetches, 2);
}

TEST_F(SocketChannelTest, APeerThatCouldNotBeReachedIsTriedAgainLater) {
  const Tensor tensor = Numbers(10);
  const int port = FreePort();  // nothing listens there
  const auto receiver = [&](milliseconds retry_after) {
    return std::make_unique<SocketChannel>(
        held_, other_,
        SocketChannel::Options{
            .patience = kLong, .peers = {{kTask, "localhost:1"}}, .retry_after = retry_after});
  };
  receiver_ = receiver(kLong);
  const auto patient = std::exchange(receiver_, receiver(milliseconds(0)));
  const auto fetch_by = [&](SocketChannel& channel, const std::string& address) {
    Result result;
    channel.Fetch(FetchOf(address, Hold(tensor), tensor, &result));
    ExpectNumbers(result.Wait(), 10);
  };
  const std::string nobody = SocketAddress{port, {1, 2}}.ToString();
  fetch_by(*patient, nobody);
  fetch_by(*receiver_, nobody);
  EXPECT_EQ(other_.fetches, 2);
  sender_ =
      std::make_unique<SocketChannel>(held_, other_, SocketChannel::Options{.port = port, .patience = kLong});
  fetch_by(*patient, AddressFor(tensor));
  EXPECT_EQ(other_.fetches, 3) << "the time is not up";
  fetch_by(*receiver_, AddressFor(tensor));
  EXPECT_EQ(other_.fetches, 3);
  EXPECT_EQ(sender_->num_connections(), 1u);
}

TEST_F(SocketChannelTest, ASenderThatStartsAgainHasItsPort) {
  const Tensor tensor = Numbers(10);
  const int port = FreePort();
  for (int i = 0; i < 3; ++i) {
    sender_ = nullptr;
    sender_ = std::make_unique<SocketChannel>(held_, other_,
                                              SocketChannel::Options{.port = port, .patience = kLong});
    const auto address = SocketAddress::Parse(AddressFor(tensor));
    ASSERT_TRUE(address.ok()) << i << ": " << address.status();
    EXPECT_EQ(address->port, port);
    ExpectNumbers(Send(tensor), 10);
    EXPECT_EQ(sender_->num_connections(), 1u);
  }
  EXPECT_EQ(other_.fetches, 0);
}

TEST_F(SocketChannelTest, ATokenIsForTheBytesOfOneTensor) {
  const Tensor tensor = Numbers(10);
  const std::string address = AddressFor(tensor);
  ExpectNumbers(FetchFrom(address, tensor), 10);
  EXPECT_EQ(other_.fetches, 0);
  ExpectNumbers(FetchFrom(address, tensor), 10);
  EXPECT_EQ(other_.fetches, 1) << "a token is used once";
  // A token of a smaller tensor, and one that was never granted.
  ExpectNumbers(FetchFrom(AddressFor(tensor), Numbers(11)), 11);
  EXPECT_EQ(other_.fetches, 2);
  const auto port = SocketAddress::Parse(address);
  ExpectNumbers(FetchFrom(SocketAddress{port->port, {1, 2}}.ToString(), tensor), 10);
  EXPECT_EQ(other_.fetches, 3);
}

TEST_F(SocketChannelTest, ADroppedTensorIsRequestedFromTheOtherChannel) {
  const Tensor tensor = Numbers(10);
  Result result;
  receiver_->Fetch(FetchOf(AddressFor(tensor), 12345, tensor, &result));
  EXPECT_TRUE(errors::IsAborted(result.Wait().status()));
  EXPECT_EQ(other_.fetches, 1);
  ExpectNumbers(Send(tensor), 10);
  EXPECT_EQ(sender_->num_connections(), 1u) << "the connection stays open";
}

TEST_F(SocketChannelTest, StopEndsFurtherTransfers) {
  ExpectNumbers(Send(Numbers(10)), 10);
  const Tensor tensor = Numbers(10);
  const std::string address = AddressFor(tensor);
  receiver_->Stop();
  EXPECT_TRUE(errors::IsCancelled(FetchFrom(address, tensor).status()));
  sender_->Stop();
  EXPECT_EQ(AddressFor(tensor), "");
}

// ---- Senders that violate the protocol

// Listens and handles one connection as the test defines.
class SocketSenderTest : public SocketChannelTest {
 protected:
  void Serve(std::function<void(int fd)> serve, milliseconds patience = kLong) {
    receiver_ = Channel(patience);
    listening_ = *ListenOnTcp("127.0.0.1", 0);
    thread_ = std::thread([this, s = std::move(serve)] {
      const auto connection = AcceptOnTcp(listening_.get());
      if (!connection.ok()) return;
      SocketRequest request;
      if (ReadAll(connection->get(), &request, sizeof(request), kLong).status.ok()) s(connection->get());
    });
  }
  void TearDown() override {
    ShutDownSocket(listening_.get());
    if (thread_.joinable()) thread_.join();
  }
  std::string Address() { return SocketAddress{PortOf(listening_), {1, 2}}.ToString(); }
  static void Write(int fd, const SocketAnswer& answer, size_t bytes) {
    const std::string body(bytes, 'x');
    WriteAll(fd, {reinterpret_cast<const char*>(&answer), sizeof(answer)}, body, kLong)
        .IgnoreError("the receiver may have left");
  }
  FileDescriptor listening_;
  std::thread thread_;
};

TEST_F(SocketSenderTest, OneThatLeavesInTheMiddleIsNamed) {
  Serve([](int fd) { Write(fd, {SocketAnswer::kGranted, 4000}, 1000); });
  const Status status = FetchFrom(Address(), Numbers(1000)).status();
  EXPECT_TRUE(errors::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(kTask));
  EXPECT_EQ(other_.fetches, 0);
}

TEST_F(SocketSenderTest, OneThatLeavesBeforeItAnswersIsAskedInTheOtherWay) {
  Serve([](int) {});
  ExpectNumbers(FetchFrom(Address(), Numbers(1000)), 1000);
  EXPECT_EQ(other_.fetches, 1);
}

TEST_F(SocketSenderTest, ASilentSenderIsAbandoned) {
  for (const size_t before : {size_t{0}, size_t{1000}}) {
    Notification ended;
    Serve(
        [&](int fd) {
          if (before > 0) Write(fd, {SocketAnswer::kGranted, 4000}, before);
          ended.Wait();
        },
        kShort);
    const Status status = FetchFrom(Address(), Numbers(1000)).status();
    EXPECT_TRUE(errors::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(StrCat("Task ", kTask, " has been silent for 0.3 s")));
    ended.Notify();
    TearDown();
  }
}

TEST_F(SocketSenderTest, AnswersThatMakeNoSenseAreErrors) {
  for (const SocketAnswer& answer :
       {SocketAnswer{SocketAnswer::kGranted, 4001}, SocketAnswer{42, 4000},
        SocketAnswer{SocketAnswer::kGranted, -1}, SocketAnswer{SocketAnswer::kRefused, 1}}) {
    Serve([&](int fd) { Write(fd, answer, 4000); });
    const Status status = FetchFrom(Address(), Numbers(1000)).status();
    EXPECT_EQ(status.code(), ErrorCode::kInternal) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(kTask));
    TearDown();
  }
}

TEST_F(SocketSenderTest, CancellationEndsTheWait) {
  Notification asked, ended;
  Serve([&](int) {
    asked.Notify();
    ended.Wait();
  });
  CancellationManager cancellation;
  const Tensor tensor = Numbers(1000);
  Result result;
  TensorFetch fetch = FetchOf(Address(), Hold(tensor), tensor, &result);
  fetch.cancellation = &cancellation;
  receiver_->Fetch(std::move(fetch));
  asked.Wait();
  cancellation.StartCancel();
  EXPECT_TRUE(errors::IsCancelled(result.Wait().status()));
  ended.Notify();
  // One that was cancelled before it began.
  Result late;
  fetch = FetchOf(Address(), Hold(tensor), tensor, &late);
  fetch.cancellation = &cancellation;
  receiver_->Fetch(std::move(fetch));
  EXPECT_TRUE(errors::IsCancelled(late.Wait().status()));
}

TEST_F(SocketSenderTest, StopEndsTheWait) {
  Notification asked, ended;
  Serve([&](int) {
    asked.Notify();
    ended.Wait();
  });
  const Tensor tensor = Numbers(1000);
  Result result;
  receiver_->Fetch(FetchOf(Address(), Hold(tensor), tensor, &result));
  asked.Wait();
  receiver_->Stop();
  EXPECT_TRUE(errors::IsCancelled(result.Wait().status()));
  ended.Notify();
}

// ---- Receivers that violate the protocol

class SocketReceiverTest : public SocketChannelTest {
 protected:
  FileDescriptor Connect() {
    address_ = *SocketAddress::Parse(AddressFor(tensor_));
    return *ConnectWithTcp("127.0.0.1", address_.port, kLong);
  }
  SocketRequest Request(uint64_t ticket) const {
    const auto size = static_cast<int64_t>(tensor_.num_bytes());
    return {SocketRequest::kMagic, address_.token, ticket, 0, size};
  }
  static void Ask(const FileDescriptor& fd, const SocketRequest& request) {
    ASSERT_EQ(WriteAll(fd.get(), {reinterpret_cast<const char*>(&request), sizeof(request)}, {}, kLong),
              Status());
  }
  static SocketAnswer Answer(const FileDescriptor& fd) {
    SocketAnswer answer{0, 0};
    ReadAll(fd.get(), &answer, sizeof(answer), kLong).status.IgnoreError("then it stays empty");
    return answer;
  }
  static bool IsClosed(const FileDescriptor& fd) {
    char byte = 0;
    return errors::IsUnavailable(ReadAll(fd.get(), &byte, 1, kLong).status);
  }
  Tensor tensor_ = Numbers(1000);
  SocketAddress address_;
};

TEST_F(SocketReceiverTest, RequestsThatMakeNoSenseCloseTheConnection) {
  const uint64_t ticket = Hold(tensor_);
  const std::function<void(SocketRequest*)> wrongs[] = {
      [](SocketRequest* r) { r->token[1] ^= 1; },     [](SocketRequest* r) { r->offset = -1; },
      [](SocketRequest* r) { r->offset = 1; },        [](SocketRequest* r) { r->num_bytes = 0; },
      [](SocketRequest* r) { r->num_bytes = -5; },    [](SocketRequest* r) { r->num_bytes = INT64_MAX; },
      [](SocketRequest* r) { r->offset = INT64_MAX; }};
  for (const auto& wrong : wrongs) {
    const FileDescriptor fd = Connect();
    SocketRequest request = Request(ticket);
    wrong(&request);
    Ask(fd, request);
    EXPECT_EQ(Answer(fd).kind, SocketAnswer::kRefused);
    EXPECT_TRUE(IsClosed(fd));
  }
  const FileDescriptor fd = Connect();
  SocketRequest request = Request(ticket);
  request.magic = 1;
  Ask(fd, request);
  EXPECT_TRUE(IsClosed(fd));
  const FileDescriptor web = Connect();
  ASSERT_EQ(WriteAll(web.get(), "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", {}, kLong),
            Status());
  EXPECT_TRUE(IsClosed(web));
  EXPECT_TRUE(Eventually([&] { return sender_->num_connections() == 0; }));
  EXPECT_EQ(held_->size(), 1u) << "none of them has got it";
}

TEST_F(SocketReceiverTest, ABigReceiverMayTakeItsTensorInPartsButNoByteTwice) {
  const uint64_t ticket = Hold(tensor_);
  const FileDescriptor fd = Connect();
  SocketRequest request = Request(ticket);
  request.num_bytes = 3000;
  std::vector<char> bytes(4000);
  for (const int64_t size : {3000, 1000}) {
    request.num_bytes = size;
    Ask(fd, request);
    EXPECT_EQ(Answer(fd).kind, SocketAnswer::kGranted);
    EXPECT_EQ(ReadAll(fd.get(), bytes.data() + request.offset, static_cast<size_t>(size), kLong).status,
              Status());
    request.offset += size;
  }
  EXPECT_EQ(std::memcmp(bytes.data(), tensor_.raw_data(), bytes.size()), 0);
  request.offset = 0;
  Ask(fd, request);
  EXPECT_EQ(Answer(fd).kind, SocketAnswer::kRefused);
  EXPECT_TRUE(Eventually([&] { return held_->size() == 0; }));
}

TEST_F(SocketReceiverTest, OneThatDoesNotReadIsLeftAfterAWhile) {
  sender_ = Channel(kShort);
  tensor_ = Numbers(kMany);
  const uint64_t ticket = Hold(tensor_);
  const FileDescriptor fd = Connect();
  Ask(fd, Request(ticket));
  EXPECT_EQ(Answer(fd).kind, SocketAnswer::kGranted);
  EXPECT_TRUE(Eventually([&] { return sender_->num_connections() == 0; }));
}

// ---- Processes that die

// A sender in a separate process is killed during the transfer of its tensor.
TEST_F(SocketSenderTest, AProcessThatIsKilledInTheMiddleIsNoticedImmediately) {
  listening_ = *ListenOnTcp("127.0.0.1", 0);
  int sent[2];
  ASSERT_EQ(::pipe(sent), 0);
  const FileDescriptor some_sent(sent[0]), sending(sent[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    // Only system calls: the parent has threads.
    const int fd = ::accept(listening_.get(), nullptr, nullptr);
    char request[sizeof(SocketRequest)];
    if (::recv(fd, request, sizeof(request), MSG_WAITALL) != sizeof(request)) ::_exit(1);
    const SocketAnswer answer{SocketAnswer::kGranted, kOnePart * 4};
    if (::send(fd, &answer, sizeof(answer), MSG_NOSIGNAL) < 0) ::_exit(1);
    static char some[1 << 20];
    if (::send(fd, some, sizeof(some), MSG_NOSIGNAL) < 0) ::_exit(1);
    if (::write(sent[1], some, 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  const Tensor tensor = Numbers(kOnePart);
  Result result;
  receiver_->Fetch(FetchOf(Address(), Hold(tensor), tensor, &result));
  char byte = 0;
  ASSERT_EQ(::read(some_sent.get(), &byte, 1), 1);
  EXPECT_FALSE(result.came.HasBeenNotified());
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  listening_ = FileDescriptor();
  const Status gone = result.Wait().status();
  EXPECT_TRUE(errors::IsUnavailable(gone)) << gone;
  EXPECT_THAT(std::string(gone.message()), HasSubstr(kTask));
}

}  // namespace
}  // namespace millrace
