// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>

#include "base/mutex.h"

namespace millrace::data {

// Divides processors among the stages of one iterator whose number of parallel calls is not set.
// Thread-safe.
class ProcessorShares {
 public:
  explicit ProcessorShares(int64_t processors) : processors_(processors) {}
  // Records that a stage could use `wanted` processors, and returns how many it may use: all of them if the
  // requests of all stages fit, else its share, at least one.
  int64_t Ask(const void* stage, int64_t wanted) MR_EXCLUDES(mu_);
  // The stage has ended.
  void Forget(const void* stage) MR_EXCLUDES(mu_);
  int64_t processors() const { return processors_; }

 private:
  const int64_t processors_;
  Mutex mu_;
  std::map<const void*, int64_t> wishes_ MR_GUARDED_BY(mu_);
};

// The number of parallel calls of a function in a stage: a fixed number, or one chosen by measured costs. The
// stage needs as many as the time of a call divided by the time between two elements: that of the consumer
// between its requests, or of the input for an element, whichever is longer. Used under the stage's lock,
// except for the constructors.
class CallsAtATime {
 public:
  using Clock = std::chrono::steady_clock;
  // `most`: the fixed number, and the maximum of the choice.
  explicit CallsAtATime(int64_t most) : most_(most), limit_(most) {}
  ~CallsAtATime() {
    if (shares_ != nullptr) shares_->Forget(this);
  }
  CallsAtATime(const CallsAtATime&) = delete;
  CallsAtATime& operator=(const CallsAtATime&) = delete;

  // From now on the number is chosen, starting with one call. `shares` must outlive this.
  void Choose(ProcessorShares& shares) {
    shares_ = &shares;
    limit_ = 1;
  }
  bool chosen() const { return shares_ != nullptr; }
  int64_t limit() const { return limit_; }

  // Record a measurement: a call, a read of the input, the return of the consumer.
  void AddCall(Clock::duration took) { Add(took, &call_); }
  void AddInput(Clock::duration took) { Add(took, &input_); }
  // Records a request of the consumer; true when the limit has changed.
  bool Asked(Clock::time_point now);
  // Records that the consumer has got its element.
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
