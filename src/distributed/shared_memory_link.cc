// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/shared_memory_link.h"

#include <cstring>
#include <utility>

#include "tensor/buffer.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLookEvery{200};
// The interval between checks is much shorter, unless this process was stopped.
constexpr std::chrono::seconds kStopped{1};
constexpr size_t kMostSegments = 4096;

Status Nonsense(std::string_view what) {
  return errors::Internal("The sender of shared memory violates the protocol: ", what);
}

}  // namespace

// A fetch that waits for its tensor, and ends once: with it, by cancellation, or otherwise.
class SharedMemoryLink::Waiting : public RefCounted {
 public:
  explicit Waiting(TensorFetch f)
      : task(f.task), dtype(f.dtype), shape(f.shape), num_bytes(f.num_bytes), fetch_(std::move(f)) {}

  // Returns whether it has already been cancelled.
  bool WatchCancellation() MR_EXCLUDES(mu_) {
    CancellationManager* const cancellation = fetch_.cancellation;
    if (cancellation == nullptr) return false;
    {
      MutexLock lock(mu_);
      token_ = cancellation->Register([self = ShareRef(this)] { self->Finish(self->Cancelled()); });
      if (token_ != CancellationManager::kInvalidToken) return false;
    }
    Finish(Cancelled());
    return true;
  }
  std::optional<TensorFetch> Take() MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (std::exchange(ended_, true)) return std::nullopt;
    if (token_ != CancellationManager::kInvalidToken) fetch_.cancellation->TryDeregister(token_);
    return std::move(fetch_);
  }
  bool ended() const MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return ended_;
  }
  void Finish(StatusOr<Tensor> tensor) MR_EXCLUDES(mu_) {
    if (auto fetch = Take()) fetch->done(std::move(tensor));
  }

  const std::string task;
  const DataType dtype;
  const TensorShape shape;
  const int64_t num_bytes;
  const steady_clock::time_point start = steady_clock::now();

 private:
  Status Cancelled() const {
    return errors::Cancelled("The transfer of a tensor from ", task, " was cancelled");
  }

  mutable Mutex mu_;
  bool ended_ MR_GUARDED_BY(mu_) = false;
  CancellationManager::Token token_ MR_GUARDED_BY(mu_) = CancellationManager::kInvalidToken;
  TensorFetch fetch_;  // guarded by ended_: the thread that sets it owns the fetch
};

StatusOr<std::shared_ptr<SharedMemoryLink>> SharedMemoryLink::Connect(const std::string& socket,
                                                                      uint64_t secret, const Options& options,
                                                                      Actions actions) {
  MR_ASSIGN_OR_RETURN(FileDescriptor fd, ConnectToUnixSocket(socket));
  if (!IsPeerOfUser(fd.get(), options.user))
    return errors::PermissionDenied("The socket for shared memory belongs to another user");
  SetSocketTimeout(fd.get(), kLookEvery);
  std::shared_ptr<SharedMemoryLink> link(new SharedMemoryLink(std::move(fd), options, std::move(actions)));
  MutexLock lock(link->mu_);
  link->Send({Kind::kHello, 0, kLocalPacketVersion, secret});
  return link;
}

SharedMemoryLink::SharedMemoryLink(FileDescriptor fd, const Options& options, Actions actions)
    : fd_(std::move(fd)), options_(options), actions_(std::move(actions)) {}

SharedMemoryLink::~SharedMemoryLink() = default;

bool SharedMemoryLink::HasDelivered() const {
  MutexLock lock(mu_);
  return delivered_;
}

