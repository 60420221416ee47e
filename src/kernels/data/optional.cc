// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/data/optional.h"

#include "kernel/kernel_registry.h"
#include "kernels/data/register.h"
#include "kernels/shared/tensor_list.h"
#include "tensor/variant.h"

namespace millrace::data {

bool OptionalVariant::Spend(int64_t* left) const {
  constexpr int64_t kBytesOfTensor = 64;  // in addition to its elements
  if (value_ == nullptr) return true;
  for (const Tensor& tensor : *value_) {
    *left -= kBytesOfTensor;
    if (tensor.dtype() != DataType::kVariant) *left -= static_cast<int64_t>(tensor.num_bytes());
    if (*left < 0) return false;
    if (tensor.dtype() != DataType::kVariant) continue;
    for (const Variant& element : tensor.flat<Variant>()) {
      if (const auto* const inner = element.get<OptionalVariant>(); inner != nullptr && !inner->Spend(left))
        return false;
      if (const auto* const list = element.get<TensorList>();
          list != nullptr && !list->Spend(true, left).ok())
        return false;
    }
  }
  return true;
}

// Whether there is a value, and its tensors.
VariantData OptionalVariant::EncodeVariant() const {
  VariantData data;
  int64_t left = int64_t{1} << 31;
  if (!Spend(&left)) return data;
  data.metadata = std::string(1, value_ != nullptr ? '\1' : '\0');
  if (value_ != nullptr) data.tensors.assign(value_->begin(), value_->end());
  return data;
}

StatusOr<OptionalVariant> OptionalVariant::DecodeVariant(VariantData data) {
  if (data.metadata.size() != 1) return errors::InvalidArgument("The metadata of an optional are broken");
  if (data.metadata[0] == 0) return OptionalVariant();
  return OptionalVariant(Element(data.tensors.begin(), data.tensors.end()));
}

namespace {

StatusOr<const OptionalVariant*> OptionalInput(const KernelContext& context) {
  const Tensor& input = context.input(0);
  if (input.dtype() != DataType::kVariant || !input.shape().IsScalar() || !input.IsInitialized()) {
    return errors::InvalidArgument("Input to ", context.kernel().op_name(),
                                   " must be a scalar variant tensor.");
  }
  const auto* const optional = input.scalar<Variant>().get<OptionalVariant>();
  if (optional != nullptr) return optional;
  return errors::InvalidArgument("Input to ", context.kernel().op_name(), " must be an Optional object.");
}

Status SetOptional(KernelContext& context, OptionalVariant value) {
  MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape()));
  out->scalar<Variant>() = std::move(value);
  return Status();
}

class NoneKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override { return SetOptional(context, OptionalVariant()); }
};

class FromValueKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    Element value;
    for (int i = 0; i < context.num_inputs(); ++i) value.push_back(context.input(i));
    return SetOptional(context, OptionalVariant(std::move(value)));
  }
};

class HasValueKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const OptionalVariant* optional, OptionalInput(context));
    context.set_output(0, Tensor::Scalar(optional->value() != nullptr));
    return Status();
  }
};

class GetValueKernel final : public OpKernel {
 public:
  explicit GetValueKernel(KernelConstruction& c)
      : OpKernel(c),
        signature_{c.Attr<std::vector<DataType>>("output_types"),
                   c.Attr<std::vector<PartialShape>>("output_shapes")} {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const OptionalVariant* optional, OptionalInput(context));
    if (optional->value() == nullptr) {
      return errors::InvalidArgument("The given optional does not have a value.");
    }
    const Element& value = *optional->value();
    MR_RETURN_IF_ERROR(CheckElement(signature_, value));
    for (size_t i = 0; i < value.size(); ++i) context.set_output(static_cast<int>(i), value[i]);
    return Status();
  }

 private:
  const Dataset::Signature signature_;
};

}  // namespace

void RegisterOptionalKernels(KernelRegistry& registry) {
  static const Status decoder = RegisterVariantType<OptionalVariant>();  // once per process
  registry.Register<NoneKernel>(KernelDef("OptionalNone"));
  registry.Register<FromValueKernel>(KernelDef("OptionalFromValue"));
  registry.Register<HasValueKernel>(KernelDef("OptionalHasValue"));
  registry.Register<GetValueKernel>(KernelDef("OptionalGetValue"));
}

}  // namespace millrace::data
