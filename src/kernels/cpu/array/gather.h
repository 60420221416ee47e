// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/kernel_util.h"

namespace millrace {

// Rows of `params` along `axis` by `indices`, with the first `batch_dims` dimensions of both walked together,
// as output 0. REQUIRES: 0 <= batch_dims <= axis < params.rank(), batch_dims <= indices.rank().
Status GatherInto(KernelContext& context, const Tensor& params, const Tensor& indices, int axis,
                  int batch_dims);

// Slices of `params` by the vectors that are the last dimension of `indices`, as output 0.
Status GatherNdInto(KernelContext& context, const Tensor& params, const Tensor& indices);

}  // namespace millrace
