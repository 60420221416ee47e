// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Stacks of tensors that exist for one step.
#include <atomic>

#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/step_resource.h"

namespace millrace {
namespace {

constexpr char kContainer[] = "_stacks";

// Thread-safe.
class TensorStack final : public Resource {
 public:
  // A negative `max_size` means no limit.
  TensorStack(std::string name, DataType elem_type, int64_t max_size)
      : name_(std::move(name)), elem_type_(elem_type), max_size_(max_size) {}

  Status Push(Tensor value) MR_EXCLUDES(mu_) {
    if (value.dtype() != elem_type_) {
      return errors::InvalidArgument("Must have type ", DataTypeName(elem_type_), " but got ",
                                     DataTypeName(value.dtype()));
    }
    MutexLock lock(mu_);
    MR_RETURN_IF_ERROR(CheckOpen());
    if (max_size_ >= 0 && static_cast<int64_t>(values_.size()) >= max_size_) {
      return errors::InvalidArgument("Stack[", name_, "] overflowed its max_size (", max_size_, ")");
    }
    values_.push_back(std::move(value));
    return Status();
  }
  StatusOr<Tensor> Pop() MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    MR_RETURN_IF_ERROR(CheckOpen());
    if (values_.empty()) {
      return errors::InvalidArgument("Stack[", name_, "] is empty when calling Pop().");
    }
    Tensor top = std::move(values_.back());
    values_.pop_back();
    return top;
  }
  void Close() MR_EXCLUDES(mu_) {
    std::vector<Tensor> dropped;  // destroyed after the lock is released
    MutexLock lock(mu_);
    closed_ = true;
    dropped.swap(values_);
  }
  DataType elem_type() const { return elem_type_; }
  std::string DebugString() const override { return StrCat("Stack[", name_, "]"); }

 private:
  Status CheckOpen() const MR_REQUIRES(mu_) {
    return closed_ ? errors::InvalidArgument("Stack[", name_, "] has already been closed.") : Status();
  }
  const std::string name_;
  const DataType elem_type_;
  const int64_t max_size_;
  Mutex mu_;
  bool closed_ MR_GUARDED_BY(mu_) = false;
  std::vector<Tensor> values_ MR_GUARDED_BY(mu_);
};

StatusOr<RefPtr<TensorStack>> FindStack(const KernelContext& context) {
  return FindStepResource<TensorStack>(context, 0, "Stack handle must have two elements, but had shape: ");
}

class StackKernel final : public OpKernel {
 public:
  explicit StackKernel(KernelConstruction& c)
      : OpKernel(c),
        elem_type_(c.Attr<DataType>("elem_type")),
        stack_name_(c.Attr<std::string>("stack_name")) {
    if (stack_name_.empty()) stack_name_ = name();
  }
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(ResourceManager * container, StepContainer(context));
    int64_t max_size = -1;
    if (num_inputs() > 0) {
      const Tensor& given = context.input(0);
      if (!given.shape().IsScalar()) {
        return errors::InvalidArgument("Stack size must be a scalar, but had shape: ", given.shape());
      }
      max_size = given.scalar<int32_t>();
    }
    static std::atomic<int64_t> counter{0};
    const std::string unique = StrCat(stack_name_, "_", counter.fetch_add(1, std::memory_order_relaxed));
    MR_RETURN_IF_ERROR(
        container->Create(kContainer, unique, MakeRef<TensorStack>(unique, elem_type_, max_size)));
    return SetStepHandle<TensorStack>(context, 0, kContainer, unique);
  }

 private:
  const DataType elem_type_;
  std::string stack_name_;
};

class StackPushKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<TensorStack> stack, FindStack(context));
    Tensor value = context.TakeInput(1);
    MR_RETURN_IF_ERROR(stack->Push(value));
    context.set_output(0, std::move(value));
    return Status();
  }
};

class StackPopKernel final : public OpKernel {
 public:
  explicit StackPopKernel(KernelConstruction& c) : OpKernel(c), elem_type_(c.Attr<DataType>("elem_type")) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<TensorStack> stack, FindStack(context));
    if (stack->elem_type() != elem_type_) {
      return errors::InvalidArgument("Must have type ", DataTypeName(elem_type_), " but the stack has ",
                                     DataTypeName(stack->elem_type()));
    }
    MR_ASSIGN_OR_RETURN(Tensor value, stack->Pop());
    context.set_output(0, std::move(value));
    return Status();
  }

 private:
  const DataType elem_type_;
};

class StackCloseKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<TensorStack> stack, FindStack(context));
    stack->Close();
    return Status();
  }
};

}  // namespace

void RegisterStackKernels(KernelRegistry& registry) {
  for (const char* version : {"", "V2"}) {
    registry.Register<StackKernel>(KernelDef(StrCat("Stack", version)));
    registry.Register<StackPushKernel>(KernelDef(StrCat("StackPush", version)));
    registry.Register<StackPopKernel>(KernelDef(StrCat("StackPop", version)));
    registry.Register<StackCloseKernel>(KernelDef(StrCat("StackClose", version)));
  }
}

}  // namespace millrace
