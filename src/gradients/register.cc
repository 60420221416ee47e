// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "gradients/register.h"

#include "gradients/nn_spatial.h"
#include "gradients/value_gradients.h"
#include "gradients/volume.h"

namespace millrace {

Status RegisterAllGradients(GradientRegistry& registry) {
  for (const auto family : {RegisterArrayGradients,       RegisterArrayIndexingGradients,
                            RegisterArrayValueGradients,  RegisterBinaryMathGradients,
                            RegisterControlFlowGradients, RegisterConvolutionGradients,
                            RegisterFunctionalGradients,  RegisterImageGradients,
                            RegisterLinalgGradients,      RegisterMatMulGradients,
                            RegisterNnGradients,          RegisterNnSpatialGradients,
                            RegisterReductionGradients,   RegisterSegmentGradients,
                            RegisterSparseGradients,      RegisterSparseMathGradients,
                            RegisterSpecialMathGradients, RegisterStateGradients,
                            RegisterTensorArrayGradients, RegisterTensorListGradients,
                            RegisterUnaryMathGradients,   RegisterBatchNormGradients,
                            RegisterPatchGradients,       RegisterVolumeGradients,
                            RegisterMatrixGradients,      RegisterQuantizedGradients,
                            RegisterRecurrentGradients,   RegisterSpectralGradients,
                            RegisterNotDifferentiableOps}) {
    MR_RETURN_IF_ERROR(family(registry));
  }
  return Status();
}

}  // namespace millrace
