// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "autodiff/gradient_registry.h"
#include "millrace/status.h"

namespace millrace {

// Each puts the gradients of one family of ops into the registry. Calling one twice is fine.
Status RegisterArrayGradients(GradientRegistry& registry);
Status RegisterArrayIndexingGradients(GradientRegistry& registry);
Status RegisterBatchNormGradients(GradientRegistry& registry);
Status RegisterBinaryMathGradients(GradientRegistry& registry);
Status RegisterControlFlowGradients(GradientRegistry& registry);
Status RegisterConvolutionGradients(GradientRegistry& registry);
Status RegisterFunctionalGradients(GradientRegistry& registry);
Status RegisterImageGradients(GradientRegistry& registry);
Status RegisterEinsumGradients(GradientRegistry& registry);  // a part of the next
Status RegisterLinalgGradients(GradientRegistry& registry);
Status RegisterMatMulGradients(GradientRegistry& registry);
Status RegisterNnGradients(GradientRegistry& registry);
Status RegisterPatchGradients(GradientRegistry& registry);
Status RegisterReductionGradients(GradientRegistry& registry);
Status RegisterSegmentGradients(GradientRegistry& registry);
Status RegisterSparseGradients(GradientRegistry& registry);
Status RegisterSparseMathGradients(GradientRegistry& registry);
Status RegisterStateGradients(GradientRegistry& registry);
Status RegisterTensorArrayGradients(GradientRegistry& registry);
Status RegisterTensorListGradients(GradientRegistry& registry);
Status RegisterUnaryMathGradients(GradientRegistry& registry);
// The ops whose outputs do not depend on their inputs in a way that can be differentiated.
Status RegisterNotDifferentiableOps(GradientRegistry& registry);

// All of the above.
Status RegisterAllGradients(GradientRegistry& registry);

}  // namespace millrace
