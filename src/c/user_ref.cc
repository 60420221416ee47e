// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// References in kernels of programs.
#include "c/internal.h"
#include "c/op_handles.h"
#include "millrace/c/user_op.h"

using millrace::DataType;
using millrace::Status;
using millrace::Tensor;
namespace errors = millrace::errors;

namespace millrace::c_api {
namespace {

bool IsRef(TF_OpKernelContext* ctx, int i) {
  return ctx != nullptr && i >= 0 && i < ctx->context.num_inputs() && ctx->context.input_is_ref(i);
}

// Whether programs represent the elements as the engine does, so that they may write any bytes.
bool IsPlain(DataType type) {
  return type != DataType::kString && type != DataType::kResource && type != DataType::kVariant &&
         type != DataType::kBool;
}

Status CheckRef(TF_OpKernelContext* ctx, int i) {
  if (ctx == nullptr) return NullArgument("The context");
  if (IsRef(ctx, i)) return Status();
  return errors::InvalidArgument("Input ", i, " is not a reference");
}

}  // namespace
}  // namespace millrace::c_api

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): entry points of this library

unsigned char Millrace_InputIsRef(TF_OpKernelContext* ctx, int i) { return IsRef(ctx, i) ? 1 : 0; }

void Millrace_LockRef(TF_OpKernelContext* ctx, int i, int lock) MR_NO_THREAD_SAFETY_ANALYSIS {
  if (!IsRef(ctx, i)) return;
  millrace::Mutex& mu = ctx->context.ref_mutex(i);
  if (lock != 0) {
    mu.Lock();
  } else {
    mu.Unlock();
  }
}

void Millrace_RefInput(TF_OpKernelContext* ctx, int i, TF_Tensor** tensor, TF_Status* status) {
  Enter(status, [&]() -> Status {
    MR_RETURN_IF_ERROR(CheckRef(ctx, i));
    if (tensor == nullptr) return NullArgument("The tensor");
    Tensor& variable = ctx->context.ref_input(i);
    if (!IsPlain(variable.dtype())) {
      return errors::Unimplemented("A variable of type ", variable.dtype(), " cannot be changed in place");
    }
    if (variable.IsInitialized() && variable.num_elements() > 0 && !variable.OwnsBufferAlone()) {
      Tensor copy = variable.DeepCopy();
      if (!copy.IsInitialized()) return errors::ResourceExhausted("No memory for a copy of input ", i);
      variable = std::move(copy);
    }
    MR_ASSIGN_OR_RETURN(*tensor, FromTensor(variable));
    return Status();
  });
}

void Millrace_ReplaceRef(TF_OpKernelContext* ctx, int i, const TF_Tensor* tensor, TF_Status* status) {
  Enter(status, [&]() -> Status {
    MR_RETURN_IF_ERROR(CheckRef(ctx, i));
    MR_ASSIGN_OR_RETURN(Tensor value, ToTensor(tensor));
    Tensor& variable = ctx->context.ref_input(i);
    if (value.dtype() != variable.dtype()) {
      return errors::InvalidArgument("Input ", i, " refers to a variable of type ", variable.dtype(),
                                     ", not ", value.dtype());
    }
    variable = std::move(value);
    return Status();
  });
}

void Millrace_ForwardRef(TF_OpKernelContext* ctx, int input, int output, TF_Status* status) {
  Enter(status, [&]() -> Status {
    MR_RETURN_IF_ERROR(CheckRef(ctx, input));
    if (output < 0 || output >= ctx->context.num_outputs()) {
      return errors::OutOfRange("output index out of range");
    }
    const DataType type = ctx->context.output_type(output);
    if (!millrace::IsRefType(type) || BaseType(type) != ctx->context.ref_input(input).dtype()) {
      return errors::InvalidArgument("Output ", output, " is of type ", type, ", and cannot refer to input ",
                                     input);
    }
    ctx->context.ForwardRef(input, output);
    return Status();
  });
}
