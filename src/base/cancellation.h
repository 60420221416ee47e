// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <unordered_map>

#include "base/function.h"
#include "base/mutex.h"
#include "base/notification.h"

namespace millrace {

// Cancels work in progress: waiting kernels register a callback, StartCancel runs each once. Thread-safe.
// Callbacks run on the thread that cancels, without a lock held.
class CancellationManager {
 public:
  using Token = int64_t;
  static constexpr Token kInvalidToken = -1;

  CancellationManager();
  // Cancelled when `parent` is, until destroyed.
  explicit CancellationManager(CancellationManager* parent);
  ~CancellationManager();

  void StartCancel();
  bool IsCancelled() const {
    return cancelled_.load(std::memory_order_acquire);
  }  // pairs with StartCancel's release

  // Returns kInvalidToken, and does not keep `callback`, when cancelling has begun.
  Token Register(UniqueFunction<void()> callback) MR_EXCLUDES(mu_);
  // When it returns, the callback has finished or will not run; the result is true if it will not run. Waits
  // for callbacks in progress, unless it is called from one, which may be this one.
  bool Deregister(Token token) MR_EXCLUDES(mu_);
  // As Deregister, but returns false at once when cancelling has begun.
  bool TryDeregister(Token token) MR_EXCLUDES(mu_);
  // Makes the manager usable for another step. REQUIRES: no callback registered, no other user.
  void Reset();

 private:
  CancellationManager* const parent_ = nullptr;
  Token parent_token_ = kInvalidToken;
  std::atomic<bool> cancelled_{false};
  Mutex mu_;
  Token next_token_ MR_GUARDED_BY(mu_) = 0;
  bool running_callbacks_ MR_GUARDED_BY(mu_) = false;
  CondVar callbacks_done_;
  std::unordered_map<Token, UniqueFunction<void()>> callbacks_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace
