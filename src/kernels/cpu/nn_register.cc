// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/nn_kernels.h"
#include "kernels/cpu/register.h"

namespace millrace {

void RegisterNnKernels(KernelRegistry& registry) {
  RegisterNnBatchNormKernels(registry);
  RegisterNnLossKernels(registry);
  RegisterNnBiasKernels(registry);
  RegisterNnConvKernels(registry);
  RegisterNnMatMulKernels(registry);
  RegisterNnPoolKernels(registry);
  RegisterNnSoftmaxKernels(registry);
  RegisterNnTopKKernels(registry);
}

}  // namespace millrace