std::optional<TensorFetch> SharedMemoryLink::Start(TensorFetch fetch) {
  LocalPacket packet{Kind::kFetch, 0, 0, fetch.ticket, fetch.num_bytes};
  const RefPtr<Waiting> waiting = MakeRef<Waiting>(std::move(fetch));
  if (waiting->WatchCancellation()) return std::nullopt;
  Status why;
  {
    MutexLock lock(mu_);
    why = why_;
    if (!closed_) {
      packet.number = next_number_++;
      waiting_.emplace(packet.number, waiting);
      Send(packet);
      return std::nullopt;
    }
  }
  if (why.ok()) return waiting->Take();
  waiting->Finish(why);
  return std::nullopt;
}

Status SharedMemoryLink::Run() {
  Status status = Receive();
  Close(Status());
  return status;
}

Status SharedMemoryLink::Receive() {
  while (true) {
    MR_ASSIGN_OR_RETURN(auto received, ReceivePacket(fd_.get()));
    if (received) {
      MR_RETURN_IF_ERROR(Handle(*std::move(received)));
    } else {
      MR_RETURN_IF_ERROR(CheckSilence());
    }
    MutexLock lock(mu_);
    if (closed_) return why_;
    Flush();
  }
}

void SharedMemoryLink::Close(const Status& status) {
  decltype(waiting_) waiting;
  decltype(segments_) segments;
  Status why;
  {
    MutexLock lock(mu_);
    if (!closed_) why_ = status;
    closed_ = true;
    why = why_;
    waiting.swap(waiting_);
    segments.swap(segments_);  // those with tensors continue to exist
    unsent_.clear();
  }
  ShutDownSocket(fd_.get());
  for (const auto& [number, one] : waiting) {
    if (!why.ok()) {
      one->Finish(why);
    } else if (auto fetch = one->Take()) {
      actions_.fall_back(*std::move(fetch));
    }
  }
}

Status SharedMemoryLink::CheckSilence() {
  const auto now = steady_clock::now();
  Status silent;
  {
    MutexLock lock(mu_);
    if (now - looked_ > kStopped) heard_ = now;  // this process was stopped itself
    looked_ = now;
    if (waiting_.empty()) return Status();
    const Waiting& oldest = *waiting_.begin()->second;
    const auto since = now - std::max(heard_, oldest.start);
    if (since < milliseconds(options_.patience_in_ms)) return Status();
    const auto ms = std::chrono::duration_cast<milliseconds>(since).count();
    silent = errors::Unavailable("Task ", oldest.task, " has been silent for ", ms / 1000, ".", ms / 100 % 10,
                                 " s: the fetch of a tensor was abandoned");
  }
  Close(silent);
  return silent;
}

Status SharedMemoryLink::Handle(ReceivedPacket received) {
  const LocalPacket& packet = received.packet;
  {
    MutexLock lock(mu_);
    looked_ = heard_ = steady_clock::now();
  }
  switch (packet.kind) {
    case Kind::kTensor:
      return HandleTensor(packet, received.descriptor);
    case Kind::kRefused: {
      const RefPtr<Waiting> waiting = Take(packet.number);
      if (waiting == nullptr) return Nonsense("it refuses a tensor that was not requested");
      if (auto fetch = waiting->Take()) actions_.fall_back(*std::move(fetch));
      return Status();
    }
    case Kind::kDrop: {
      RefPtr<SharedMemory> dropped;  // unmapped after the lock is released
      MutexLock lock(mu_);
      const auto it = segments_.find(packet.segment);
      if (it == segments_.end() || it->second.in_use) return Nonsense("it drops an unknown segment");
      dropped = std::move(it->second.memory);
      all_bytes_ -= dropped->size();
      segments_.erase(it);
      return Status();
    }
    default:
      return Nonsense("it sent a message that only receivers send");
  }
}

RefPtr<SharedMemoryLink::Waiting> SharedMemoryLink::Take(uint64_t number) {
  MutexLock lock(mu_);
  const auto it = waiting_.find(number);
  if (it == waiting_.end()) return nullptr;
  RefPtr<Waiting> waiting = std::move(it->second);
  waiting_.erase(it);
  return waiting;
}

