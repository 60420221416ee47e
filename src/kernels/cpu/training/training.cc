// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Steps of the optimizers, dense and by rows, on reference variables and on resource variables.
#include "kernel/kernel_registry.h"
#include "kernels/cpu/state/variable_util.h"
#include "kernels/cpu/vector/update.h"

namespace millrace {
namespace {

using cpu::UpdateRule;

// An optimizer's ops differ in their rule. If the attribute `flag` does not have its default they use another
// one.
struct Optimizer {
  const char* name;
  int forms;  // bits of kPrefixes
  UpdateRule rule;
  const char* flag = nullptr;
  UpdateRule flagged = UpdateRule::kCount;
};

constexpr const char* kPrefixes[] = {"Apply", "ResourceApply", "SparseApply", "ResourceSparseApply"};
constexpr int kDense = 3, kResource = 10, kAll = 15;

constexpr Optimizer kOptimizers[] = {
    {"GradientDescent", kDense, UpdateRule::kGradientDescent},
    {"Momentum", kAll, UpdateRule::kMomentum, "use_nesterov", UpdateRule::kMomentumNesterov},
    {"KerasMomentum", kResource, UpdateRule::kKerasMomentum, "use_nesterov",
     UpdateRule::kKerasMomentumNesterov},
    {"Adam", kDense, UpdateRule::kAdam, "use_nesterov", UpdateRule::kAdamNesterov},
    {"AdamWithAmsgrad", kDense& kResource, UpdateRule::kAdamWithAmsgrad},
    {"AdaMax", kDense, UpdateRule::kAdaMax},
    {"Adagrad", kAll, UpdateRule::kAdagrad, "update_slots", UpdateRule::kAdagradFixed},
    {"AdagradV2", kAll, UpdateRule::kAdagradV2, "update_slots", UpdateRule::kAdagradV2Fixed},
    {"AdagradDA", kAll, UpdateRule::kAdagradDualAveraging},
    {"Adadelta", kAll, UpdateRule::kAdadelta},
    {"RMSProp", kAll, UpdateRule::kRmsProp},
    {"CenteredRMSProp", kAll, UpdateRule::kCenteredRmsProp},
    {"Ftrl", kAll, UpdateRule::kFtrl},
    {"FtrlV2", kAll, UpdateRule::kFtrlV2},
    {"ProximalGradientDescent", kAll, UpdateRule::kProximalGradientDescent},
    {"ProximalAdagrad", kAll, UpdateRule::kProximalAdagrad},
    {"AddSign", kDense, UpdateRule::kAddSign},
    {"PowerSign", kDense, UpdateRule::kPowerSign},
};

// A required scalar and its name in messages.
struct ScalarRule {
  std::string name;
  std::string kind = "scalar";
  bool (*allowed)(double) = nullptr;  // null: any value
};

ScalarRule RuleOfScalar(const std::string& input, UpdateRule update) {
  const bool ftrl = update == UpdateRule::kFtrl || update == UpdateRule::kFtrlV2;
  const bool proximal_adagrad = update == UpdateRule::kProximalAdagrad;
  const bool rms_prop = update == UpdateRule::kRmsProp || update == UpdateRule::kCenteredRmsProp;
  ScalarRule rule{.name = input};
  const bool penalty = input == "l1" || input == "l2" || input == "l2_shrinkage";
  if (penalty) rule.name = (input == "l2_shrinkage" ? "l2 shrinkage" : input) + " regularization strength";
  if (rms_prop && input == "lr") rule.kind = "scalar ";  // TensorFlow's text has a blank before the colon
  if (!ftrl && !proximal_adagrad) return rule;
  if (penalty) {
    rule.kind = "non-negative scalar";
    rule.allowed = [](double x) { return x >= 0; };
  } else if (input == "lr") {
    rule.kind = "positive scalar";
    rule.allowed = [](double x) { return x > 0; };
  } else {
    rule.kind = "non-positive scalar";
    rule.allowed = [](double x) { return x <= 0; };
  }
  return rule;
}

double RealScalar(const Tensor& t) {
  return VisitReal(t.dtype(), 0.0, [&]<typename T>() {
    return static_cast<double>(static_cast<ComputeType<T>>(t.scalar<T>()));
  });
}

// The op's definition determines the role of inputs: variables are references or resources, the gradient and
// the indices are found by name, the rest are scalars.
class ApplyKernel final : public OpKernel {
 public:
  ApplyKernel(KernelConstruction& c, UpdateRule rule) : OpKernel(c), rule_(rule) {
    const auto& args = props().op->def.inputs;
    for (int i = 0; i < static_cast<int>(args.size()); ++i) {
      const std::string& name = args[i].name;
      if (args[i].is_ref || args[i].type == DataType::kResource) {
        slot_names_.push_back(name);
      } else if (name == "grad" || name == "delta") {
        grad_ = i;
      } else if (name == "indices") {
        indices_ = i;
      } else if (name == "global_step") {
        step_ = i;
      } else {
        scalars_.push_back(i);
        scalar_rules_.push_back(RuleOfScalar(name, rule));
      }
    }
  }

