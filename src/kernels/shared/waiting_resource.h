// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <list>
#include <utility>
#include <vector>

#include "base/cancellation.h"
#include "base/function.h"
#include "base/mutex.h"
#include "kernel/resource.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

namespace millrace {

// Shared state with operations that may have to wait for a change of it, in order of arrival and without a
// thread. A derived class decides when an operation can proceed (Try). Thread-safe.
class WaitingResource : public Resource {
 public:
  // The request of an operation and, once it has ended, its result. Derived classes define the
  // fields.
  struct Attempt {
    int action = 0;
    int64_t number = 0;
    std::vector<int64_t> numbers;
    std::vector<Tensor> tensors;
    UniqueFunction<void(const Status&, Attempt&)> done;  // called without a lock, once

   private:
    friend class WaitingResource;
    uint64_t id = 0;
    CancellationManager* cancellation = nullptr;
    CancellationManager::Token token = CancellationManager::kInvalidToken;
  };

  // Runs the attempt if it can end now: true, with its result. Else false, and nothing has happened.
  bool RunNow(Attempt& attempt, Status* status) MR_EXCLUDES(mu_);
  // Runs the attempt as soon as it can end. `cancellation` must outlive it.
  void Submit(Attempt attempt, CancellationManager& cancellation) MR_EXCLUDES(mu_);

 protected:
  // With `in_order` no attempt overtakes a waiting one.
  explicit WaitingResource(bool in_order) : in_order_(in_order) {}

  // Ends the attempt, if it can now: true, with its status. Else false, and nothing has happened.
  virtual bool Try(Attempt& attempt, Status* status) MR_REQUIRES(mu_) = 0;
  // The error of an attempt whose step was cancelled.
  virtual Status CancelledStatus(const Attempt& attempt) const = 0;

  // For changes of the state that do not wait: AdvanceAll, under the lock, completes waiting attempts; Finish
  // calls their callbacks after it.
  struct Finished {
    Attempt attempt;
    Status status;
  };
  void AdvanceAll(std::vector<Finished>* finished) MR_REQUIRES(mu_);
  static void Finish(std::vector<Finished>& finished);

  mutable Mutex mu_;

 private:
  void Cancel(uint64_t id) MR_EXCLUDES(mu_);

  const bool in_order_;
  uint64_t next_id_ MR_GUARDED_BY(mu_) = 0;
  std::list<Attempt> waiting_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace
