// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "data/tuning.h"

#include <algorithm>
#include <cmath>

namespace millrace::data {

int64_t ProcessorShares::Ask(const void* stage, int64_t wanted) {
  MutexLock lock(mu_);
  wishes_[stage] = wanted;
  int64_t sum = 0;
  for (const auto& [other, wish] : wishes_) sum += wish;
  return sum <= processors_ ? wanted : std::max<int64_t>(1, wanted * processors_ / sum);
}

void ProcessorShares::Forget(const void* stage) {
  MutexLock lock(mu_);
  wishes_.erase(stage);
}

void CallsAtATime::Add(Clock::duration took, double* mean) {
  constexpr double kWeight = 1.0 / 16;  // of the latest one
  const auto nanos = static_cast<double>(std::chrono::nanoseconds(took).count());
  *mean += (nanos - *mean) * (*mean == 0 ? 1 : kWeight);
}

bool CallsAtATime::Asked(Clock::time_point now) {
  if (shares_ == nullptr) return false;
  if (served_ != Clock::time_point()) Add(now - served_, &consumer_);
  if (++since_choice_ < kPeriod || call_ == 0) return false;
  since_choice_ = 0;
  const double apart = std::max({consumer_, input_, 1.0});
  const auto wanted = static_cast<int64_t>(std::ceil(std::min(call_ / apart, 1e6)));
  const int64_t most = std::min(most_, shares_->processors());
  const int64_t before = limit_;
  limit_ = std::clamp<int64_t>(shares_->Ask(this, std::clamp<int64_t>(wanted, 1, most)), 1, most);
  return limit_ != before;
}

}  // namespace millrace::data
