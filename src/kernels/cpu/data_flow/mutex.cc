// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// MutexV2, MutexLock and ConsumeMutexLock: a lock that a step holds as long as a tensor exists.
#include <memory>

#include "kernels/cpu/data_flow/access_kernel.h"
#include "kernels/cpu/kernel_util.h"
#include "kernels/shared/waiting_resource.h"
#include "tensor/variant.h"

namespace millrace {
namespace {

class StepMutex final : public WaitingResource {
 public:
  StepMutex() : WaitingResource(/*in_order=*/true) {}
  void Unlock() {
    std::vector<Finished> finished;
    {
      MutexLock lock(mu_);
      locked_ = false;
      AdvanceAll(&finished);
    }
    Finish(finished);
  }
  std::string DebugString() const override { return "mutex"; }

 private:
  bool Try(Attempt& /*attempt*/, Status* /*status*/) override MR_REQUIRES(mu_) {
    return !std::exchange(locked_, true);
  }
  Status CancelledStatus(const Attempt& /*attempt*/) const override {
    return errors::Cancelled("Lock acquisition cancelled.");
  }

  bool locked_ MR_GUARDED_BY(mu_) = false;
};

// The mutex is released when the last copy of the variant is destroyed.
struct HeldLock {
  struct Holder {
    explicit Holder(RefPtr<StepMutex> m) : mutex(std::move(m)) {}
    ~Holder() { mutex->Unlock(); }
    Holder(const Holder&) = delete;
    Holder& operator=(const Holder&) = delete;
    const RefPtr<StepMutex> mutex;
  };
  std::shared_ptr<Holder> holder;
};

class MutexKernel final : public ResourceOpKernel<StepMutex> {
 public:
  explicit MutexKernel(KernelConstruction& c) : ResourceOpKernel(c, Unnamed::kNodeName) {}

 private:
  StatusOr<RefPtr<StepMutex>> Make(KernelContext& /*context*/) override { return MakeRef<StepMutex>(); }
};

class MutexLockKernel final : public AccessKernel<StepMutex> {
 public:
  using AccessKernel::AccessKernel;

 private:
  Status Prepare(const KernelContext& /*context*/, StepMutex& /*mutex*/, Attempt& /*attempt*/,
                 bool& /*nothing_to_do*/) override {
    return Status();
  }
  Status Deliver(KernelContext& context, StepMutex& mutex, Attempt& /*attempt*/) override {
    HeldLock lock{std::make_shared<HeldLock::Holder>(ShareRef(&mutex))};
    context.set_output(0, Tensor::Scalar<Variant>(Variant(std::move(lock))));
    return Status();
  }
};

class ConsumeMutexLockKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    if (!in.shape().IsScalar()) {
      return errors::InvalidArgument("Expected input to be a scalar, but saw ", in.shape());
    }
    const auto& lock = in.scalar<Variant>();
    if (lock.get<HeldLock>() == nullptr) {
      return errors::InvalidArgument("Expected input to be a SharedLockReleaser, but saw ", lock.TypeName());
    }
    // The lock is released with the input, unless there is another reference to it.
    context.TakeInput(0).Clear();
    return Status();
  }
};

}  // namespace

void RegisterMutexKernels(KernelRegistry& registry) {
  registry.Register<MutexKernel>(KernelDef("MutexV2"));
  registry.Register<MutexLockKernel>(KernelDef("MutexLock"));
  registry.Register<ConsumeMutexLockKernel>(KernelDef("ConsumeMutexLock"));
}

}  // namespace millrace
