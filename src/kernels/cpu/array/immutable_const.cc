// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0

#include <string>
#include <utility>

#include "base/env.h"
#include "io/memmapped_package.h"
#include "kernels/cpu/kernel_util.h"

namespace millrace {
namespace {

// A tensor over memory that is mapped from a file.
class ImmutableConstKernel final : public OpKernel {
 public:
  explicit ImmutableConstKernel(KernelConstruction& c) : OpKernel(c) {
    auto value = Map(c);
    if (value.ok()) {
      value_ = *std::move(value);
    } else {
      c.SetError(value.status());
    }
  }
  Status Compute(KernelContext& context) override {
    context.set_output(0, value_);
    return Status();
  }
  const Tensor* ConstantOutput() const override { return &value_; }

 private:
  static StatusOr<Tensor> Map(KernelConstruction& c) {
    const auto dtype = c.Attr<DataType>("dtype");
    const auto partial = c.Attr<PartialShape>("shape");
    const auto name = c.Attr<std::string>("memory_region_name");
    MR_RETURN_IF_ERROR(c.status());
    MR_ASSIGN_OR_RETURN(const TensorShape shape, partial.ToTensorShape());
    return io::MapTensor(Env::Posix(), name, dtype, shape);
  }

  Tensor value_;
};

}  // namespace

void RegisterImmutableConstKernels(KernelRegistry& registry) {
  registry.Register<ImmutableConstKernel>(KernelDef("ImmutableConst"));
}

}  // namespace millrace
