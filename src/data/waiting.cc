// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "data/waiting.h"

#include <system_error>
#include <utility>

#include "data/dataset.h"
#include "data/monitor.h"

namespace millrace::data {

Status Await(Mutex& mu, CondVar& changed, const Context& ctx, FunctionRef<bool()> ready) {
  if (ready()) return Status();
  const MeteredWait wait(ctx.call);
  CancellationManager& cancellation = *ctx.cancellation;
  // The callback takes the lock, and Deregister waits for it: so both are called without it.
  mu.Unlock();
  const CancellationManager::Token token = cancellation.Register([&mu, &changed] {
    MutexLock lock(mu);
    changed.NotifyAll();
  });
  mu.Lock();
  bool is_ready = ready();
  while (!is_ready && token != CancellationManager::kInvalidToken && !cancellation.IsCancelled()) {
    changed.Wait(mu);
    is_ready = ready();
  }
  mu.Unlock();
  if (token != CancellationManager::kInvalidToken) cancellation.Deregister(token);
  mu.Lock();
  return is_ready ? Status() : CancelledStatus();
}

Status StageThreads::Start(UniqueFunction<void()> body) {
  try {
    threads_.emplace_back([run = std::move(body)]() mutable { run(); });
  } catch (const std::system_error& e) {
    return errors::ResourceExhausted("Could not start a thread for an input pipeline: ", e.what());
  }
  return Status();
}

void StageThreads::Stop() {
  cancellation_.StartCancel();
  {
    MutexLock lock(mu_);
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace millrace::data
