// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/recurrent/kernels.h"

namespace millrace {

void RegisterRecurrentKernels(KernelRegistry& registry) {
  for (const auto part : {RegisterCtcLossKernels, RegisterDecoderKernels, RegisterEditDistanceKernels,
                          RegisterGruKernels, RegisterLstmKernels}) {
    part(registry);
  }
}

}  // namespace millrace
