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

// Waits on `changed` until `ready` returns true; Cancelled when the cancellation of `ctx` comes first. May
// release `mu` several times. REQUIRES: `ready` stays true, and every change of it notifies all.
Status Await(Mutex& mu, CondVar& changed, const Context& ctx, FunctionRef<bool()> ready) MR_REQUIRES(mu);

// The threads of a prefetching stage. The destructor stops and joins them, so this must be the last
// member of the stage, after everything that the threads use.
class StageThreads {
 public:
  // `changed`, with `mu`, is what the threads wait on.
  StageThreads(Mutex& mu, CondVar& changed) : mu_(mu), changed_(changed) {}
  ~StageThreads() { Stop(); }
  StageThreads(const StageThreads&) = delete;
  StageThreads& operator=(const StageThreads&) = delete;

  // Cancels what the threads wait for elsewhere.
  CancellationManager& cancellation() { return cancellation_; }
  bool stopping() const { return cancellation_.IsCancelled(); }
  // ResourceExhausted when the system has no thread.
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
