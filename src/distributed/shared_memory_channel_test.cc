// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/shared_memory_channel.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <numeric>
#include <thread>

#include "base/notification.h"
#include "base/strings.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using Kind = LocalPacket::Kind;
using Options = SharedMemoryChannel::Options;

constexpr char kTask[] = "/job:w/replica:0/task:1";
constexpr std::chrono::seconds kLong{20};

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

// The result of a fetch.
class Result {
 public:
  UniqueFunction<void(StatusOr<Tensor>)> Done() {
    return [state = state_](StatusOr<Tensor> tensor) {
      EXPECT_FALSE(state->came.HasBeenNotified());
      state->tensor = std::move(tensor);
      state->came.Notify();
    };
  }
  StatusOr<Tensor> Wait() {
    if (!state_->came.WaitUntil(std::chrono::steady_clock::now() + kLong))
      return errors::Internal("no answer");
    return std::exchange(state_->tensor, errors::Internal("taken"));
  }

 private:
  struct State {
    Notification came;
    StatusOr<Tensor> tensor = errors::Internal("no answer");
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
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

class SharedMemoryChannelTest : public ::testing::Test {
 protected:
  static constexpr int64_t kMax = int64_t{64} << 20;
  std::unique_ptr<SharedMemoryChannel> Channel(Options options = {.max_bytes = kMax}) {
    return std::make_unique<SharedMemoryChannel>(held_, other_, options);
  }
  void SetUp() override {
    sender_ = Channel();
    receiver_ = Channel();
  }
  uint64_t Hold(const Tensor& tensor) { return *held_->Hold(**steps_.Find(1), tensor); }
  static TensorFetch FetchOf(const std::string& address, uint64_t ticket, const Tensor& tensor,
                             Result* result) {
    TensorFetch fetch{
        kTask,   address, ticket, tensor.dtype(), tensor.shape(), static_cast<int64_t>(tensor.num_bytes()),
        nullptr, {}};
    fetch.done = result->Done();
    return fetch;
  }
  StatusOr<Tensor> Send(const Tensor& tensor) {
    const auto address =
        sender_->AddressFor(receiver_->Introduction(), static_cast<int64_t>(tensor.num_bytes()));
    if (!address) return errors::NotFound("no address");
    return FetchFrom(*address, tensor);
  }
  StatusOr<Tensor> FetchFrom(const std::string& address, const Tensor& tensor) {
    Result result;
    receiver_->Fetch(FetchOf(address, Hold(tensor), tensor, &result));
    return result.Wait();
  }
  std::string Address() { return sender_->AddressFor(sender_->Introduction(), 4).value_or("none"); }

