// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "kernel/resource_op.h"
#include "tensor/allocation_owner.h"

namespace millrace {

// An operation on shared state of type R that may have to wait. The request is an R::Attempt: it is
// tried at once (R::RunNow), and queued (R::Submit) if that fails.
template <typename R>
class AccessKernel : public AsyncOpKernel {
 public:
  using AsyncOpKernel::AsyncOpKernel;
  using Attempt = typename R::Attempt;

  bool tries() const final { return true; }
  bool TryCompute(KernelContext& context, Status& status) final {
    Attempt attempt;
    RefPtr<R> resource;
    bool nothing_to_do = false;
    status = Begin(context, resource, attempt, nothing_to_do);
    if (!status.ok()) return true;
    if (!nothing_to_do && !resource->RunNow(attempt, &status)) return false;
    if (status.ok()) status = Deliver(context, *resource, attempt);
    return true;
  }
  void ComputeAsync(KernelContext& context, Done done) final {
    Attempt attempt;
    RefPtr<R> resource;
    bool nothing_to_do = false;
    Status status = Begin(context, resource, attempt, nothing_to_do);
    if (!status.ok()) return done(status);
    if (nothing_to_do) return done(Deliver(context, *resource, attempt));
    attempt.done = [this, &context, resource, finish = std::move(done)](const Status& s, Attempt& a) mutable {
      finish(s.ok() ? DeliverLater(context, *resource, a) : s);
    };
    resource->Submit(std::move(attempt), context.cancellation());
  }

 protected:
  virtual StatusOr<RefPtr<R>> Find(KernelContext& context) { return FindResource<R>(context, 0); }
  // Checks the inputs and fills the attempt. Inputs stay unchanged: the attempt may be made again. With
  // `nothing_to_do` it counts as done.
  virtual Status Prepare(const KernelContext& context, R& resource, Attempt& attempt,
                         bool& nothing_to_do) = 0;
  virtual Status Deliver(KernelContext& /*context*/, R& /*resource*/, Attempt& /*attempt*/) {
    return Status();
  }

 private:
  // Runs possibly within the call of another kernel.
  Status DeliverLater(KernelContext& context, R& resource, Attempt& attempt) {
    const ScopedAllocationOwner owner(&this->name());
    return Deliver(context, resource, attempt);
  }
  Status Begin(KernelContext& context, RefPtr<R>& resource, Attempt& attempt, bool& nothing_to_do) {
    MR_ASSIGN_OR_RETURN(resource, Find(context));
    return Prepare(context, *resource, attempt, nothing_to_do);
  }
};

}  // namespace millrace
