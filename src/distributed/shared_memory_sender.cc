// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/shared_memory_sender.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <latch>
#include <map>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "base/logging.h"
#include "base/random/philox.h"
#include "base/strings.h"
#include "distributed/shared_memory.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::string_view kSocketPrefix = "millrace-";
constexpr size_t kSocketDigits = 32;
constexpr size_t kSecretDigits = 16;
// Memory that has not been used for this time is freed.
constexpr std::chrono::seconds kIdle{10};
constexpr milliseconds kLookEvery{2000};
constexpr size_t kMostCopiers = 4;
constexpr size_t kBytesOfCopier = size_t{8} << 20;

std::string Hex(uint64_t value) { return HexEncode({reinterpret_cast<const char*>(&value), sizeof(value)}); }

// Rounds to sizes that many tensors share; larger by at most an eighth.
int64_t SizeFor(int64_t num_bytes) {
  const auto granule =
      static_cast<int64_t>(std::max(std::bit_floor(static_cast<uint64_t>(num_bytes)) / 8, uint64_t{4096}));
  return (num_bytes + granule - 1) / granule * granule;
}

}  // namespace

std::string SharedMemoryAddress::ToString() const { return StrCat(socket, ":", Hex(secret)); }

StatusOr<SharedMemoryAddress> SharedMemoryAddress::Parse(std::string_view text) {
  const auto wrong = [] { return errors::InvalidArgument("The address of shared memory is malformed"); };
  SharedMemoryAddress address;
  const size_t colon = kSocketPrefix.size() + kSocketDigits;
  if (text.size() != colon + 1 + kSecretDigits || text[colon] != ':' || !text.starts_with(kSocketPrefix))
    return wrong();
  const auto secret = HexDecode(text.substr(colon + 1));
  if (!HexDecode(text.substr(kSocketPrefix.size(), kSocketDigits)) || !secret) return wrong();
  address.socket = text.substr(0, colon);
  std::memcpy(&address.secret, secret->data(), sizeof(address.secret));
  return address;
}

// One receiver, on a separate thread.
class SharedMemorySender::Connection {
 public:
  Connection(FileDescriptor fd, SharedMemorySender& sender) : fd_(std::move(fd)), sender_(sender) {}

  void Run() {
    const Status status = Serve();
    if (!errors::IsUnavailable(status)) MR_LOG(Warning) << "Shared memory is refused: " << status;
  }
  void Stop() const { ShutDownSocket(fd_.get()); }

 private:
  using Kind = LocalPacket::Kind;
  struct Segment {
    RefPtr<SharedMemory> memory;
    bool is_known = false;  // to the receiver
    bool in_use = true;
    uint64_t ticket = 0;  // of the tensor in it, until the receiver has mapped it
    int64_t num_bytes = 0;
    steady_clock::time_point since = {};  // when it became unused
  };

  Status Serve() {
    if (!IsPeerOfUser(fd_.get(), sender_.options_.user))
      return errors::PermissionDenied("a process of another user has connected");
    SetSocketTimeout(fd_.get(), milliseconds(sender_.options_.patience_in_ms));
    MR_ASSIGN_OR_RETURN(auto hello, ReceivePacket(fd_.get()));
    if (!hello || hello->packet.kind != Kind::kHello || hello->packet.number != kLocalPacketVersion ||
        hello->packet.ticket != sender_.secret_)
      return errors::PermissionDenied("a process has connected that does not know the secret of this task");
    SetSocketTimeout(fd_.get(), kLookEvery);
    auto look = steady_clock::now() + kLookEvery;
    while (true) {
      MR_ASSIGN_OR_RETURN(auto received, ReceivePacket(fd_.get()));
      if (received) MR_RETURN_IF_ERROR(Handle(received->packet));
      if (steady_clock::now() < look) continue;
      MR_RETURN_IF_ERROR(DropIdle(steady_clock::now() - kIdle));
      look = steady_clock::now() + kLookEvery;
    }
  }

  Status Handle(const LocalPacket& packet) {
    switch (packet.kind) {
      case Kind::kFetch:
        return Fetch(packet);
      case Kind::kMapped:
      case Kind::kRelease: {
        const auto it = segments_.find(packet.segment);
        if (it == segments_.end() || !it->second.in_use)
          return errors::InvalidArgument("a receiver names a segment that it does not hold");
        Arrived(&it->second);
        if (packet.kind == Kind::kMapped) return Status();
        it->second.in_use = false;
        it->second.since = steady_clock::now();
        return Status();
      }
      default:
        return errors::InvalidArgument("a receiver sent a message that only senders send");
    }
  }

  Status Fetch(const LocalPacket& packet) {
    LocalPacket answer{Kind::kRefused, 0, packet.number};
    const StatusOr<Tensor> tensor = sender_.held_->Find(packet.ticket);
    const bool fits = tensor.ok() && static_cast<int64_t>(tensor->num_bytes()) == packet.num_bytes;
    MR_ASSIGN_OR_RETURN(Segment* const segment, fits ? Take(packet.num_bytes) : StatusOr<Segment*>(nullptr));
    if (segment == nullptr) return Send(answer, -1);
    Copy(static_cast<const char*>(tensor->raw_data()), tensor->num_bytes(),
         static_cast<char*>(segment->memory->data()));
    segment->ticket = packet.ticket;
    segment->num_bytes = packet.num_bytes;
    answer.kind = Kind::kTensor;
    answer.segment = taken_;
    answer.num_bytes = segment->memory->size();
    const bool is_new = !segment->is_known;
    if (!is_new) Arrived(segment);
    return Send(answer, is_new ? segment->memory->descriptor() : -1);
  }

