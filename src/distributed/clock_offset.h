// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "base/mutex.h"

namespace millrace {

// How much later the clock of another task shows than that of this one, estimated from calls as the network
// time protocol does: the call that spent the least time on its way counts, as its error is at most half of
// that. Thread-safe.
class ClockOffset {
 public:
  // One call in microseconds since 1970: sent and returned by the clock of this task, received and answered
  // by that of the other one.
  struct Call {
    int64_t sent_us = 0, received_us = 0, answered_us = 0, returned_us = 0;
  };
  // Calls that no two clocks can have measured are left out.
  void Add(const Call& call) MR_EXCLUDES(mu_);
  // 0 as long as there is no call.
  int64_t Micros() const MR_EXCLUDES(mu_);

 private:
  // Clocks drift apart: old calls are forgotten.
  static constexpr size_t kMost = 32;
  struct Sample {
    int64_t way_us = 0;
    int64_t offset_us = 0;
  };
  mutable Mutex mu_;
  std::deque<Sample> samples_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace
