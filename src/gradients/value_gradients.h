// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "autodiff/gradient_registry.h"

namespace millrace {

// More of the families that gradients/register.h lists.
Status RegisterArrayValueGradients(GradientRegistry& registry);
Status RegisterSpecialMathGradients(GradientRegistry& registry);

}  // namespace millrace
