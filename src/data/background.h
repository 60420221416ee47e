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

// A thread, started by the first task, that runs tasks one after the other: what may have to wait and must
// not hold a thread of a session. Thread-safe.
class Background {
 public:
  using Work = UniqueFunction<Status(CancellationManager&)>;
  using Done = UniqueFunction<void(const Status&)>;

  Background();
  // Cancels all tasks and waits for them, unless it runs on the thread itself, which then ends soon.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Does `work` when the earlier tasks have ended, and then calls `done` with what it returned; the manager
  // that it gets is cancelled with `caller`, which has to stay until `done`, and when this ends. A task that
  // has not begun by then only gets its `done`, with Cancelled.
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
