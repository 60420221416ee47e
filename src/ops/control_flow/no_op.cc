// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/family.h"

namespace millrace {

Status RegisterNoOp(OpRegistry& registry) {
  return registry.Register(OpBuilder("NoOp: Does nothing; for control edges.")
                               .Shape(shape_fns::NoOutputs)
                               .Traits(ops::kCheap)
                               .NotDifferentiable());
}

}  // namespace millrace
