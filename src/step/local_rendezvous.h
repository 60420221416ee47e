// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <string>
#include <unordered_map>

#include "base/mutex.h"
#include "kernel/rendezvous.h"

namespace millrace {

// The rendezvous of a step whose partitions are all in this process: a table of sent tensors and waiting
// receivers.
class LocalRendezvous : public Rendezvous {
 public:
  ~LocalRendezvous() override;
  Status Send(const Key& key, Tensor tensor, bool is_dead) override MR_EXCLUDES(mu_);
  void RecvAsync(const Key& key, RecvDone done) override MR_EXCLUDES(mu_);
  void StartAbort(const Status& status) override MR_EXCLUDES(mu_);
  bool empty() const MR_EXCLUDES(mu_);

 private:
  struct Item {
    Tensor tensor;
    bool is_dead = false;
    RecvDone waiter;  // set: a receiver came first
  };
  struct KeyHash {
    size_t operator()(const std::pair<uint64_t, std::string>& k) const { return k.first; }
  };
  using Table = std::unordered_map<std::pair<uint64_t, std::string>, std::deque<Item>, KeyHash>;

  mutable Mutex mu_;
  Status aborted_ MR_GUARDED_BY(mu_);
  Table table_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace
