// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <thread>

#include "base/cancellation.h"
#include "base/function.h"
#include "base/mutex.h"
#include "millrace/status.h"

namespace millrace::data {

// A thread, started by the first task, that runs tasks one after the other: for work that may wait and must
// not hold a thread of a session. Thread-safe.
class Background {
 public:
  using Work = UniqueFunction<Status(CancellationManager&)>;
  using Done = UniqueFunction<void(const Status&)>;

  Background();
  // Cancels all tasks and waits for them, unless called on the thread itself, which then ends soon.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Runs `work` after the earlier tasks, and then calls `done` with its result. The manager passed to `work`
  // is cancelled with `caller`, which must live until `done`, and when this object is destroyed. Of a task
  // that has not begun by then only `done` is called, with Cancelled.
  void Run(CancellationManager& caller, Work work, Done done) MR_EXCLUDES(thread_mu_);

 private:
  struct Request;
  struct State;
  static void Loop(const std::shared_ptr<State>& state);
  static void Serve(State& state, Request& request);

  const std::shared_ptr<State> state_;
  Mutex thread_mu_;
  std::thread thread_ MR_GUARDED_BY(thread_mu_);
};

}  // namespace millrace::data
