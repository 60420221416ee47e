// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

namespace millrace {

// How many threads a step gets, from the least to the most.
enum class StepThreads : uint8_t {
  kAlone,  // one thread does everything
  kLoops,  // one thread runs the nodes; others help it with the loops of kernels
  kNodes   // several threads run nodes, too
};

// Chooses the fastest of the three for a plan. What several threads gain depends on the machine, on its load
// and on the size of the nodes, which no cost model predicts. So from time to time a few steps try them one
// after the other, and the best times decide. Each gets a few steps in a row, of which the first wake the
// other threads. One thread less is preferred to a gain below two per cent or 5 us. A plan that was left to
// one thread is tried again, more often at first: the machine may have been busy. Thread-safe; results are
// hints.
class ThreadChoice {
 public:
  struct Step {
    StepThreads threads;
    bool timed;  // the time of the step is to be recorded
  };

  // For the step of that number, counted from 0 for each state of the plan. `nodes`: whether the nodes'
  // costs suggest that several threads can run concurrently.
  Step ForStep(uint64_t step, bool nodes) const;
  // Records the time of a step for which ForStep has requested it.
  void Record(uint64_t step, StepThreads threads, int64_t ns) const;

 private:
  static constexpr int kModes = 3;
  static constexpr uint64_t kStepsOfMode = 6;
  static constexpr uint64_t kUntimed = 2;
  static constexpr uint64_t kTrials = kStepsOfMode * kModes;
  // The first steps include work that is done only once.
  static constexpr uint64_t kFirstTrial = 8;
  static constexpr uint64_t kSecondTrial = 128;  // and so in each period
  static constexpr uint64_t kPeriod = 1024;
  static constexpr uint64_t kSecondLook = 64;  // and 192, 448, 960
  static constexpr uint64_t kLaterLook = 576;  // in each later period

  // The position of a step in its trial; kTrials or more: it is in none.
  static uint64_t PlaceInTrial(uint64_t step) {
    return step < kSecondTrial ? step - kFirstTrial : step % kPeriod - kSecondTrial;
  }
  static uint64_t PlaceInSecondLook(uint64_t step) {
    if (step >= kPeriod) return step % kPeriod - kLaterLook;
    return step < kSecondLook ? kTrials : step + kSecondLook - std::bit_floor(step + kSecondLook);
  }
  void Decide() const;

  // All members are relaxed: they are independent numbers, and mixing the trials of two threads does no
  // harm.
  mutable std::atomic<StepThreads> best_{StepThreads::kNodes};
  mutable std::atomic<int64_t> alone_ns_{INT64_MAX};  // in the last trial
  mutable std::atomic<int64_t> best_ns_[kModes]{INT64_MAX, INT64_MAX, INT64_MAX};
};

}  // namespace millrace
