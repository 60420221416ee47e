// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/socket_channel.h"

#include <algorithm>
#include <utility>

#include "base/logging.h"
#include "base/strings.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kConnectPatience{2000};
constexpr size_t kIdlePerPeer = 4;
constexpr size_t kMostPeers = 1024;
// Large tensors are sent in parts, each on one connection: one connection keeps less than one core of each
// side busy, and the two sides unevenly.
constexpr int64_t kBytesOfPart = int64_t{8} << 20;
constexpr int64_t kMostParts = 4;
constexpr int64_t kPartAlignment = 4096;

int64_t PartsOf(int64_t num_bytes) { return std::clamp<int64_t>(num_bytes / kBytesOfPart, 1, kMostParts); }

}  // namespace

// One fetch, in concurrent parts. They hold references to it, as does the callback of its cancellation.
class SocketChannel::Transfer : public RefCounted {
 public:
  Transfer(SocketChannel& channel, TensorFetch fetch, Peer peer, const SocketAddress& address)
      : channel_(channel), fetch_(std::move(fetch)), peer_(std::move(peer)), address_(address) {}

  void Start() MR_EXCLUDES(mu_) {
    StatusOr<Tensor> tensor = Tensor::Allocate(fetch_.dtype, fetch_.shape);
    if (!tensor.ok()) return fetch_.done(std::move(tensor).status());
    tensor_ = *std::move(tensor);
    if (fetch_.cancellation != nullptr) {
      const std::string& task = fetch_.task;
      token_ = fetch_.cancellation->Register([self = ShareRef(this), task] {
        self->End(errors::Cancelled("The transfer of a tensor from ", task, " was cancelled"));
      });
      if (token_ == CancellationManager::kInvalidToken)
        End(errors::Cancelled("The transfer of a tensor from ", fetch_.task, " was cancelled"));
    }
    const int64_t parts = PartsOf(fetch_.num_bytes);
    const int64_t each = (fetch_.num_bytes / parts + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
    {
      MutexLock lock(mu_);
      left_ = static_cast<int>(parts);
    }
    for (int64_t i = 1; i < parts; ++i) {
      const int64_t begin = i * each, end = i + 1 == parts ? fetch_.num_bytes : begin + each;
      channel_.ScheduleOrRun([self = ShareRef(this), begin, end] { self->RunPart(begin, end - begin); });
    }
    RunPart(0, parts == 1 ? fetch_.num_bytes : each);
  }

  // REQUIRES: it was not started, and never will be.
  TensorFetch TakeFetch() { return std::move(fetch_); }

  // Stops all parts; the status is the result unless there is another one.
  void End(const Status& status) MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    status_.Update(status);
    for (const int fd : connections_) ShutDownSocket(fd);
  }

 private:
  // kRefused: the connection is valid, but the tensor is not available.
  enum class Outcome { kDone, kRefused, kNoConnection, kStale, kError };

  void RunPart(int64_t offset, int64_t num_bytes) MR_EXCLUDES(mu_) {
    Status status;
    Outcome outcome = Outcome::kStale;
    // A connection that was used before may have been closed by the sender.
    while (outcome == Outcome::kStale) outcome = TryPart(offset, num_bytes, &status);
    PartEnded(status, outcome == Outcome::kRefused || outcome == Outcome::kNoConnection);
  }

  Outcome TryPart(int64_t offset, int64_t num_bytes, Status* status) MR_EXCLUDES(mu_) {
    bool used = false;
    StatusOr<std::shared_ptr<FileDescriptor>> taken = channel_.Take(peer_, &used);
    if (!taken.ok()) return Outcome::kNoConnection;
    const std::shared_ptr<FileDescriptor> connection = *std::move(taken);
    const int fd = connection->get();
    {
      MutexLock lock(mu_);
      if (!status_.ok()) return Outcome::kError;
      connections_.insert(fd);
    }
    const Outcome outcome = Exchange(fd, offset, num_bytes, used, status);
    {
      MutexLock lock(mu_);
      connections_.erase(fd);
      if (!status_.ok()) return Outcome::kError;
    }
    if (outcome == Outcome::kDone || outcome == Outcome::kRefused) channel_.GiveBack(peer_, connection);
    return outcome;
  }

