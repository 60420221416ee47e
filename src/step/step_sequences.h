// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

#include "base/mutex.h"

namespace millrace {

// A task that requests the number of its next step.
struct StepTaker {
  std::string task;
  int64_t incarnation = 0;  // changes at a restart
  int64_t last = 0;         // its previous step; 0: none
  bool last_failed = false;
};

// The record of the leader of collective groups about steps of sessions with several masters, by the key
// of their graphs: each task gets the numbers one after the other, regardless of when it asks. A task whose
// step has failed, or that has restarted, continues with the newest number that any task has.
// Thread-safe.
class StepSequences {
 public:
  int64_t Next(int64_t graph_key, const StepTaker& taker) MR_EXCLUDES(mu_);
  // For a task that does not identify itself: the number of the leader's own next step.
  int64_t Next(int64_t graph_key) MR_EXCLUDES(mu_);
  // The leader's own step has ended, with or without an error.
  void Retire(int64_t graph_key, int64_t step_id) MR_EXCLUDES(mu_);

 private:
  // Requests of peers must not exhaust memory.
  static constexpr size_t kMostKeys = 65536;
  static constexpr size_t kMostTasks = 65536;
  struct Taken {
    int64_t incarnation = 0;
    int64_t last = 0;
  };
  struct Sequence {
    int64_t first = 0;
    int64_t next = 0;  // of the leader
    int64_t base = 0;  // the first number of new tasks: the oldest since an error
    int64_t newest = 0;
    std::map<std::string, Taken> tasks;
    int64_t NumberFor(const StepTaker& taker);
  };
  Sequence& Find(int64_t graph_key) MR_REQUIRES(mu_);

  Mutex mu_;
  std::unordered_map<int64_t, Sequence> sequences_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace
