// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Variables. The gradient of a resource is that of the value it holds.
#include "gradients/family.h"

namespace millrace {

Status RegisterStateGradients(GradientRegistry& registry) {
  return registry.Register("ReadVariableOp", gradients::PassThrough);
}

}  // namespace millrace