  // One core does not use the full memory bandwidth.
  void Copy(const char* from, size_t size, char* to) const {
    static const size_t most = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kMostCopiers);
    const size_t parts = std::clamp<size_t>(size / kBytesOfCopier, 1, most);
    std::latch left(static_cast<ptrdiff_t>(parts - 1));
    for (size_t i = 1; i < parts; ++i) {
      const size_t begin = size / parts * i, end = i + 1 == parts ? size : size / parts * (i + 1);
      sender_.threads_.ScheduleOrRun([&left, from, to, begin, end] {
        std::memcpy(to + begin, from + begin, end - begin);
        left.count_down();
      });
    }
    std::memcpy(to, from, size / parts);
    left.wait();
  }

  // The receiver can map the received memory: the tensor need not be kept for another channel.
  void Arrived(Segment* segment) {
    segment->is_known = true;
    if (segment->num_bytes > 0) sender_.held_->Sent(segment->ticket, segment->num_bytes);
    segment->num_bytes = 0;
  }

  // A segment of at least this size, whose number is `taken_`; null if no more are allowed.
  StatusOr<Segment*> Take(int64_t num_bytes) {
    const int64_t max_bytes = sender_.options_.max_bytes;
    if (num_bytes <= 0 || num_bytes > max_bytes) return nullptr;
    const int64_t size = SizeFor(num_bytes);
    Segment* best = nullptr;
    for (auto& [number, segment] : segments_) {
      const int64_t has = segment.memory->size();
      if (segment.in_use || has < num_bytes || has > 2 * size) continue;
      if (best != nullptr && best->memory->size() <= has) continue;
      best = &segment;
      taken_ = number;
    }
    if (best != nullptr) {
      best->in_use = true;
      return best;
    }
    if (all_bytes_ + size > max_bytes) MR_RETURN_IF_ERROR(DropIdle(steady_clock::now()));
    if (all_bytes_ + size > max_bytes) return nullptr;
    StatusOr<RefPtr<SharedMemory>> memory = SharedMemory::Create(size);
    if (!memory.ok()) return nullptr;
    all_bytes_ += size;
    taken_ = next_segment_++;
    return &segments_.emplace(taken_, Segment{*std::move(memory)}).first->second;
  }

  Status DropIdle(steady_clock::time_point until) {
    for (auto it = segments_.begin(); it != segments_.end();) {
      if (it->second.in_use || it->second.since > until) {
        ++it;
        continue;
      }
      MR_RETURN_IF_ERROR(Send({Kind::kDrop, it->first}, -1));
      all_bytes_ -= it->second.memory->size();
      it = segments_.erase(it);
    }
    return Status();
  }

  Status Send(const LocalPacket& packet, int descriptor) {
    MR_ASSIGN_OR_RETURN(const bool sent, SendPacket(fd_.get(), packet, descriptor, true));
    return sent ? Status() : errors::Unavailable("The receiver does not accept packets");
  }

  const FileDescriptor fd_;
  SharedMemorySender& sender_;
  std::map<uint32_t, Segment> segments_;
  uint32_t next_segment_ = 1;
  uint32_t taken_ = 0;
  int64_t all_bytes_ = 0;
};

SharedMemorySender::SharedMemorySender(std::shared_ptr<HeldTensors> held, const Options& options,
                                       WaitingThreads& threads)
    : held_(std::move(held)), options_(options), secret_(RandomSeed64()), threads_(threads) {}

StatusOr<std::string> SharedMemorySender::Address() {
  MutexLock lock(mu_);
  if (stopped_) return errors::Unavailable("The task is shutting down");
  if (!address_.empty()) return address_;
  SharedMemoryAddress address{StrCat(kSocketPrefix, Hex(RandomSeed64()), Hex(RandomSeed64())), secret_};
  MR_ASSIGN_OR_RETURN(listening_, ListenOnUnixSocket(address.socket));
  UniqueFunction<void()> accept = [this] { Accept(); };
  if (!threads_.TrySchedule(accept)) {
    listening_ = FileDescriptor();
    return errors::ResourceExhausted("Could not start a thread for shared memory");
  }
  return address_ = address.ToString();
}

void SharedMemorySender::Accept() {
  while (true) {
    StatusOr<FileDescriptor> fd = AcceptOnUnixSocket(listening_.get());
    MutexLock lock(mu_);
    if (stopped_) return;
    if (!fd.ok()) {
      MR_LOG(Warning) << "Shared memory is disabled: " << fd.status();
      return;
    }
    if (connections_.size() >= kMostConnections) continue;
    const auto connection = std::make_shared<Connection>(*std::move(fd), *this);
    connections_.insert(connection);
    UniqueFunction<void()> run = [this, connection] {
      connection->Run();
      MutexLock forget(mu_);
      connections_.erase(connection);
    };
    if (!threads_.TrySchedule(run)) connections_.erase(connection);  // closes it
  }
}

void SharedMemorySender::Stop() {
  MutexLock lock(mu_);
  if (std::exchange(stopped_, true)) return;
  if (listening_.valid()) ShutDownSocket(listening_.get());
  for (const auto& connection : connections_) connection->Stop();
}

size_t SharedMemorySender::num_connections() const {
  MutexLock lock(mu_);
  return connections_.size();
}

}  // namespace millrace
