// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "autodiff/expr.h"

namespace millrace::gradients {

// The gradient of params[batch..., middle..., indices[batch..., places...], inner...], which has the shape
// [batch..., middle..., places..., inner...]: dy added up in the shape of the params. `axis` is where the
// indices count and `batch_dims` how many dimensions both share; int32 scalars, 0 <= batch_dims <= axis.
// `params_shape` is int32.
Expr ScatterRows(const Expr& dy, const Expr& indices, const Expr& params_shape, const Expr& axis,
                 const Expr& batch_dims);

}  // namespace millrace::gradients
