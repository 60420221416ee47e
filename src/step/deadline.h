// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/cancellation.h"

namespace millrace {

// Cancels a step that takes too long: armed during its lifetime. One thread of the process, started by the
// first deadline, serves all of them.
class ScopedDeadline {
 public:
  // `timeout_in_ms` <= 0 arms nothing.
  ScopedDeadline(CancellationManager& step, int64_t timeout_in_ms);
  // Waits until a cancel in progress has ended.
  ~ScopedDeadline();
  ScopedDeadline(const ScopedDeadline&) = delete;
  ScopedDeadline& operator=(const ScopedDeadline&) = delete;
  bool expired() const { return expired_.load(std::memory_order_acquire); }  // pairs with the timer's release

 private:
  friend class DeadlineTimer;
  CancellationManager& step_;
  std::atomic<bool> expired_{false};
  int64_t id_ = -1;
};

}  // namespace millrace
