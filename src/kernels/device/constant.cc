// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernel/kernel_context.h"
#include "kernels/device/register.h"

namespace millrace {
namespace {

// A constant in device memory: copied there once, by work that precedes all of its uses.
class DeviceConstKernel final : public OpKernel {
 public:
  explicit DeviceConstKernel(KernelConstruction& c) : OpKernel(c) {
    value_ = c.Attr<Tensor>("value");
    if (!c.status().ok()) return;
    if (value_.dtype() != output_type(0)) {
      c.SetError(errors::InvalidArgument("Type mismatch between value (", DataTypeName(value_.dtype()),
                                         ") and dtype (", DataTypeName(output_type(0)), ")"));
      return;
    }
    if (output_on_host(0) || value_.buffer() == nullptr) return;
    auto copy = Tensor::Allocate(value_.dtype(), value_.shape(), c.device().allocator());
    if (!copy.ok()) {
      c.SetError(copy.status());
      return;
    }
    c.SetError(c.device().CopyFromHost(value_, *copy));
    value_ = *std::move(copy);
  }
  Status Compute(KernelContext& context) override {
    context.set_output(0, value_);
    return Status();
  }
  const Tensor* ConstantOutput() const override { return &value_; }

 private:
  Tensor value_;
};

}  // namespace

void RegisterDeviceConstKernels(KernelRegistry& registry, const std::string& type) {
  registry.Register<DeviceConstKernel>(KernelDef("Const").Device(type));
}

}  // namespace millrace