Status SharedMemoryLink::HandleTensor(const LocalPacket& packet, const FileDescriptor& descriptor) {
  const RefPtr<Waiting> waiting = Take(packet.number);
  if (waiting == nullptr) return Nonsense("it answers a request that was not made");
  RefPtr<SharedMemory> memory;
  bool copy = false;
  Status status;
  if (descriptor.valid()) {
    // The limit belongs to the sender; another sender's cannot be much larger.
    if (packet.num_bytes > 2 * options_.max_bytes) {
      status = Nonsense("a segment is too large");
    } else {
      auto mapped = SharedMemory::Map(descriptor, packet.num_bytes);
      status = mapped.status();
      if (mapped.ok()) memory = *std::move(mapped);
    }
  }
  {
    MutexLock lock(mu_);
    if (status.ok() && !closed_) {
      if (memory != nullptr) {
        if (segments_.contains(packet.segment) || segments_.size() >= kMostSegments ||
            all_bytes_ + memory->size() > 2 * options_.max_bytes) {
          status = Nonsense("the number of a new segment is in use, or there are too many segments");
        } else {
          all_bytes_ += memory->size();
          segments_.emplace(packet.segment, Segment{memory});
          Send({Kind::kMapped, packet.segment});
        }
      }
      const auto it = segments_.find(packet.segment);
      if (status.ok() && (it == segments_.end() || it->second.in_use))
        status = Nonsense("a tensor is in an unknown segment, or in one that is in use");
      if (status.ok() && it->second.memory->size() < waiting->num_bytes)
        status = Nonsense("a tensor does not fit into its segment");
      if (status.ok()) {
        it->second.in_use = true;
        delivered_ = true;
        memory = it->second.memory;
        used_bytes_ += memory->size();
        copy = used_bytes_ > options_.max_bytes / 2;
      }
    } else if (status.ok()) {
      status = errors::Unavailable("The connection is closed");
    }
  }
  if (status.ok()) {
    Deliver(waiting, packet.segment, std::move(memory), copy);
  } else if (auto fetch = waiting->Take()) {
    actions_.fall_back(*std::move(fetch));
  }
  return status;
}

void SharedMemoryLink::Deliver(const RefPtr<Waiting>& waiting, uint32_t segment, RefPtr<SharedMemory> memory,
                               bool copy) {
  void* const data = memory->data();
  const auto size = static_cast<size_t>(waiting->num_bytes);
  const RefPtr<Buffer> buffer = Buffer::Wrap(
      data, size, [self = shared_from_this(), segment, kept = std::move(memory)] { self->Release(segment); });
  if (waiting->ended()) return;
  actions_.schedule(
      [waiting, copy, tensor = Tensor::FromBuffer(waiting->dtype, waiting->shape, buffer, data)]() mutable {
        if (!copy) return waiting->Finish(std::move(tensor));
        StatusOr<Tensor> copied = Tensor::Allocate(waiting->dtype, waiting->shape);
        if (copied.ok()) std::memcpy(copied->raw_data(), tensor.raw_data(), tensor.num_bytes());
        tensor = Tensor();
        waiting->Finish(std::move(copied));
      });
}

void SharedMemoryLink::Release(uint32_t segment) {
  MutexLock lock(mu_);
  const auto it = segments_.find(segment);
  if (it == segments_.end()) return;  // the link is closed
  it->second.in_use = false;
  used_bytes_ -= it->second.memory->size();
  Send({Kind::kRelease, segment});
}

void SharedMemoryLink::Send(const LocalPacket& packet) {
  if (closed_) return;
  unsent_.push_back(packet);
  Flush();
}

void SharedMemoryLink::Flush() {
  while (!unsent_.empty()) {
    const StatusOr<bool> sent = SendPacket(fd_.get(), unsent_.front(), -1, false);
    // The next receive reports an error, too.
    if (!sent.ok() || !*sent) return;
    unsent_.pop_front();
  }
}

}  // namespace millrace