  const std::shared_ptr<HeldTensors> held_ = HeldTensors::Make();
  OtherWay other_{held_};
  TaskSteps steps_{kTask, nullptr};
  std::unique_ptr<SharedMemoryChannel> sender_, receiver_;
};

TEST_F(SharedMemoryChannelTest, TensorsOfAnySizeArrive) {
  for (const int64_t count : {1, 1000, 1024, 1025, 300'001, 3'999'999, 5'000'001}) {
    for (int i = 0; i < 3; ++i) ExpectNumbers(Send(Numbers(count)), count);
  }
  EXPECT_EQ(other_.fetches, 0);
  EXPECT_EQ(sender_->num_connections(), 1u);
  EXPECT_TRUE(Eventually([&] { return held_->size() == 0; })) << "what has arrived is dropped";
}

TEST_F(SharedMemoryChannelTest, MemoryIsUsedAgainAfterTheTensorIsDestroyed) {
  const void* first = nullptr;
  for (int i = 0; i < 5; ++i) {
    const auto tensor = Send(Numbers(100'000 - i, static_cast<float>(i)));
    ExpectNumbers(tensor, 100'000 - i, static_cast<float>(i));
    if (first == nullptr) first = tensor->raw_data();
    EXPECT_EQ(tensor->raw_data(), first);
  }
}

TEST_F(SharedMemoryChannelTest, TensorsInUseKeepTheirElements) {
  const auto first = Send(Numbers(1000, 1));
  const auto second = Send(Numbers(1000, 2));
  EXPECT_NE(first->raw_data(), second->raw_data());
  ExpectNumbers(first, 1000, 1);
  ExpectNumbers(second, 1000, 2);
  sender_.reset();
  receiver_.reset();
  ExpectNumbers(first, 1000, 1);
}

TEST_F(SharedMemoryChannelTest, TensorsThatHoldMuchMemoryAreCopied) {
  constexpr int64_t kCount = 1'000'000;
  std::vector<StatusOr<Tensor>> kept;
  kept.reserve(10);
  for (int i = 0; i < 10; ++i) kept.push_back(Send(Numbers(kCount, static_cast<float>(i))));
  for (int i = 0; i < 10; ++i) ExpectNumbers(kept[static_cast<size_t>(i)], kCount, static_cast<float>(i));
  EXPECT_EQ(other_.fetches, 0);
}

TEST_F(SharedMemoryChannelTest, WithoutMemoryTensorsTakeTheOtherWay) {
  sender_ = Channel({.max_bytes = 10'000'000});
  EXPECT_EQ(sender_->AddressFor(receiver_->Introduction(), 10'000'001), std::nullopt);
  const auto first = Send(Numbers(1'500'000, 1));
  ExpectNumbers(first, 1'500'000, 1);
  EXPECT_EQ(other_.fetches, 0);
  ExpectNumbers(Send(Numbers(1'500'000, 2)), 1'500'000, 2);
  EXPECT_EQ(other_.fetches, 1);
  ExpectNumbers(Send(Numbers(100'000, 3)), 100'000, 3);
  EXPECT_EQ(other_.fetches, 1);
}

TEST_F(SharedMemoryChannelTest, WithoutThreadsTensorsTakeTheOtherWay) {
  const auto sender = Channel({.max_bytes = kMax, .most_threads = 0});
  EXPECT_EQ(sender->AddressFor(sender->Introduction(), 4), std::nullopt);
  receiver_ = Channel({.max_bytes = kMax, .most_threads = 0});
  ExpectNumbers(Send(Numbers(1000)), 1000);
  EXPECT_EQ(other_.fetches, 1);
  // The sender has a thread that accepts connections, and none that serves them.
  receiver_ = Channel();
  sender_ = Channel({.max_bytes = kMax, .most_threads = 1});
  ExpectNumbers(Send(Numbers(1000)), 1000);
  EXPECT_EQ(other_.fetches, 2);
}

TEST_F(SharedMemoryChannelTest, OnlyTasksOfTheSameMachineAndUserGetAnAddress) {
  const std::string here = sender_->Introduction();
  EXPECT_NE(sender_->AddressFor(here, 4), std::nullopt);
  for (const std::string& other : {std::string(), here + "0", here.substr(1), std::string("a/b")})
    EXPECT_EQ(sender_->AddressFor(other, 4), std::nullopt) << other;
  EXPECT_EQ(Channel({.max_bytes = kMax, .user = geteuid() + 1})->AddressFor(here, 4), std::nullopt);
  EXPECT_EQ(Channel({.min_bytes = 5, .max_bytes = kMax})->AddressFor(here, 4), std::nullopt);
}

TEST_F(SharedMemoryChannelTest, AProcessOfAnotherUserIsRefusedAtBothEnds) {
  sender_ = Channel({.max_bytes = kMax, .user = geteuid() + 1});
  ExpectNumbers(FetchFrom(Address(), Numbers(5)), 5);
  EXPECT_EQ(other_.fetches, 1);
  sender_ = Channel();
  receiver_ = Channel({.max_bytes = kMax, .user = geteuid() + 1});
  ExpectNumbers(FetchFrom(Address(), Numbers(5)), 5);
  EXPECT_EQ(other_.fetches, 2);
  EXPECT_TRUE(Eventually([&] { return sender_->num_connections() == 0; }));
}

TEST_F(SharedMemoryChannelTest, AWrongAddressFallsBack) {
  const std::string right = Address();
  std::string secret = right, socket = right;
  secret.back() = secret.back() == '0' ? '1' : '0';
  socket[12] = socket[12] == '0' ? '1' : '0';
  int fetches = 0;
  for (const std::string& wrong :
       {secret, socket, std::string(), right + "0", std::string(right.size(), 'x'), right.substr(1)}) {
    ExpectNumbers(FetchFrom(wrong, Numbers(5)), 5);
    EXPECT_EQ(other_.fetches, ++fetches) << wrong;
  }
  ExpectNumbers(FetchFrom(right, Numbers(5)), 5);
  EXPECT_EQ(other_.fetches, fetches);
}

TEST_F(SharedMemoryChannelTest, AMissingTensorIsRequestedFromTheOtherChannel) {
  Result gone, longer;
  receiver_->Fetch(FetchOf(Address(), 77, Numbers(5), &gone));
  EXPECT_TRUE(errors::IsAborted(gone.Wait().status()));
  receiver_->Fetch(FetchOf(Address(), Hold(Numbers(4)), Numbers(5), &longer));
  ExpectNumbers(longer.Wait(), 4);
  EXPECT_EQ(other_.fetches, 2);
}

TEST_F(SharedMemoryChannelTest, ASenderThatEndsLeavesTheOtherWay) {
  const std::string address = Address();
  const auto before = FetchFrom(address, Numbers(1000));
  sender_.reset();
  ExpectNumbers(FetchFrom(address, Numbers(5)), 5);
  ExpectNumbers(before, 1000);
  EXPECT_EQ(other_.fetches, 1);
}

TEST_F(SharedMemoryChannelTest, StopEndsFurtherTransfers) {
  const std::string address = Address();
  ExpectNumbers(FetchFrom(address, Numbers(5)), 5);
  receiver_->Stop();
  EXPECT_TRUE(errors::IsCancelled(FetchFrom(address, Numbers(5)).status()));
  sender_->Stop();
  EXPECT_EQ(Address(), "none");
}

// ---- One end violates the protocol

class FakeSender {
 public:
  explicit FakeSender(std::function<void(int fd, const LocalPacket& fetch)> answer) {
    const std::string pid = std::to_string(::getpid());
    address_.socket = "millrace-" + std::string(32 - pid.size(), 'a') + pid;
    listening_ = *ListenOnUnixSocket(address_.socket);
    thread_ = std::thread([this, answer = std::move(answer)] {
      auto fd = AcceptOnUnixSocket(listening_.get());
      if (!fd.ok()) return;
      SetSocketTimeout(fd->get(), kLong);
      const auto hello = ReceivePacket(fd->get());
      const auto fetch = ReceivePacket(fd->get());
      ASSERT_TRUE(hello.ok() && *hello && fetch.ok() && *fetch);
      EXPECT_EQ((*hello)->packet.kind, Kind::kHello);
      EXPECT_EQ((*fetch)->packet.kind, Kind::kFetch);
      answer(fd->get(), (*fetch)->packet);
    });
  }
  ~FakeSender() {
    ShutDownSocket(listening_.get());
    thread_.join();
  }
  std::string address() const { return address_.ToString(); }

 private:
  SharedMemoryAddress address_;
  FileDescriptor listening_;
  std::thread thread_;
};

// Anonymous memory; `seals` are added.
FileDescriptor Memory(int64_t size, int seals) {
  FileDescriptor fd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(fd.get(), size), 0);
  EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}

TEST_F(SharedMemoryChannelTest, ASenderThatBreaksTheRulesIsLeft) {
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
  const auto tensor = [](uint64_t number, int64_t bytes) {
    return LocalPacket{Kind::kTensor, 3, number, 0, bytes};
  };
  const std::vector<std::function<void(int fd, uint64_t number)>> wrongs = {
      [](int fd, uint64_t) { ShutDownSocket(fd); },
      [&](int fd, uint64_t n) { (void)SendPacket(fd, tensor(n, 8192), Memory(8192, 0).get(), true); },
      [&](int fd, uint64_t n) {
        (void)SendPacket(fd, tensor(n, 8192), Memory(8192, F_SEAL_SHRINK).get(), true);
      },
      [&](int fd, uint64_t n) { (void)SendPacket(fd, tensor(n, 8192), Memory(4096, kSeals).get(), true); },
      [&](int fd, uint64_t n) { (void)SendPacket(fd, tensor(n, 4096), Memory(4096, kSeals).get(), true); },
      [&](int fd, uint64_t n) { (void)SendPacket(fd, tensor(n, 0), Memory(0, kSeals).get(), true); },
      [&](int fd, uint64_t n) { (void)SendPacket(fd, tensor(n, -1), Memory(8192, kSeals).get(), true); },
      [&](int fd, uint64_t n) {
        constexpr int64_t kHuge = 4 * kMax;
        (void)SendPacket(fd, tensor(n, kHuge), Memory(kHuge, kSeals).get(), true);
      },
      [&](int fd, uint64_t n) {
        const FileDescriptor null(open("/dev/null", O_RDWR | O_CLOEXEC));
        (void)SendPacket(fd, tensor(n, 8192), null.get(), true);
      },
      [&](int fd, uint64_t n) { (void)SendPacket(fd, tensor(n, 8192), -1, true); },
      [&](int fd, uint64_t n) {
        (void)SendPacket(fd, tensor(n + 1, 8192), Memory(8192, kSeals).get(), true);
      },
      [&](int fd, uint64_t n) {
        (void)SendPacket(fd, {Kind::kRefused, 0, n + 1}, -1, true);
      },
      [&](int fd, uint64_t n) {
        (void)SendPacket(fd, {Kind::kFetch, 0, n}, -1, true);
      },
      [&](int fd, uint64_t n) {
        (void)SendPacket(fd, {static_cast<Kind>(99), 0, n}, -1, true);
      },
      [&](int fd, uint64_t) {
        (void)SendPacket(fd, {Kind::kDrop, 3}, -1, true);
      },
      [&](int fd, uint64_t) { EXPECT_EQ(send(fd, "abc", 3, MSG_NOSIGNAL), 3); },
      [&](int fd, uint64_t) { EXPECT_EQ(send(fd, std::string(100, 'x').data(), 100, MSG_NOSIGNAL), 100); },
  };
  int fetches = 0;
  for (const auto& wrong : wrongs) {
    // A receiver remembers the address of a sender that it no longer uses.
    receiver_ = Channel();
    FakeSender sender([&](int fd, const LocalPacket& fetch) {
      wrong(fd, fetch.number);
      // The receiver closes the connection.
      while (true) {
        const auto received = ReceivePacket(fd);
        if (!received.ok()) return;
        ASSERT_TRUE(received->has_value());
      }
    });
    ExpectNumbers(FetchFrom(sender.address(), Numbers(1500)), 1500);
    EXPECT_EQ(other_.fetches, ++fetches) << "case " << fetches - 1;
  }
}

TEST_F(SharedMemoryChannelTest, ASilentSenderIsAbandoned) {
  receiver_ = Channel({.max_bytes = kMax, .patience_in_ms = 300});
  Notification tested;
  FakeSender sender(
      [&](int, const LocalPacket&) { tested.WaitUntil(std::chrono::steady_clock::now() + kLong); });
  const Status status = FetchFrom(sender.address(), Numbers(5)).status();
  EXPECT_TRUE(errors::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(StrCat("Task ", kTask, " has been silent")));
  EXPECT_EQ(other_.fetches, 0);
  tested.Notify();
}

TEST_F(SharedMemoryChannelTest, CancellationEndsTheWait) {
  CancellationManager cancellation;
  Notification asked, released;
  FakeSender sender([&](int fd, const LocalPacket& fetch) {
    asked.Notify();
    released.WaitUntil(std::chrono::steady_clock::now() + kLong);
    // A segment that arrives too late is returned.
    const FileDescriptor memory = Memory(8192, F_SEAL_SHRINK | F_SEAL_GROW);
    (void)SendPacket(fd, {Kind::kTensor, 3, fetch.number, 0, 8192}, memory.get(), true);
    for (const Kind kind : {Kind::kMapped, Kind::kRelease}) {
      const auto answer = ReceivePacket(fd);
      ASSERT_TRUE(answer.ok() && *answer);
      EXPECT_EQ((*answer)->packet.kind, kind);
      EXPECT_EQ((*answer)->packet.segment, 3u);
    }
  });
  Result result;
  const Tensor tensor = Numbers(5);
  TensorFetch fetch = FetchOf(sender.address(), Hold(tensor), tensor, &result);
  fetch.cancellation = &cancellation;
  receiver_->Fetch(std::move(fetch));
  ASSERT_TRUE(asked.WaitUntil(std::chrono::steady_clock::now() + kLong));
  cancellation.StartCancel();
  EXPECT_TRUE(errors::IsCancelled(result.Wait().status()));
  released.Notify();
  Result late;
  fetch = FetchOf(sender.address(), Hold(tensor), tensor, &late);
  fetch.cancellation = &cancellation;
  receiver_->Fetch(std::move(fetch));
  EXPECT_TRUE(errors::IsCancelled(late.Wait().status()));
}

class FakeReceiverTest : public SharedMemoryChannelTest {
 protected:
  void SetUp() override {
    SharedMemoryChannelTest::SetUp();
    const auto address = SharedMemoryAddress::Parse(Address());
    ASSERT_TRUE(address.ok());
    address_ = *address;
  }
  void Connect(uint64_t secret) {
    fd_ = *ConnectToUnixSocket(address_.socket);
    SetSocketTimeout(fd_.get(), kLong);
    Send({Kind::kHello, 0, kLocalPacketVersion, secret});
  }
  void Send(const LocalPacket& packet) { EXPECT_TRUE(SendPacket(fd_.get(), packet, -1, true).ok()); }
  // nullopt: the sender has closed the connection.
  std::optional<ReceivedPacket> Receive() {
    auto received = ReceivePacket(fd_.get());
    if (!received.ok()) return std::nullopt;
    EXPECT_TRUE(received->has_value()) << "no answer";
    return *std::move(received);
  }

  SharedMemoryAddress address_;
  FileDescriptor fd_;
};

TEST_F(FakeReceiverTest, AReceiverWithoutTheSecretGetsNothing) {
  const uint64_t ticket = Hold(Numbers(5));
  Connect(address_.secret + 1);
  (void)SendPacket(fd_.get(), {Kind::kFetch, 0, 1, ticket, 20}, -1, true);
  EXPECT_EQ(Receive(), std::nullopt);
  fd_ = *ConnectToUnixSocket(address_.socket);
  (void)SendPacket(fd_.get(), {Kind::kFetch, 0, 1, ticket, 20}, -1, true);
  EXPECT_EQ(Receive(), std::nullopt);
  EXPECT_TRUE(Eventually([&] { return sender_->num_connections() == 0; }));
}

TEST_F(FakeReceiverTest, ATensorIsKeptUntilItsMemoryHasArrived) {
  Connect(address_.secret);
  Send({Kind::kFetch, 0, 9, Hold(Numbers(5)), 20});
  const auto first = Receive();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->packet.kind, Kind::kTensor);
  EXPECT_EQ(first->packet.number, 9u);
  EXPECT_TRUE(first->descriptor.valid());
  EXPECT_EQ(held_->size(), 1u);
  const auto memory = SharedMemory::Map(first->descriptor, first->packet.num_bytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(static_cast<const float*>((*memory)->data())[4], 4.f);
  EXPECT_NE(ftruncate(first->descriptor.get(), 0), 0) << "its size is sealed";
  Send({Kind::kMapped, first->packet.segment});
  Send({Kind::kFetch, 0, 10, Hold(Numbers(5, 1)), 20});
  const auto second = Receive();
  ASSERT_TRUE(second);
  EXPECT_NE(second->packet.segment, first->packet.segment);
  EXPECT_TRUE(Eventually([&] { return held_->size() == 1; })) << "the first one is dropped";
  Send({Kind::kRelease, second->packet.segment});
  Send({Kind::kFetch, 0, 11, Hold(Numbers(5, 2)), 20});
  const auto third = Receive();
  ASSERT_TRUE(third);
  EXPECT_EQ(third->packet.segment, second->packet.segment);
  EXPECT_FALSE(third->descriptor.valid());
  // The sender drops the tensor after the answer.
  EXPECT_TRUE(Eventually([&] { return held_->size() == 0; }));
  // A receiver that has died.
  fd_.Close();
  EXPECT_TRUE(Eventually([&] { return sender_->num_connections() == 0; }));
}

TEST_F(FakeReceiverTest, RequestsThatMakeNoSenseCloseTheConnection) {
  const LocalPacket wrongs[] = {{Kind::kRelease, 1},    {Kind::kMapped, 0}, {Kind::kHello, 0, 1},
                                {Kind::kTensor, 1},     {Kind::kDrop, 1},   {Kind::kRefused},
                                {static_cast<Kind>(77)}};
  for (const LocalPacket& wrong : wrongs) {
    Connect(address_.secret);
    Send(wrong);
    EXPECT_EQ(Receive(), std::nullopt) << static_cast<int>(wrong.kind);
  }
  Connect(address_.secret);
  for (const int64_t wrong : {int64_t{-1}, int64_t{0}, int64_t{19}, int64_t{21}, INT64_MAX, INT64_MIN}) {
    Send({Kind::kFetch, 0, 5, Hold(Numbers(5)), wrong});
    const auto answer = Receive();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->packet.kind, Kind::kRefused) << wrong;
  }
  Send({Kind::kFetch, 0, 5, Hold(Numbers(5)), 20});
  const auto answer = Receive();
  ASSERT_TRUE(answer);
  Send({Kind::kRelease, answer->packet.segment});
  Send({Kind::kRelease, answer->packet.segment});
  EXPECT_EQ(Receive(), std::nullopt) << "it is released already";
}

}  // namespace
}  // namespace millrace
