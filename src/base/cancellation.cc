// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "base/cancellation.h"

#include <utility>

namespace millrace {
namespace {

// The managers whose callbacks the calling thread is running, nested.
class RunningHere {
 public:
  explicit RunningHere(const CancellationManager* manager) : manager_(manager), outer_(innermost) {
    innermost = this;
  }
  ~RunningHere() { innermost = outer_; }
  RunningHere(const RunningHere&) = delete;
  RunningHere& operator=(const RunningHere&) = delete;
  static bool Is(const CancellationManager* manager) {
    for (const RunningHere* r = innermost; r != nullptr; r = r->outer_) {
      if (r->manager_ == manager) return true;
    }
    return false;
  }

 private:
  static thread_local const RunningHere* innermost;
  const CancellationManager* const manager_;
  const RunningHere* const outer_;
};

thread_local const RunningHere* RunningHere::innermost = nullptr;

}  // namespace

CancellationManager::CancellationManager() = default;

CancellationManager::CancellationManager(CancellationManager* parent) : parent_(parent) {
  if (parent_ == nullptr) return;
  parent_token_ = parent_->Register([this] { StartCancel(); });
  if (parent_token_ == kInvalidToken)
    cancelled_.store(true, std::memory_order_release);  // pairs with IsCancelled
}

CancellationManager::~CancellationManager() {
  if (parent_token_ != kInvalidToken) parent_->Deregister(parent_token_);
  // Waiting again would never end.
  StartCancel();
}

void CancellationManager::StartCancel() {
  {
    MutexLock lock(mu_);
    if (cancelled_.load(std::memory_order_relaxed)) return;  // written under mu_ once the manager is shared
    cancelled_.store(true, std::memory_order_release);       // pairs with IsCancelled
    running_callbacks_ = true;
  }
  const RunningHere here(this);
  // One at a time: a callback may lead to the deregistration of others, which then don't run.
  while (true) {
    // The callable is destroyed before Deregister returns: it may refer to objects that the caller destroys
    // next.
    decltype(callbacks_)::node_type next;
    {
      MutexLock lock(mu_);
      if (callbacks_.empty()) {
        running_callbacks_ = false;
        callbacks_done_.NotifyAll();  // under the lock: a waiter may destroy this as soon as it wakes
        return;
      }
      next = callbacks_.extract(callbacks_.begin());
    }
    next.mapped()();
  }
}

CancellationManager::Token CancellationManager::Register(UniqueFunction<void()> callback) {
  MutexLock lock(mu_);
  if (cancelled_.load(std::memory_order_relaxed)) return kInvalidToken;
  const Token token = next_token_++;
  callbacks_.emplace(token, std::move(callback));
  return token;
}

bool CancellationManager::Deregister(Token token) {
  decltype(callbacks_)::node_type removed;  // destroyed after the lock is released
  MutexLock lock(mu_);
  removed = callbacks_.extract(token);
  if (!cancelled_.load(std::memory_order_relaxed) || !removed.empty()) return true;
  // Within a callback there is nothing to wait for: it is the one that runs.
  while (running_callbacks_ && !RunningHere::Is(this)) callbacks_done_.Wait(mu_);
  return false;
}

bool CancellationManager::TryDeregister(Token token) {
  decltype(callbacks_)::node_type removed;
  MutexLock lock(mu_);
  if (cancelled_.load(std::memory_order_relaxed)) return false;
  removed = callbacks_.extract(token);
  return true;
}

void CancellationManager::Reset() {
  MutexLock lock(mu_);
  cancelled_.store(false, std::memory_order_release);  // pairs with IsCancelled
}

}  // namespace millrace
