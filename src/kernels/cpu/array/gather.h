// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/kernel_util.h"

namespace millrace {

// Sets output 0 to the rows of `params` along `axis` at `indices`; the first `batch_dims` dimensions of both
// are batch dimensions. REQUIRES: 0 <= batch_dims <= axis < params.rank(), batch_dims <= indices.rank().
Status GatherInto(KernelContext& context, const Tensor& params, const Tensor& indices, int axis,
                  int batch_dims);

// Sets output 0 to the slices of `params` at the index vectors in the last dimension of `indices`.
Status GatherNdInto(KernelContext& context, const Tensor& params, const Tensor& indices);

}  // namespace millrace