  Outcome Exchange(int fd, int64_t offset, int64_t num_bytes, bool used, Status* status) {
    const milliseconds patience = channel_.options_.patience;
    const SocketRequest request{SocketRequest::kMagic, address_.token, fetch_.ticket, offset, num_bytes};
    const std::string_view text(reinterpret_cast<const char*>(&request), sizeof(request));
    const Outcome no_answer = used ? Outcome::kStale : Outcome::kNoConnection;
    if (!WriteAll(fd, text, {}, patience).ok()) return no_answer;
    SocketAnswer answer;
    TransferResult read = ReadAll(fd, &answer, sizeof(answer), patience);
    if (errors::IsUnavailable(read.status) && read.size == 0) return no_answer;
    if (read.status.ok() && answer.kind == SocketAnswer::kRefused && answer.num_bytes == 0)
      return Outcome::kRefused;
    if (read.status.ok() && (answer.kind != SocketAnswer::kGranted || answer.num_bytes != num_bytes)) {
      *status = errors::Internal("Task ", fetch_.task, " sent something other than a tensor");
      return Outcome::kError;
    }
    if (read.status.ok()) {
      auto* const to = static_cast<char*>(tensor_.raw_data()) + offset;
      read = ReadAll(fd, to, static_cast<size_t>(num_bytes), patience);
      if (read.status.ok()) return Outcome::kDone;
    }
    if (errors::IsDeadlineExceeded(read.status)) {
      const auto tenths = patience.count() / 100;
      *status = errors::Unavailable("Task ", fetch_.task, " has been silent for ", tenths / 10, ".",
                                    tenths % 10, " s: the fetch of a tensor was abandoned");
    } else {
      *status = errors::Unavailable(
          "Task ", fetch_.task, " closed the connection in the middle of a tensor: ", read.status.message());
    }
    return Outcome::kError;
  }

  void PartEnded(const Status& status, bool other_way) MR_EXCLUDES(mu_) {
    if (!status.ok()) End(status);
    Status result;
    bool falls_back = false;
    {
      MutexLock lock(mu_);
      falls_back_ = falls_back_ || other_way;
      if (--left_ > 0) return;
      result = status_;
      falls_back = falls_back_;
    }
    channel_.Forget(this);
    if (token_ != CancellationManager::kInvalidToken) fetch_.cancellation->TryDeregister(token_);
    if (result.ok() && falls_back) return channel_.FallBack(std::move(fetch_));
    auto done = std::move(fetch_.done);
    if (!result.ok()) return done(std::move(result));
    done(std::move(tensor_));
  }

  SocketChannel& channel_;
  TensorFetch fetch_;  // ends with the last part
  const Peer peer_;
  const SocketAddress address_;
  Tensor tensor_;
  CancellationManager::Token token_ = CancellationManager::kInvalidToken;
  mutable Mutex mu_;
  int left_ MR_GUARDED_BY(mu_) = 1;
  bool falls_back_ MR_GUARDED_BY(mu_) = false;
  Status status_ MR_GUARDED_BY(mu_);
  std::set<int> connections_ MR_GUARDED_BY(mu_);
};

SocketChannel::SocketChannel(std::shared_ptr<HeldTensors> held, TensorChannel& other, const Options& options)
    : other_(other),
      options_(options),
      threads_(std::make_unique<WaitingThreads>(options.most_threads)),
      sender_(std::move(held),
              {.listen = options.listen,
               .port = options.port,
               .patience = options.patience,
               .take_calls = options.take_calls},
              *threads_) {}

SocketChannel::~SocketChannel() { Stop(); }

std::optional<std::string> SocketChannel::AddressFor(std::string_view /*introduction*/, int64_t num_bytes) {
  if (num_bytes < options_.min_bytes) return std::nullopt;
  const StatusOr<SocketAddress> address = sender_.AddressFor(num_bytes);
  if (!address.ok()) return std::nullopt;
  return address->ToString();
}

