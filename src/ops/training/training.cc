// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// One step of an optimizer on one variable, given by reference or by handle.
#include "ops/family.h"
#include "ops/state/variable_shapes.h"

namespace millrace::ops {
namespace {

// Variables and their slots have one shape. The gradient has it, too, or has a row of it for each index; the
// other inputs are scalars.
Status ApplyShape(InferenceContext& c) {
  ShapeHandle variable = VariableShapeOf(c, 0);
  const auto& args = c.op().inputs;
  for (int i = 0; i < c.num_inputs(); ++i) {
    const std::string& name = args[i].name;
    if (args[i].is_ref || args[i].type == DataType::kResource) {
      MR_ASSIGN_OR_RETURN(variable, c.Merge(variable, VariableShapeOf(c, i)));
    } else if (name == "indices") {
      MR_RETURN_IF_ERROR(c.WithRank(c.input(i), 1).status());
    } else if (name != "grad" && name != "delta") {
      MR_RETURN_IF_ERROR(c.WithRank(c.input(i), 0).status());
    } else if (i + 1 < c.num_inputs() && args[i + 1].name == "indices") {
      MR_ASSIGN_OR_RETURN(const ShapeHandle indices, c.WithRank(c.input(i + 1), 1));
      MR_RETURN_IF_ERROR(c.Merge(c.Dim(indices, 0), c.Dim(c.input(i), 0)).status());
      MR_ASSIGN_OR_RETURN(const ShapeHandle rows, c.WithRankAtLeast(c.input(i), 1));
      MR_ASSIGN_OR_RETURN(const ShapeHandle any, c.ReplaceDim(rows, 0, c.UnknownDim()));
      MR_ASSIGN_OR_RETURN(variable, c.Merge(variable, any));
    } else {
      MR_ASSIGN_OR_RETURN(variable, c.Merge(variable, c.input(i)));
    }
  }
  if (c.num_outputs() > 0) c.set_output(0, variable);
  return Status::Ok();
}

enum Forms { kDense = 1, kRows = 2, kOnReference = 4, kOnResource = 8 };
constexpr int kBoth = kOnReference | kOnResource;

struct Optimizer {
  const char* name;
  int forms;
  std::vector<const char*> variables;
  std::vector<const char*> operands;
  const char* flag = nullptr;
};

constexpr char kNesterov[] = "use_nesterov: bool = false";
constexpr char kUpdateSlots[] = "update_slots: bool = true";

const std::vector<Optimizer>& Optimizers() {
  static const auto& table = *new std::vector<Optimizer>{
      {"GradientDescent: Subtracts alpha times delta from a variable.",
       kDense | kBoth,
       {"var"},
       {"alpha", "delta"}},
      {"ProximalGradientDescent: One step of gradient descent, then shrinkage by l1 and l2.",
       kDense | kRows | kBoth,
       {"var"},
       {"alpha", "l1", "l2", "delta"}},
      {"Momentum: One step of gradient descent with momentum, optionally Nesterov's.",
       kDense | kRows | kBoth,
       {"var", "accum"},
       {"lr", "grad", "momentum"},
       kNesterov},
      {"KerasMomentum: One step of gradient descent with momentum on a resource variable, as in Keras.",
       kDense | kRows | kOnResource,
       {"var", "accum"},
       {"lr", "grad", "momentum"},
       kNesterov},
      {"Adam: One step of Adam: running means of the gradient and of its square, corrected for their start.",
       kDense | kBoth,
       {"var", "m", "v"},
       {"beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon", "grad"},
       kNesterov},
      {"AdamWithAmsgrad: One step of Adam on a resource variable, with the largest mean square so far.",
       kDense | kOnResource,
       {"var", "m", "v", "vhat"},
       {"beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon", "grad"}},
      {"AdaMax: One step of AdaMax: Adam with the largest gradient so far instead of the mean square.",
       kDense | kBoth,
       {"var", "m", "v"},
       {"beta1_power", "lr", "beta1", "beta2", "epsilon", "grad"}},
      {"Adagrad: One step of Adagrad: the gradient divided by the root of the sum of its squares so far.",
       kDense | kRows | kBoth,
       {"var", "accum"},
       {"lr", "grad"},
       kUpdateSlots},
      {"AdagradV2: One step of Adagrad with an epsilon.",
       kDense | kRows | kBoth,
       {"var", "accum"},
       {"lr", "epsilon", "grad"},
       kUpdateSlots},
      {"AdagradDA: One step of Adagrad by dual averaging, with regularisation.",
       kDense | kRows | kBoth,
       {"var", "gradient_accumulator", "gradient_squared_accumulator"},
       {"grad", "lr", "l1", "l2", "global_step"}},
      {"Adadelta: One step of Adadelta, which keeps running means of squared gradients and squared steps.",
       kDense | kRows | kBoth,
       {"var", "accum", "accum_update"},
       {"lr", "rho", "epsilon", "grad"}},
      {"RMSProp: One step of RMSProp: the gradient divided by the root of the running mean of its squares.",
       kDense | kRows | kBoth,
       {"var", "ms", "mom"},
       {"lr", "rho", "momentum", "epsilon", "grad"}},
      {"CenteredRMSProp: One step of RMSProp that also keeps the mean gradient.",
       kDense | kRows | kBoth,
       {"var", "mg", "ms", "mom"},
       {"lr", "rho", "momentum", "epsilon", "grad"}},
      {"Ftrl: One step of \"follow the regularised leader\".",
       kDense | kRows | kBoth,
       {"var", "accum", "linear"},
       {"grad", "lr", "l1", "l2", "lr_power"}},
      {"FtrlV2: One step of \"follow the regularised leader\", with shrinkage.",
       kDense | kRows | kBoth,
       {"var", "accum", "linear"},
       {"grad", "lr", "l1", "l2", "l2_shrinkage", "lr_power"}},
      {"ProximalAdagrad: One step of Adagrad, then shrinkage by l1 and l2.",
       kDense | kRows | kBoth,
       {"var", "accum"},
       {"lr", "l1", "l2", "grad"}},
      {"AddSign: One step of AddSign: larger where gradient and its running mean agree in sign.",
       kDense | kBoth,
       {"var", "m"},
       {"lr", "alpha", "sign_decay", "beta", "grad"}},
      {"PowerSign: One step of PowerSign: the gradient scaled by a power that depends on the agreement of "
       "signs.",
       kDense | kBoth,
       {"var", "m"},
       {"lr", "logbase", "sign_decay", "beta", "grad"}},
  };
  return table;
}

OpBuilder Apply(const Optimizer& optimizer, bool rows, bool resource) {
  OpBuilder op(StrCat(resource ? "Resource" : "", rows ? "Sparse" : "", "Apply", optimizer.name));
  for (const char* name : optimizer.variables) op.Input(StrCat(name, resource ? ": resource" : ": Ref(T)"));
  for (const std::string_view name : optimizer.operands) {
    const bool gradient = name == "grad" || name == "delta";
    op.Input(name == "global_step" ? "global_step: int64" : StrCat(rows && gradient ? "grad" : name, ": T"));
    if (rows && gradient) op.Input("indices: Tindices");
  }
  if (resource) {
    op.Stateful();
  } else {
    op.Output("out: Ref(T)");
  }
  op.Attr(kNumber);
  if (rows) op.Attr(kIndices);
  op.Attr("use_locking: bool = false");
  if (optimizer.flag != nullptr) op.Attr(optimizer.flag);
  return op.Shape(ApplyShape).Traits(kEffect).NotDifferentiable();
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterTrainingOps(OpRegistry& registry) {
  for (const ops::Optimizer& optimizer : ops::Optimizers()) {
    for (const int form : {ops::kDense, ops::kRows}) {
      for (const int kind : {ops::kOnReference, ops::kOnResource}) {
        if ((optimizer.forms & form) == 0 || (optimizer.forms & kind) == 0) continue;
        MR_RETURN_IF_ERROR(
            registry.Register(ops::Apply(optimizer, form == ops::kRows, kind == ops::kOnResource)));
      }
    }
  }
  return Status::Ok();
}

}  // namespace millrace
