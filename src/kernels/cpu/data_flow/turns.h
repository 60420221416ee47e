// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Kernels whose runs use shared state one after the other, and may take long.
#pragma once

#include <chrono>

#include "base/mutex.h"
#include "kernel/kernel_context.h"

namespace millrace {

// One run has the turn; the others wait until their step is cancelled. A mutex would block them until the run
// before has ended. Writes in one turn are visible in the next one.
class Turns {
 public:
  // Cancelled, or OK: the caller has the turn until End().
  Status Begin(const KernelContext& context) {
    MutexLock lock(mu_);
    while (taken_) {
      if (context.cancellation().IsCancelled()) {
        return errors::Cancelled("The step was cancelled while ", context.kernel().name(),
                                 " ran in another one");
      }
      free_.WaitUntil(mu_, std::chrono::steady_clock::now() + kLook);
    }
    taken_ = true;
    return Status();
  }
  void End() {
    {
      MutexLock lock(mu_);
      taken_ = false;
    }
    free_.NotifyOne();
  }

 private:
  // The interval of the checks for cancellation.
  static constexpr std::chrono::milliseconds kLook{20};
  Mutex mu_;
  CondVar free_;
  bool taken_ MR_GUARDED_BY(mu_) = false;
};

// Runs run() in a turn.
template <typename Run>
Status InTurn(const KernelContext& context, Turns& turns, Run run) {
  MR_RETURN_IF_ERROR(turns.Begin(context));
  Status status = run();
  turns.End();
  return status;
}

}  // namespace millrace
