// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/thread_choice.h"

#include <algorithm>

namespace millrace {
namespace {

// Shorter steps wake no thread.
constexpr int64_t kWorthTryingNs = 20'000;

}  // namespace

ThreadChoice::Step ThreadChoice::ForStep(uint64_t step, bool nodes) const {
  Step choice{best_.load(std::memory_order_relaxed), false};
  if (const uint64_t place = PlaceInTrial(step); place < kTrials) {
    choice.threads = static_cast<StepThreads>(place / kStepsOfMode);
    choice.timed = place % kStepsOfMode >= kUntimed;
  }
  if (!nodes) choice.threads = std::min(choice.threads, StepThreads::kLoops);
  return choice;
}

void ThreadChoice::Record(uint64_t step, StepThreads threads, int64_t ns) const {
  std::atomic<int64_t>& best = best_ns_[static_cast<int>(threads)];
  if (ns < best.load(std::memory_order_relaxed)) best.store(ns, std::memory_order_relaxed);
  if (PlaceInTrial(step) + 1 == kTrials) Decide();
}

void ThreadChoice::Decide() const {
  StepThreads best = StepThreads::kNodes;
  int64_t best_ns = INT64_MAX;
  for (int mode = 0; mode < kModes; ++mode) {
    const int64_t ns = best_ns_[mode].exchange(INT64_MAX, std::memory_order_relaxed);
    if (ns == INT64_MAX || (best_ns != INT64_MAX && ns > best_ns - best_ns / 50)) continue;
    best = static_cast<StepThreads>(mode);
    best_ns = ns;
  }
  best_.store(best_ns < kWorthTryingNs ? StepThreads::kNodes : best, std::memory_order_relaxed);
}

}  // namespace millrace
