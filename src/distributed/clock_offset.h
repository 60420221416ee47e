// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "base/mutex.h"

namespace millrace {

// How far the clock of another task is ahead of that of this one, estimated from calls as in the network time
// protocol: the call with the least time on the network counts, as its error is at most half of that.
// Thread-safe.
class ClockOffset {
 public:
  // Times of one call in microseconds since 1970: sent and returned by the clock of this task, received and
  // answered by that of the other one.
  struct Call {
    int64_t sent_us = 0, received_us = 0, answered_us = 0, returned_us = 0;
  };
  // Calls with times that are impossible for two clocks are ignored.
  void Add(const Call& call) MR_EXCLUDES(mu_);
  // 0 before the first call.
  int64_t Micros() const MR_EXCLUDES(mu_);

 private:
  // Clocks drift: old calls are dropped.
  static constexpr size_t kMost = 32;
  struct Sample {
    int64_t way_us = 0;
    int64_t offset_us = 0;
  };
  mutable Mutex mu_;
  std::deque<Sample> samples_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace
