// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// In-place changes of variables. A reader of a variable by value shares its buffer, and keeps the values it
// read: a change copies the buffer first if it has another reference. So results don't depend on when a
// reader runs.
#pragma once

#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/move.h"
#include "kernels/cpu/vector/binary.h"
#include "tensor/resource_handle.h"

namespace millrace {

// Makes `tensor` the only reference to its buffer, by copying it if necessary.
Status MakeWritable(KernelContext& context, Tensor& tensor);

// variable = input `i`: takes the buffer over if it has no other reference, else copies it.
Status StoreInput(KernelContext& context, int i, Tensor& variable);

// variable = variable op value, element by element. REQUIRES: equal types and shapes.
Status UpdateBy(KernelContext& context, const cpu::BinaryFns& fns, Tensor& variable, const Tensor& value);

// Runs change(tensor of the variable) under the variable's mutex. The mutex is taken whatever `use_locking`
// is, so that readers never see part of a change; a ParallelFor inside is allowed, since it only runs its own
// blocks on this thread.
template <typename Fn>
Status UpdateRef(KernelContext& context, int i, Fn change) {
  if (!context.input_is_ref(i)) {
    return errors::InvalidArgument("Input ", i, " of ", context.kernel().op_name(), " must be a reference");
  }
  MutexLock lock(context.ref_mutex(i));
  Tensor& tensor = context.ref_input(i);
  if (!tensor.IsInitialized()) {
    return errors::FailedPrecondition("Attempting to use uninitialized value ", context.kernel().name());
  }
  return change(tensor);
}

// The resource handle in input `i`.
StatusOr<const ResourceHandle*> HandleInput(const KernelContext& context, int i);
// FailedPrecondition "Error while reading resource variable w from Container: localhost. …".
Status UninitializedVariable(const ResourceHandle& handle, std::string_view why);
// The variable of the handle in input `i`.
StatusOr<RefPtr<Variable>> FindVariable(const KernelContext& context, int i);

// Runs change(tensor) on the variable in input `i`, which must have a value of type `dtype`, under its mutex.
template <typename Fn>
Status UpdateResource(KernelContext& context, int i, DataType dtype, Fn change) {
  MR_ASSIGN_OR_RETURN(const RefPtr<Variable> variable, FindVariable(context, i));
  MutexLock lock(variable->mu());
  if (!variable->is_initialized) {
    return UninitializedVariable(context.input(i).scalar<ResourceHandle>(), "The variable has no value.");
  }
  if (variable->tensor().dtype() != dtype) {
    return errors::InvalidArgument("Trying to update variable with wrong dtype. Expected ",
                                   DataTypeName(variable->tensor().dtype()), " got ", DataTypeName(dtype));
  }
  return change(variable->tensor());
}

// The same for a variable of either kind; a reference is also forwarded to the output.
template <typename Fn>
Status UpdateVariable(KernelContext& context, int i, DataType dtype, Fn change) {
  if (!IsRefType(context.kernel().input_type(i))) return UpdateResource(context, i, dtype, change);
  MR_RETURN_IF_ERROR(UpdateRef(context, i, change));
  context.ForwardRef(i, 0);
  return Status();
}

// The variables in the first inputs of a training op, of either kind, locked during its lifetime. All have a
// value of the same type, and no two are the same.
class LockedVariables {
 public:
  static constexpr int kMax = 4;

  LockedVariables() = default;
  ~LockedVariables();
  LockedVariables(const LockedVariables&) = delete;
  LockedVariables& operator=(const LockedVariables&) = delete;

  // Locks inputs [0, n). REQUIRES: n <= kMax; called once.
  Status Open(KernelContext& context, int n, DataType dtype);
  // Makes sure that their buffers may be overwritten.
  Status MakeAllWritable(KernelContext& context);
  // For callers that write all elements: prepares target(i), which is the variable's tensor, or, if its
  // buffer has other references, new memory that Publish makes its tensor.
  Status Prepare(KernelContext& context);
  bool beside(int i) const { return fresh_[i].buffer() != nullptr; }
  Tensor& target(int i) { return beside(i) ? fresh_[i] : *tensors_[i]; }
  void Publish();
  Tensor& operator[](int i) { return *tensors_[i]; }

 private:
  int n_ = 0;
  int locked_ = 0;
  RefPtr<Variable> held_[kMax];
  Tensor* tensors_[kMax] = {};
  Tensor fresh_[kMax];
  Mutex* mutexes_[kMax] = {};
};

}  // namespace millrace
