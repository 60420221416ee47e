// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "step/local_rendezvous.h"

#include <utility>
#include <vector>

namespace millrace {

LocalRendezvous::~LocalRendezvous() { StartAbort(errors::Cancelled("Rendezvous was destroyed")); }

Status LocalRendezvous::Send(const Key& key, Tensor tensor, bool is_dead) {
  RecvDone waiter;
  {
    MutexLock lock(mu_);
    if (!aborted_.ok()) return aborted_;
    std::deque<Item>& queue = table_[{key.hash, key.text}];
    if (queue.empty() || !queue.front().waiter) {
      queue.push_back({std::move(tensor), is_dead, nullptr});
      return Status();
    }
    waiter = std::move(queue.front().waiter);
    queue.pop_front();
    if (queue.empty()) table_.erase({key.hash, key.text});
  }
  waiter(Status(), std::move(tensor), is_dead);
  return Status();
}

void LocalRendezvous::RecvAsync(const Key& key, RecvDone done) {
  Status failed;
  Item item;
  {
    MutexLock lock(mu_);
    failed = aborted_;
    if (failed.ok()) {
      std::deque<Item>& queue = table_[{key.hash, key.text}];
      if (queue.empty() || queue.front().waiter) {
        queue.push_back({Tensor(), false, std::move(done)});
        return;
      }
      item = std::move(queue.front());
      queue.pop_front();
      if (queue.empty()) table_.erase({key.hash, key.text});
    }
  }
  done(failed, std::move(item.tensor), item.is_dead);
}

bool LocalRendezvous::empty() const {
  MutexLock lock(mu_);
  return table_.empty();
}

void LocalRendezvous::StartAbort(const Status& status) {
  Table orphans;
  Status why;
  {
    MutexLock lock(mu_);
    aborted_.Update(status);
    why = aborted_;
    orphans.swap(table_);
  }
  for (auto& [key, queue] : orphans) {
    for (Item& item : queue) {
      if (item.waiter) item.waiter(why, Tensor(), false);
    }
  }
}

}  // namespace millrace
