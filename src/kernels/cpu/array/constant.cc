// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Const, Fill, ZerosLike, OnesLike and the placeholders.
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/move.h"
#include "kernels/cpu/tensor_list/tensor_list.h"

namespace millrace {
namespace {

class ConstKernel final : public OpKernel {
 public:
  explicit ConstKernel(KernelConstruction& c) : OpKernel(c) {
    value_ = c.Attr<Tensor>("value");
    if (c.status().ok() && value_.dtype() != output_type(0)) {
      c.SetError(errors::InvalidArgument("Type mismatch between value (", DataTypeName(value_.dtype()),
                                         ") and dtype (", DataTypeName(output_type(0)), ")"));
    }
  }
  Status Compute(KernelContext& context) override {
    context.set_output(0, value_);
    return Status();
  }
  const Tensor* ConstantOutput() const override { return &value_; }

 private:
  Tensor value_;
};

class FillKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& value = context.input(1);
    if (!context.input(0).shape().IsVector()) {
      return errors::InvalidArgument("dims must be a vector, got shape ", context.input(0).shape());
    }
    if (!value.shape().IsScalar()) {
      return errors::InvalidArgument("value must be a scalar, got shape ", value.shape());
    }
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromTensor(context.input(0), "dims"));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    ContextParallel parallel(context);
    FillElements(value.dtype(), value.raw_data(), out->raw_data(), shape.num_elements(), parallel);
    return Status();
  }
};

class ZerosLikeKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const TensorShape shape = context.input(0).shape();
    if (output_type(0) == DataType::kVariant) return ZeroVariants(context);
    MR_ASSIGN_OR_RETURN(Tensor * out, context.ForwardInputOrAllocateOutput({0}, 0, shape));
    ContextParallel parallel(context);
    ZeroElements(out->dtype(), out->raw_data(), shape.num_elements(), parallel);
    return Status();
  }

 private:
  static Status ZeroVariants(KernelContext& context) {
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, in.shape()));
    for (int64_t i = 0; i < in.num_elements(); ++i) {
      MR_ASSIGN_OR_RETURN(out->data<Variant>()[i], ZerosLikeVariant(context, in.data<Variant>()[i]));
    }
    return Status();
  }
};

class OnesLikeKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const TensorShape shape = context.input(0).shape();
    MR_ASSIGN_OR_RETURN(Tensor * out, context.ForwardInputOrAllocateOutput({0}, 0, shape));
    ContextParallel parallel(context);
    return VisitDataType(out->dtype(), NoSuchType(context, out->dtype()), [&]<typename T>() -> Status {
      if constexpr (std::is_constructible_v<T, float> && !std::is_same_v<T, Variant>) {
        const T one(1.0f);
        FillElements(out->dtype(), &one, out->raw_data(), shape.num_elements(), parallel);
        return Status();
      } else {
        return NoSuchType(context, out->dtype());
      }
    });
  }
};

class PlaceholderKernel final : public OpKernel {
 public:
  explicit PlaceholderKernel(KernelConstruction& c) : OpKernel(c), shape_(c.Attr<PartialShape>("shape")) {}
  Status Compute(KernelContext& context) override {
    const std::string shape = shape_.rank() > 0 ? " and shape " + shape_.ToString() : "";
    return errors::InvalidArgument("You must feed a value for placeholder tensor '", name(), "' with dtype ",
                                   DataTypeName(context.output_type(0)), shape);
  }

 private:
  const PartialShape shape_;
};

}  // namespace

void RegisterConstantKernels(KernelRegistry& registry) {
  registry.Register<ConstKernel>(KernelDef("Const"));
  registry.Register<FillKernel>(KernelDef("Fill"));
  registry.Register<ZerosLikeKernel>(KernelDef("ZerosLike"));
  registry.Register<OnesLikeKernel>(
      KernelDef("OnesLike").Types("T", Concat(NumberTypes(), {DataType::kBool})));
  registry.Register<PlaceholderKernel>(KernelDef("Placeholder"));
  registry.Register<PlaceholderKernel>(KernelDef("PlaceholderV2"));
}

}  // namespace millrace
