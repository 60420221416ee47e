// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/nn_kernels.h"
#include "kernels/cpu/nn_spatial.h"
#include "kernels/cpu/register.h"

namespace millrace {

void RegisterNnKernels(KernelRegistry& registry) {
  RegisterNnBatchNormKernels(registry);
  RegisterNnLossKernels(registry);
  RegisterNnBiasKernels(registry);
  RegisterNnConvKernels(registry);
  RegisterFakeQuantKernels(registry);
  RegisterMirrorPadKernels(registry);
  RegisterNnDepthwiseKernels(registry);
  RegisterNnFusedPadKernels(registry);
  RegisterNnLeakyReluKernels(registry);
  RegisterNnMatMulKernels(registry);
  RegisterNnPoolKernels(registry);
  RegisterNnSoftmaxKernels(registry);
  RegisterNnSpatialKernels(registry);
  RegisterSpaceBlockKernels(registry);
  RegisterNnTopKKernels(registry);
}

}  // namespace millrace
