// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/register.h"

#include "kernels/cpu/image/kernels.h"

namespace millrace {

void RegisterImageKernels(KernelRegistry& registry) {
  for (const auto part :
       {RegisterImageCodecKernels, RegisterColorKernels, RegisterCropKernels, RegisterBoxKernels,
        RegisterResizeKernels, RegisterResizeGradientKernels, RegisterSuppressionKernels}) {
    part(registry);
  }
}

}  // namespace millrace
