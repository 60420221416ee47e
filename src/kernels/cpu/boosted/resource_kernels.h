// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Kernels for the handles of boosted trees resources.
#pragma once

#include "kernel/resource_op.h"
#include "kernels/cpu/kernel_util.h"
#include "tensor/resource_handle.h"

namespace millrace::boosted {

// Creates no resource: the handle is only a name.
template <typename Resource>
class HandleKernel final : public OpKernel {
 public:
  explicit HandleKernel(KernelConstruction& c) : OpKernel(c) {
    auto place = NameResource(c, Unnamed::kNodeName);
    c.SetError(place.status());
    if (place.ok()) handle_ = c.resources().MakeHandle<Resource>(place->container, place->name);
  }
  Status Compute(KernelContext& context) override {
    context.set_output(0, Tensor::Scalar(handle_));
    return Status();
  }

 private:
  ResourceHandle handle_;
};

// Whether the resource of a handle exists.
template <typename Resource>
class IsInitializedKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const auto found = FindResource<Resource>(context, 0);
    if (!found.ok() && !errors::IsNotFound(found.status())) return found.status();
    context.set_output(0, Tensor::Scalar(found.ok()));
    return Status();
  }
};

}  // namespace millrace::boosted
