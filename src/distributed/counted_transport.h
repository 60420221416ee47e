// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

#include "base/mutex.h"
#include "distributed/transport.h"

namespace millrace {

// Forwards calls and counts those in progress, so that the caller can wait for their ends. Thread-safe.
class CountedTransport : public Transport {
 public:
  // REQUIRES: `inner` outlives this.
  explicit CountedTransport(Transport& inner) : inner_(inner) {}
  ~CountedTransport() override { Drain(); }

  void Start(RemoteCall call, Reply reply) override MR_EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      ++in_flight_;
    }
    inner_.Start(std::move(call),
                 [this, finish = std::move(reply)](Status status, MessageBytes bytes) mutable {
                   finish(std::move(status), std::move(bytes));
                   finish = nullptr;
                   MutexLock lock(mu_);
                   if (--in_flight_ == 0) drained_.NotifyAll();  // under the lock: a waiter may destroy this
                 });
  }
  // Waits until every call has been answered.
  void Drain() MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (in_flight_ > 0) drained_.Wait(mu_);
  }

 private:
  Transport& inner_;
  Mutex mu_;
  CondVar drained_;
  int64_t in_flight_ MR_GUARDED_BY(mu_) = 0;
};

}  // namespace millrace
