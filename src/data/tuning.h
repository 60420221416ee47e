// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>

#include "base/mutex.h"

namespace millrace::data {

// Divides processors among those stages of one iterator that leave open how many calls they make at the same
// time. Thread-safe.
class ProcessorShares {
 public:
  explicit ProcessorShares(int64_t processors) : processors_(processors) {}
  // Notes that a stage could use `wanted` processors; how many it may use: all of them as long as the wishes
  // of all stages fit, else its part, at least one.
  int64_t Ask(const void* stage, int64_t wanted) MR_EXCLUDES(mu_);
  // The stage has ended.
  void Forget(const void* stage) MR_EXCLUDES(mu_);
  int64_t processors() const { return processors_; }

 private:
  const int64_t processors_;
  Mutex mu_;
  std::map<const void*, int64_t> wishes_ MR_GUARDED_BY(mu_);
};

// How many calls of a function a stage makes at the same time: a fixed number, or what the measured costs
// say. The stage needs as many as calls take longer than the time between two elements: that which the
// consumer takes between its requests, or which the input needs for one, whichever is longer. Used under the
// stage's lock, except for the constructors.
class CallsAtATime {
 public:
  using Clock = std::chrono::steady_clock;
  // `most`: the fixed number, and the limit of what is chosen.
  explicit CallsAtATime(int64_t most) : most_(most), limit_(most) {}
  ~CallsAtATime() {
    if (shares_ != nullptr) shares_->Forget(this);
  }
  CallsAtATime(const CallsAtATime&) = delete;
  CallsAtATime& operator=(const CallsAtATime&) = delete;

  // From now on the number is chosen, beginning with one call. `shares` stays longer than this.
  void Choose(ProcessorShares& shares) {
    shares_ = &shares;
    limit_ = 1;
  }
  bool chosen() const { return shares_ != nullptr; }
  int64_t limit() const { return limit_; }

  // What was measured: a call, a read of the input, a consumer that has come back.
  void AddCall(Clock::duration took) { Add(took, &call_); }
  void AddInput(Clock::duration took) { Add(took, &input_); }
  // Notes that the consumer asks; true when the limit has changed.
  bool Asked(Clock::time_point now);
  // Notes that the consumer has got its element.
  void Served(Clock::time_point now) { served_ = now; }

 private:
  static constexpr int kPeriod = 16;  // elements between two choices
  static void Add(Clock::duration took, double* mean);

  const int64_t most_;
  int64_t limit_;
  ProcessorShares* shares_ = nullptr;
  double call_ = 0, input_ = 0, consumer_ = 0;  // moving means in nanoseconds; 0: none yet
  Clock::time_point served_{};
  int since_choice_ = 0;
};

}  // namespace millrace::data
