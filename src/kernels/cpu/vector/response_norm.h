// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Local response normalisation: Krizhevsky, Sutskever, Hinton, "ImageNet classification with deep
// convolutional neural networks", section 3.3. In float.
#pragma once

#include <cstdint>

#include "kernels/cpu/contract/parallel.h"
#include "kernels/cpu/vector/tables.h"

namespace millrace::cpu {

// y = x (bias + alpha (sum of the squares of the channels within `radius`))^-beta, for each pixel. x and y
// are [pixels, depth], depth >= 1; any radius >= 0.
void ResponseNormalize(ResponseNorm norm, const float* x, float* y, int64_t pixels, Parallel& parallel);
// Its gradient with respect to x, given y and the gradient with respect to y.
void ResponseNormalizeGrad(ResponseNorm norm, const ResponseNormGrads& grads, int64_t pixels,
                           Parallel& parallel);

}  // namespace millrace::cpu