void SocketChannel::Fetch(TensorFetch fetch) {
  const auto address = SocketAddress::Parse(fetch.address);
  const auto task = options_.peers.find(fetch.task);
  if (!address.ok() || task == options_.peers.end()) return FallBack(std::move(fetch));
  Peer peer{task->second.substr(0, task->second.rfind(':')), address->port};
  RefPtr<Transfer> transfer;
  {
    MutexLock lock(mu_);
    if (!stopped_ && MayReach(peer)) {
      transfer = MakeRef<Transfer>(*this, std::move(fetch), std::move(peer), *address);
      UniqueFunction<void()> start = [transfer] { transfer->Start(); };
      if (threads_->TrySchedule(start)) {
        transfers_.insert(transfer.get());
        return;
      }
      fetch = transfer->TakeFetch();
    }
  }
  FallBack(std::move(fetch));
}

bool SocketChannel::MayReach(const Peer& peer) {
  const auto refused = refused_.find(peer);
  if (refused == refused_.end()) return true;
  if (Clock::now() < refused->second) return false;
  // Only one tensor tries again.
  refused->second = Clock::now() + options_.retry_after;
  return true;
}

void SocketChannel::FallBack(TensorFetch fetch) {
  bool stopped = false;
  {
    MutexLock lock(mu_);
    stopped = stopped_;
  }
  if (stopped) return fetch.done(errors::Cancelled("The task is shutting down"));
  other_.Fetch(std::move(fetch));
}

void SocketChannel::ScheduleOrRun(UniqueFunction<void()> work) {
  {
    MutexLock lock(mu_);
    if (!stopped_ && threads_->TrySchedule(work)) return;
  }
  work();
}

void SocketChannel::Forget(Transfer* transfer) {
  MutexLock lock(mu_);
  transfers_.erase(transfer);
}

StatusOr<std::shared_ptr<FileDescriptor>> SocketChannel::Take(const Peer& peer, bool* used) {
  {
    MutexLock lock(mu_);
    if (stopped_) return errors::Unavailable("The task is shutting down");
    std::vector<std::shared_ptr<FileDescriptor>>& idle = idle_[peer];
    while (!idle.empty()) {
      std::shared_ptr<FileDescriptor> taken = std::move(idle.back());
      idle.pop_back();
      if (HasEnded(taken->get())) continue;
      *used = true;
      return taken;
    }
    idle_.erase(peer);
  }
  *used = false;
  StatusOr<FileDescriptor> made =
      ConnectWithTcp(peer.first, peer.second, std::min(kConnectPatience, options_.patience));
  MutexLock lock(mu_);
  if (made.ok()) {
    refused_.erase(peer);
    return std::make_shared<FileDescriptor>(*std::move(made));
  }
  if (refused_.size() >= kMostPeers) refused_.clear();
  if (refused_.insert_or_assign(peer, Clock::now() + options_.retry_after).second)
    MR_LOG(Warning) << "Tensors are sent without data sockets: " << made.status();
  return made.status();
}

void SocketChannel::GiveBack(const Peer& peer, std::shared_ptr<FileDescriptor> fd) {
  MutexLock lock(mu_);
  if (stopped_) return;
  // Closes connections that the other side has closed, so that those to ended tasks do not remain.
  for (auto it = idle_.begin(); it != idle_.end();) {
    std::erase_if(it->second, [](const auto& idle) { return HasEnded(idle->get()); });
    it = it->second.empty() ? idle_.erase(it) : std::next(it);
  }
  std::vector<std::shared_ptr<FileDescriptor>>& idle = idle_[peer];
  if (idle.size() < kIdlePerPeer) idle.push_back(std::move(fd));
}

void SocketChannel::Stop() {
  std::vector<RefPtr<Transfer>> transfers;
  {
    MutexLock lock(mu_);
    if (stopped_) return;
    stopped_ = true;
    for (Transfer* const transfer : transfers_) transfers.push_back(ShareRef(transfer));
  }
  for (const auto& transfer : transfers) transfer->End(errors::Cancelled("The task is shutting down"));
  sender_.Stop();
  threads_.reset();  // waits for them
  MutexLock lock(mu_);
  idle_.clear();
}

}  // namespace millrace
