// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/thread_choice.h"

#include <algorithm>

namespace millrace {
namespace {

// Shorter steps wake no thread.
constexpr int64_t kWorthTryingNs = 20'000;

// A smaller gain is within the variation of short steps, and not worth another core.
constexpr int64_t kLeastGainNs = 5'000;

bool Better(int64_t ns, int64_t than) {
  return than == INT64_MAX || ns < than - std::max(than / 50, kLeastGainNs);
}

}  // namespace

ThreadChoice::Step ThreadChoice::ForStep(uint64_t step, bool nodes) const {
  Step choice{best_.load(std::memory_order_relaxed), false};
  if (const uint64_t place = PlaceInTrial(step); place < kTrials) {
    choice.threads = static_cast<StepThreads>(place / kStepsOfMode);
    choice.timed = place % kStepsOfMode >= kUntimed;
  } else if (const uint64_t look = PlaceInSecondLook(step);
             choice.threads == StepThreads::kAlone && look < kStepsOfMode) {
    choice = {StepThreads::kLoops, look >= kUntimed};
  }
  if (!nodes) choice.threads = std::min(choice.threads, StepThreads::kLoops);
  return choice;
}

void ThreadChoice::Record(uint64_t step, StepThreads threads, int64_t ns) const {
  const uint64_t place = PlaceInTrial(step);
  if (place >= kTrials) {
    if (Better(ns, alone_ns_.load(std::memory_order_relaxed)))
      best_.store(threads, std::memory_order_relaxed);
    return;
  }
  std::atomic<int64_t>& best = best_ns_[static_cast<int>(threads)];
  if (ns < best.load(std::memory_order_relaxed)) best.store(ns, std::memory_order_relaxed);
  if (place + 1 == kTrials) Decide();
}

void ThreadChoice::Decide() const {
  StepThreads best = StepThreads::kNodes;
  int64_t best_ns = INT64_MAX;
  for (int mode = 0; mode < kModes; ++mode) {
    const int64_t ns = best_ns_[mode].exchange(INT64_MAX, std::memory_order_relaxed);
    if (mode == 0) alone_ns_.store(ns, std::memory_order_relaxed);
    if (ns == INT64_MAX || !Better(ns, best_ns)) continue;
    best = static_cast<StepThreads>(mode);
    best_ns = ns;
  }
  best_.store(best_ns < kWorthTryingNs ? StepThreads::kNodes : best, std::memory_order_relaxed);
}

}  // namespace millrace
