// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "step/step_sequences.h"

#include <algorithm>

#include "step/worker.h"

namespace millrace {

StepSequences::Sequence& StepSequences::Find(int64_t graph_key) {
  if (sequences_.size() >= kMostKeys && !sequences_.contains(graph_key)) sequences_.clear();
  const auto [it, added] = sequences_.try_emplace(graph_key);
  Sequence& sequence = it->second;
  // The random part stays the same; only the number is incremented.
  if (added) sequence.first = sequence.next = sequence.base = sequence.newest = StepIds::NextShared();
  return sequence;
}

int64_t StepSequences::Sequence::NumberFor(const StepTaker& taker) {
  const auto known = tasks.find(taker.task);
  if (known != tasks.end() && known->second.incarnation != taker.incarnation) {
    // The step of its previous life fails at the others, if it was the newest; otherwise they wait for it.
    return base = known->second.last < newest ? newest : newest + 1;
  }
  if (taker.last >= first && taker.last <= newest) {
    if (!taker.last_failed) return std::max(taker.last + 1, base);
    return base = std::max(taker.last + 1, newest);
  }
  // Without it each of the others may be at most a step ahead of the next one in a ring.
  return newest - base <= static_cast<int64_t>(tasks.size()) ? base : newest;
}

int64_t StepSequences::Next(int64_t graph_key, const StepTaker& taker) {
  MutexLock lock(mu_);
  Sequence& sequence = Find(graph_key);
  const int64_t number = sequence.NumberFor(taker);
  sequence.newest = std::max(sequence.newest, number);
  if (sequence.tasks.size() >= kMostTasks && !sequence.tasks.contains(taker.task)) sequence.tasks.clear();
  sequence.tasks[taker.task] = {taker.incarnation, number};
  return number;
}

int64_t StepSequences::Next(int64_t graph_key) {
  MutexLock lock(mu_);
  Sequence& sequence = Find(graph_key);
  sequence.newest = std::max(sequence.newest, sequence.next);
  return sequence.next;
}

void StepSequences::Retire(int64_t graph_key, int64_t step_id) {
  MutexLock lock(mu_);
  const auto it = sequences_.find(graph_key);
  if (it == sequences_.end()) return;
  Sequence& sequence = it->second;
  if (step_id >= sequence.next && step_id <= sequence.newest) sequence.next = step_id + 1;
}

}  // namespace millrace
