// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "base/cancellation.h"

#include <utility>

namespace millrace {

CancellationManager::CancellationManager(CancellationManager* parent) : parent_(parent) {
  if (parent_ == nullptr) return;
  parent_token_ = parent_->Register([this] { StartCancel(); });
  if (parent_token_ == kInvalidToken)
    cancelled_.store(true, std::memory_order_release);  // pairs with IsCancelled
}

CancellationManager::~CancellationManager() {
  if (parent_token_ != kInvalidToken) parent_->Deregister(parent_token_);
  // Whoever still waits would wait for ever.
  StartCancel();
}

void CancellationManager::StartCancel() {
  std::unordered_map<Token, UniqueFunction<void()>> callbacks;
  {
    MutexLock lock(mu_);
    if (cancelled_.load(std::memory_order_relaxed)) return;  // written under mu_ once the manager is shared
    cancelled_.store(true, std::memory_order_release);       // pairs with IsCancelled
    running_callbacks_ = true;
    callbacks.swap(callbacks_);
  }
  for (auto& [token, callback] : callbacks) callback();
  // The callables die before Deregister returns: they may refer to what its caller destroys next.
  callbacks.clear();
  MutexLock lock(mu_);
  running_callbacks_ = false;
  callbacks_done_.NotifyAll();  // under the lock: a waiter may destroy this as soon as it wakes
}

CancellationManager::Token CancellationManager::Register(UniqueFunction<void()> callback) {
  MutexLock lock(mu_);
  if (cancelled_.load(std::memory_order_relaxed)) return kInvalidToken;
  const Token token = next_token_++;
  callbacks_.emplace(token, std::move(callback));
  return token;
}

bool CancellationManager::Deregister(Token token) {
  decltype(callbacks_)::node_type removed;  // destroyed after the lock is gone
  MutexLock lock(mu_);
  if (cancelled_.load(std::memory_order_relaxed)) {
    while (running_callbacks_) callbacks_done_.Wait(mu_);
    return false;
  }
  removed = callbacks_.extract(token);
  return true;
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
