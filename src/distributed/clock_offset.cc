// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/clock_offset.h"

#include <algorithm>

namespace millrace {
namespace {

constexpr int64_t kLatest = int64_t{1} << 52;  // the year 2112; in nanoseconds sums of two do not overflow

bool IsTime(int64_t us) { return us > 0 && us < kLatest; }

}  // namespace

void ClockOffset::Add(const Call& call) {
  if (!IsTime(call.sent_us) || !IsTime(call.received_us) || !IsTime(call.answered_us) ||
      !IsTime(call.returned_us))
    return;
  const int64_t way = (call.returned_us - call.sent_us) - (call.answered_us - call.received_us);
  if (way < 0 || call.answered_us < call.received_us) return;
  const int64_t offset = ((call.received_us - call.sent_us) + (call.answered_us - call.returned_us)) / 2;
  MutexLock lock(mu_);
  samples_.push_back({way, offset});
  if (samples_.size() > kMost) samples_.pop_front();
}

int64_t ClockOffset::Micros() const {
  MutexLock lock(mu_);
  const auto best = std::min_element(samples_.begin(), samples_.end(),
                                     [](const Sample& a, const Sample& b) { return a.way_us < b.way_us; });
  return best == samples_.end() ? 0 : best->offset_us;
}

}  // namespace millrace
