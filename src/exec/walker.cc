// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/walker.h"

#include "base/step_cancelled.h"

namespace millrace {

void StepAbort::Abort(const Status& status) {
  {
    MutexLock lock(mu_);
    if (cancelled_ && errors::IsCancelled(status) && !IsStepCancelled(status)) {
      status_ = status;
      cancelled_ = false;
    }
    if (!status_.ok()) return;
    status_ = status;
  }
  aborted_.store(true, std::memory_order_relaxed);
  if (rendezvous_ != nullptr) rendezvous_->StartAbort(status);
  cancellation_->StartCancel();
}

void StepAbort::Cancel() {
  const Status& status = StepCancelled();
  {
    MutexLock lock(mu_);
    if (!status_.ok()) return;
    status_ = status;
    cancelled_ = true;
  }
  aborted_.store(true, std::memory_order_relaxed);
  if (rendezvous_ != nullptr) rendezvous_->StartAbort(status);
  cancellation_->StartCancel();
}

Status StepAbort::status() const {
  MutexLock lock(mu_);
  return status_;
}

}  // namespace millrace