  Status Compute(KernelContext& context) override {
    const Tensor& grad = context.input(grad_);
    LockedVariables vars;
    MR_RETURN_IF_ERROR(vars.Open(context, num_slots(), grad.dtype()));
    for (int k = 1; k < num_slots(); ++k)
      MR_RETURN_IF_ERROR(CheckSameShape(vars[0], vars[k], slot_names_[k]));
    cpu::UpdateArgs args{.rule = rule_, .type = grad.dtype(), .grad = grad.raw_data()};
    MR_RETURN_IF_ERROR(ReadScalars(context, args));
    MR_RETURN_IF_ERROR(indices_ < 0 ? CheckSameShape(vars[0], grad, props().op->def.inputs[grad_].name)
                                    : CheckRows(vars[0], grad, context.input(indices_)));
    ContextParallel parallel(context);
    if (indices_ < 0) {
      MR_RETURN_IF_ERROR(vars.Prepare(context));
      for (int k = 0; k < num_slots(); ++k) {
        args.slots[k] = vars.target(k).raw_data();
        if (vars.beside(k)) args.from[k] = vars[k].raw_data();
      }
      cpu::Update(args, grad.num_elements(), parallel);
      vars.Publish();
    } else if (grad.num_elements() > 0) {
      MR_RETURN_IF_ERROR(vars.MakeAllWritable(context));
      for (int k = 0; k < num_slots(); ++k) args.slots[k] = vars[k].raw_data();
      cpu::UpdateRows(args, IntValues(context.input(indices_)), vars[0].dim(0),
                      vars[0].num_elements() / vars[0].dim(0), parallel);
    }
    if (context.num_outputs() > 0) context.ForwardRef(0, 0);
    return Status();
  }

 private:
  int num_slots() const { return static_cast<int>(slot_names_.size()); }

  static Status CheckSameShape(const Tensor& var, const Tensor& other, std::string_view what) {
    if (var.shape() == other.shape()) [[likely]]
      return Status();
    return errors::InvalidArgument("var and ", what, " do not have the same shape", var.shape(), " ",
                                   other.shape());
  }

  Status ReadScalars(const KernelContext& context, cpu::UpdateArgs& args) const {
    for (size_t i = 0; i < scalars_.size(); ++i) {
      const Tensor& t = context.input(scalars_[i]);
      const ScalarRule& rule = scalar_rules_[i];
      if (!t.shape().IsScalar() || (rule.allowed != nullptr && !rule.allowed(RealScalar(t)))) [[unlikely]] {
        return errors::InvalidArgument(rule.name, " is not a ", rule.kind, ": ", t.shape());
      }
      args.scalars[i] = t.raw_data();
    }
    if (step_ >= 0) {
      const Tensor& step = context.input(step_);
      if (!step.shape().IsScalar()) {
        return errors::InvalidArgument("global_step is not a scalar: ", step.shape());
      }
      args.step = step.scalar<int64_t>();
    }
    return Status();
  }

  static Status CheckRows(const Tensor& var, const Tensor& grad, const Tensor& indices) {
    if (var.rank() < 1) return errors::InvalidArgument("var must be at least 1 dimensional");
    if (!indices.shape().IsVector()) return errors::InvalidArgument("indices must be one-dimensional");
    if (grad.rank() != var.rank()) {
      return errors::InvalidArgument("grad must have the same number of dimensions as var, got shapes ",
                                     grad.shape(), " and ", var.shape());
    }
    for (int d = 1; d < var.rank(); ++d) {
      if (var.dim(d) != grad.dim(d)) {
        return errors::InvalidArgument("var and grad must match in dimension ", d);
      }
    }
    const int64_t n = indices.num_elements();
    if (grad.dim(0) != n) {
      return errors::InvalidArgument("grad must be the same size as indices in the first dimension.");
    }
    for (int64_t i = 0; i < n; ++i) {
      const int64_t index = IntValue(indices, i);
      if (index < 0 || index >= var.dim(0)) {
        return errors::InvalidArgument("Index ", index, " at offset ", i, " in indices is out of range");
      }
    }
    if (n > 0 && var.num_elements() == 0) {
      return errors::InvalidArgument("Inner dimension should be greater than zero.");
    }
    return Status();
  }

  const UpdateRule rule_;
  std::vector<std::string> slot_names_;
  std::vector<int> scalars_;
  std::vector<ScalarRule> scalar_rules_;
  int grad_ = 0;
  int indices_ = -1;  // -1: a dense op
  int step_ = -1;     // -1: no input with the step
};

std::unique_ptr<OpKernel> MakeApplyKernel(KernelConstruction& c, const Optimizer& optimizer) {
  const bool plain = optimizer.flag == nullptr || !c.HasAttr(optimizer.flag) ||
                     c.Attr<bool>(optimizer.flag) == (optimizer.flag == std::string_view("update_slots"));
  return std::make_unique<ApplyKernel>(c, plain ? optimizer.rule : optimizer.flagged);
}

}  // namespace

void RegisterTrainingKernels(KernelRegistry& registry) {
  const TypeList all = Concat(FloatTypes(), ComplexTypes());
  for (const Optimizer& optimizer : kOptimizers) {
    const auto make = [&optimizer](KernelConstruction& c) { return MakeApplyKernel(c, optimizer); };
    const TypeList dense = Filter(all, [&](DataType t) { return cpu::HasUpdate(optimizer.rule, t); });
    for (int i = 0; i < 4; ++i) {
      if ((optimizer.forms >> i & 1) == 0) continue;
      const bool sparse = i >= 2;
      KernelDef def(StrCat(kPrefixes[i], optimizer.name));
      def.Types("T", sparse ? FloatTypes() : dense);
      if (sparse) def.Types("Tindices", IndexTypes());
      registry.Register(std::move(def), make);
    }
  }
}

}  // namespace millrace
