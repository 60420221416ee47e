// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

#include "base/mutex.h"

namespace millrace {

// A task that asks for the number of its next step.
struct StepTaker {
  std::string task;
  int64_t incarnation = 0;  // another one after a restart
  int64_t last = 0;         // its step before; 0: there was none
  bool last_failed = false;
};

// What the leader of collective groups knows of the steps that sessions of several masters run together, by
// the key of their graphs: each task gets the numbers one after the other, however late it asks. A task
// whose step has failed, or that has restarted, continues with the newest number that any task has.
// Thread-safe.
class StepSequences {
 public:
  int64_t Next(int64_t graph_key, const StepTaker& taker) MR_EXCLUDES(mu_);
  // For a task that does not say who it is: the number of the leader's own next step.
  int64_t Next(int64_t graph_key) MR_EXCLUDES(mu_);
  // The leader's own step has ended, with or without an error.
  void Retire(int64_t graph_key, int64_t step_id) MR_EXCLUDES(mu_);

 private:
  // What peers send must not fill the memory.
  static constexpr size_t kMostKeys = 65536;
  static constexpr size_t kMostTasks = 65536;
  struct Taken {
    int64_t incarnation = 0;
    int64_t last = 0;
  };
  struct Sequence {
    int64_t first = 0;
    int64_t next = 0;  // of the leader
    int64_t base = 0;  // where tasks begin that have had none: the oldest since an error
    int64_t newest = 0;
    std::map<std::string, Taken> tasks;
    int64_t NumberFor(const StepTaker& taker);
  };
  Sequence& Find(int64_t graph_key) MR_REQUIRES(mu_);

  Mutex mu_;
  std::unordered_map<int64_t, Sequence> sequences_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace
