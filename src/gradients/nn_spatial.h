// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "autodiff/gradient_registry.h"
#include "millrace/status.h"

namespace millrace {

// A family beside those of register.h: kin of convolution, and moves between batch, space and depth.
Status RegisterNnSpatialGradients(GradientRegistry& registry);

}  // namespace millrace
