// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <thread>
#include <vector>

#include "base/cancellation.h"
#include "base/function.h"
#include "base/mutex.h"
#include "millrace/status.h"

namespace millrace::data {

struct Context;

// Waits on `changed` until `ready` returns true; Cancelled when the context is cancelled first. May release
// `mu` several times. REQUIRES: `ready` stays true once it is, and all waiters are notified of the change.
Status Await(Mutex& mu, CondVar& changed, const Context& ctx, FunctionRef<bool()> ready) MR_REQUIRES(mu);

// The threads of a prefetching stage. The destructor stops and joins them, so this must be the last member of
// the stage, after all members that the threads use.
class StageThreads {
 public:
  // `changed`, with `mu`, is the condition on which the threads wait.
  StageThreads(Mutex& mu, CondVar& changed) : mu_(mu), changed_(changed) {}
  ~StageThreads() { Stop(); }
  StageThreads(const StageThreads&) = delete;
  StageThreads& operator=(const StageThreads&) = delete;

  // Cancels other waits of the threads.
  CancellationManager& cancellation() { return cancellation_; }
  bool stopping() const { return cancellation_.IsCancelled(); }
  // ResourceExhausted when the system cannot start a thread.
  Status Start(UniqueFunction<void()> body);
  size_t size() const { return threads_.size(); }
  void Stop() MR_EXCLUDES(mu_);

 private:
  Mutex& mu_;
  CondVar& changed_;
  CancellationManager cancellation_;
  std::vector<std::thread> threads_;
};

}  // namespace millrace::data
