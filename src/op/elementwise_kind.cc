// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "op/elementwise_kind.h"

#include "op/shape_inference.h"

namespace millrace {
namespace {

bool Broadcasts(const OpRegistration& op) {
  using Function = Status (*)(InferenceContext&);
  const auto* const shape = op.shape_fn.target<Function>();
  return op.elementwise.operands == ElementwiseForm::Operands::kBroadcast ||
         (shape != nullptr && *shape == &shape_fns::BroadcastBinary);
}

}  // namespace

ElementwiseKind ElementwiseKindOf(const OpRegistration& op) {
  const bool forwards = op.traits.forwards && !op.traits.never_fold;
  if (!op.traits.elementwise && !forwards) return ElementwiseKind::kNone;
  if (op.def.is_stateful || op.def.inputs.empty() || op.def.outputs.size() != 1)
    return ElementwiseKind::kNone;
  for (const ArgDef& input : op.def.inputs) {
    if (!input.type_list_attr.empty() || input.is_ref) return ElementwiseKind::kNone;
  }
  const bool is_list = !op.def.inputs[0].number_attr.empty();
  if (op.def.inputs.size() == 1 && !is_list) return ElementwiseKind::kOne;
  return op.def.inputs.size() == 2 && Broadcasts(op) ? ElementwiseKind::kBroadcasts
                                                     : ElementwiseKind::kSameShape;
}

}  // namespace millrace
