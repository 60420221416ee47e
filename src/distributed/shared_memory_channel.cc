// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/shared_memory_channel.h"

#include <sys/stat.h>

#include <fstream>
#include <utility>
#include <vector>

#include "base/logging.h"

namespace millrace {
namespace {

// The most refused addresses; old ones, of tasks that have restarted, are dropped.
constexpr size_t kMostRefused = 1024;

// Equal for processes of one machine that can reach each other's sockets; empty if unknown.
std::string ThisMachine() {
  std::string boot;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  struct stat network {};
  if (!std::getline(file, boot) || boot.empty() || ::stat("/proc/self/ns/net", &network) != 0) return "";
  return StrCat(boot, "/", network.st_dev, "/", network.st_ino);
}

}  // namespace

SharedMemoryChannel::SharedMemoryChannel(std::shared_ptr<HeldTensors> held, TensorChannel& other,
                                         const Options& options)
    : other_(other),
      options_(options),
      machine_(ThisMachine()),
      threads_(std::make_unique<WaitingThreads>(options.most_threads)),
      sender_(
          std::move(held),
          {.max_bytes = options.max_bytes, .user = options.user, .patience_in_ms = options.patience_in_ms},
          *threads_) {}

SharedMemoryChannel::~SharedMemoryChannel() { Stop(); }

std::string SharedMemoryChannel::Introduction() const {
  return machine_.empty() ? "" : StrCat(machine_, "/", options_.user);
}

std::optional<std::string> SharedMemoryChannel::AddressFor(std::string_view introduction, int64_t num_bytes) {
  if (num_bytes < options_.min_bytes || num_bytes > options_.max_bytes || machine_.empty() ||
      introduction != Introduction())
    return std::nullopt;
  StatusOr<std::string> address = sender_.Address();
  if (!address.ok()) return std::nullopt;
  return *std::move(address);
}

void SharedMemoryChannel::Fetch(TensorFetch fetch) {
  const auto link = LinkTo(fetch.address);
  if (!link.ok()) return FallBack(std::move(fetch));
  if (auto left = (*link)->Start(std::move(fetch))) FallBack(*std::move(left));
}

void SharedMemoryChannel::FallBack(TensorFetch fetch) {
  bool stopped = false;
  {
    MutexLock lock(mu_);
    stopped = stopped_;
  }
  if (stopped) return fetch.done(errors::Cancelled("The task is shutting down"));
  other_.Fetch(std::move(fetch));
}

void SharedMemoryChannel::Schedule(UniqueFunction<void()> work) {
  {
    MutexLock lock(mu_);
    if (!stopped_ && threads_->TrySchedule(work)) return;
  }
  work();
}

StatusOr<std::shared_ptr<SharedMemoryLink>> SharedMemoryChannel::LinkTo(const std::string& text) {
  MutexLock lock(mu_);
  if (stopped_ || refused_.contains(text))
    return errors::Unavailable("Shared memory is not available at this address");
  if (const auto it = links_.find(text); it != links_.end()) return it->second;
  MR_ASSIGN_OR_RETURN(const SharedMemoryAddress address, SharedMemoryAddress::Parse(text));
  auto connected = SharedMemoryLink::Connect(
      address.socket, address.secret,
      {.user = options_.user, .max_bytes = options_.max_bytes, .patience_in_ms = options_.patience_in_ms},
      {.schedule = [this](UniqueFunction<void()> work) { Schedule(std::move(work)); },
       .fall_back = [this](TensorFetch fetch) { FallBack(std::move(fetch)); }});
  if (!connected.ok()) {
    MR_LOG(Warning) << "Tensors are sent without shared memory: " << connected.status();
    if (refused_.size() >= kMostRefused) refused_.clear();
    refused_.insert(text);
    return connected.status();
  }
  std::shared_ptr<SharedMemoryLink> link = *std::move(connected);
  UniqueFunction<void()> run = [this, link, text] {
    const Status status = link->Run();
    MutexLock forget(mu_);
    links_.erase(text);
    if (stopped_ || link->HasDelivered()) return;
    MR_LOG(Warning) << "Tensors are sent without shared memory: " << status;
    if (refused_.size() >= kMostRefused) refused_.clear();
    refused_.insert(text);
  };
  if (!threads_->TrySchedule(run))
    return errors::ResourceExhausted("Could not start a thread for shared memory");
  links_[text] = link;
  return link;
}

void SharedMemoryChannel::Stop() {
  std::vector<std::shared_ptr<SharedMemoryLink>> links;
  {
    MutexLock lock(mu_);
    if (stopped_) return;
    stopped_ = true;
    for (const auto& [address, link] : links_) links.push_back(link);
  }
  sender_.Stop();
  for (const auto& link : links) link->Close(errors::Cancelled("The task is shutting down"));
  threads_.reset();  // waits for them
}

}  // namespace millrace
