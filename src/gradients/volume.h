// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "autodiff/gradient_registry.h"

namespace millrace {

// The families of ops/volume.h.
Status RegisterMatrixGradients(GradientRegistry& registry);
Status RegisterQuantizedGradients(GradientRegistry& registry);
Status RegisterRecurrentGradients(GradientRegistry& registry);
Status RegisterSpectralGradients(GradientRegistry& registry);
Status RegisterVolumeGradients(GradientRegistry& registry);

}  // namespace millrace
