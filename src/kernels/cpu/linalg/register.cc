// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/register.h"

#include "kernels/cpu/linalg/kernels.h"

namespace millrace {

void RegisterLinalgKernels(KernelRegistry& registry) {
  for (const auto part : {RegisterDiagonalKernels, RegisterEinsumKernels, RegisterMatrixFunctionKernels,
                          RegisterOrthogonalKernels, RegisterSolveKernels, RegisterSpectralKernels,
                          RegisterTridiagonalKernels}) {
    part(registry);
  }
}

}  // namespace millrace
