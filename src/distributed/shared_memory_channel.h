// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/mutex.h"
#include "base/waiting_threads.h"
#include "distributed/held_tensors.h"
#include "distributed/shared_memory_link.h"
#include "distributed/shared_memory_sender.h"
#include "distributed/tensor_channel.h"

namespace millrace {

// Moves tensors between tasks of one machine and one user through shared memory: one copy, into that
// memory. A receiver connects to a socket of the sender, whose name is in the offer; the kernel shows each
// side the user of the other one. Without such a connection, or when memory is short, the tensor is moved
// by `other`.
class SharedMemoryChannel : public TensorChannel {
 public:
  static constexpr std::string_view kName = "shared_memory";
  struct Options {
    int64_t min_bytes = 0;          // smaller tensors travel in their response
    int64_t max_bytes = 0;          // of shared memory for each pair of tasks
    int64_t patience_in_ms = 5000;  // how long a sender may be silent
    uid_t user = ::geteuid();       // of both tasks
    int most_threads = std::numeric_limits<int>::max();
  };
  // REQUIRES: `other`, which fetches by the same tickets, outlives Stop.
  SharedMemoryChannel(std::shared_ptr<HeldTensors> held, TensorChannel& other, const Options& options);
  ~SharedMemoryChannel() override;

  std::string_view name() const override { return kName; }
  std::string Introduction() const override;
  std::optional<std::string> AddressFor(std::string_view introduction, int64_t num_bytes) override;
  void Fetch(TensorFetch fetch) override MR_EXCLUDES(mu_);
  void Stop() override MR_EXCLUDES(mu_);

  // Receivers that are connected.
  size_t num_connections() const { return sender_.num_connections(); }

 private:
  StatusOr<std::shared_ptr<SharedMemoryLink>> LinkTo(const std::string& address) MR_EXCLUDES(mu_);
  void FallBack(TensorFetch fetch) MR_EXCLUDES(mu_);
  void Schedule(UniqueFunction<void()> work) MR_EXCLUDES(mu_);

  TensorChannel& other_;
  const Options options_;
  const std::string machine_;
  std::unique_ptr<WaitingThreads> threads_;
  SharedMemorySender sender_;
  Mutex mu_;
  bool stopped_ MR_GUARDED_BY(mu_) = false;
  std::map<std::string, std::shared_ptr<SharedMemoryLink>> links_ MR_GUARDED_BY(mu_);  // by address
  std::set<std::string> refused_ MR_GUARDED_BY(mu_);                                   // addresses
};

}  // namespace millrace
