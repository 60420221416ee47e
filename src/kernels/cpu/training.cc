// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Steps of the optimizers, on reference variables and on resource variables.
#include "kernels/cpu/register.h"
#include "kernels/cpu/variable_util.h"
#include "kernels/cpu/vector/update.h"

namespace millrace {
namespace {

Status CheckScalar(const KernelContext& context, int i, std::string_view what) {
  if (context.input(i).shape().IsScalar()) [[likely]]
    return Status();
  return errors::InvalidArgument(what, " is not a scalar: ", context.input(i).shape());
}

Status CheckSameShape(const Tensor& var, const Tensor& other, std::string_view what) {
  if (var.shape() == other.shape()) [[likely]]
    return Status();
  return errors::InvalidArgument("var and ", what, " do not have the same shape", var.shape(), " ",
                                 other.shape());
}

// Reference ops return the variable.
void ReturnVariable(KernelContext& context) {
  if (context.num_outputs() > 0) context.ForwardRef(0, 0);
}

class ApplyGradientDescentKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& delta = context.input(2);
    LockedVariables vars;
    MR_RETURN_IF_ERROR(vars.Open(context, 1, delta.dtype()));
    MR_RETURN_IF_ERROR(CheckScalar(context, 1, "alpha"));
    MR_RETURN_IF_ERROR(CheckSameShape(vars[0], delta, "delta"));
    MR_RETURN_IF_ERROR(vars.MakeAllWritable(context));
    ContextParallel parallel(context);
    cpu::ApplyGradientDescent(delta.dtype(), vars[0].raw_data(), context.input(1).raw_data(),
                              delta.raw_data(), delta.num_elements(), parallel);
    ReturnVariable(context);
    return Status();
  }
};

class ApplyMomentumKernel final : public OpKernel {
 public:
  explicit ApplyMomentumKernel(KernelConstruction& c)
      : OpKernel(c), use_nesterov_(c.Attr<bool>("use_nesterov")) {}
  Status Compute(KernelContext& context) override {
    const Tensor& grad = context.input(3);
    LockedVariables vars;
    MR_RETURN_IF_ERROR(vars.Open(context, 2, grad.dtype()));
    MR_RETURN_IF_ERROR(CheckScalar(context, 2, "lr"));
    MR_RETURN_IF_ERROR(CheckScalar(context, 4, "momentum"));
    MR_RETURN_IF_ERROR(CheckSameShape(vars[0], vars[1], "accum"));
    MR_RETURN_IF_ERROR(CheckSameShape(vars[0], grad, "grad"));
    MR_RETURN_IF_ERROR(vars.MakeAllWritable(context));
    const cpu::MomentumScalars scalars = {.lr = context.input(2).raw_data(),
                                          .momentum = context.input(4).raw_data(),
                                          .nesterov = use_nesterov_};
    ContextParallel parallel(context);
    cpu::ApplyMomentum(grad.dtype(), vars[0].raw_data(), vars[1].raw_data(), scalars, grad.raw_data(),
                       grad.num_elements(), parallel);
    ReturnVariable(context);
    return Status();
  }

 private:
  const bool use_nesterov_;
};

class ApplyAdamKernel final : public OpKernel {
 public:
  explicit ApplyAdamKernel(KernelConstruction& c)
      : OpKernel(c), use_nesterov_(c.HasAttr("use_nesterov") && c.Attr<bool>("use_nesterov")) {}
  Status Compute(KernelContext& context) override {
    static constexpr const char* kScalars[] = {"beta1_power", "beta2_power", "lr",
                                               "beta1",       "beta2",       "epsilon"};
    const Tensor& grad = context.input(9);
    LockedVariables vars;
    MR_RETURN_IF_ERROR(vars.Open(context, 3, grad.dtype()));
    for (int i = 0; i < 6; ++i) MR_RETURN_IF_ERROR(CheckScalar(context, 3 + i, kScalars[i]));
    MR_RETURN_IF_ERROR(CheckSameShape(vars[0], vars[1], "m"));
    MR_RETURN_IF_ERROR(CheckSameShape(vars[0], vars[2], "v"));
    MR_RETURN_IF_ERROR(CheckSameShape(vars[0], grad, "grad"));
    MR_RETURN_IF_ERROR(vars.MakeAllWritable(context));
    const auto scalar = [&](int i) { return context.input(3 + i).raw_data(); };
    const cpu::AdamScalars scalars = {.beta1_power = scalar(0),
                                      .beta2_power = scalar(1),
                                      .lr = scalar(2),
                                      .beta1 = scalar(3),
                                      .beta2 = scalar(4),
                                      .epsilon = scalar(5),
                                      .nesterov = use_nesterov_};
    ContextParallel parallel(context);
    cpu::ApplyAdam(grad.dtype(), vars[0].raw_data(), vars[1].raw_data(), vars[2].raw_data(), scalars,
                   grad.raw_data(), grad.num_elements(), parallel);
    ReturnVariable(context);
    return Status();
  }

 private:
  const bool use_nesterov_;
};

}  // namespace

void RegisterTrainingKernels(KernelRegistry& registry) {
  for (const char* prefix : {"", "Resource"}) {
    const auto def = [&](const char* op) { return KernelDef(StrCat(prefix, op)).Types("T", FloatTypes()); };
    registry.Register<ApplyGradientDescentKernel>(def("ApplyGradientDescent"));
    registry.Register<ApplyMomentumKernel>(def("ApplyMomentum"));
    registry.Register<ApplyAdamKernel>(def("ApplyAdam"));
  }
}

}  // namespace millrace
