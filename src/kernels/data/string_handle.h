// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "data/dataset.h"
#include "kernel/kernel_context.h"
#include "kernel/kernel_registry.h"
#include "kernel/resource_op.h"
#include "tensor/resource_handle.h"

namespace millrace::data {

std::string HandleToString(const ResourceHandle& handle);
// InvalidArgument if the text is not a handle, or one of another device.
StatusOr<ResourceHandle> HandleFromString(const KernelContext& context, const Tensor& text);
// Checks `signature` against the declaration of the node, if it has one.
Status CheckDeclared(const OpKernel& kernel, const Dataset::Signature& signature);

// The string of a handle of a resource of type R.
template <typename R>
class ToStringHandleKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(FindResource<R>(context, 0).status());
    context.set_output(0, Tensor::Scalar(HandleToString(context.input(0).scalar<ResourceHandle>())));
    return Status();
  }
};

// The handle of a string.
template <typename R>
class FromStringHandleKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(ResourceHandle handle, HandleFromString(context, context.input(0)));
    MR_ASSIGN_OR_RETURN(const RefPtr<R> resource, context.resources().LookupHandle<R>(handle));
    MR_RETURN_IF_ERROR(CheckDeclared(*this, resource->signature()));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape()));
    out->scalar<ResourceHandle>() = std::move(handle);
    return Status();
  }
};

}  // namespace millrace::data
