// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/volume/kernels.h"

namespace millrace {

void RegisterVolumeKernels(KernelRegistry& registry) {
  for (const auto part : {RegisterFractionalPoolKernels, RegisterVolumeConvKernels,
                          RegisterVolumePatchesKernels, RegisterVolumePoolKernels}) {
    part(registry);
  }
}

}  // namespace millrace
