// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "autodiff/expr.h"
#include "autodiff/gradient_registry.h"

namespace millrace {

namespace gradients {

// Of batches of matrices.
Expr Product(const Expr& a, const Expr& b, bool adj_a, bool adj_b);
Expr Transposed(const Expr& x);
Expr Adjoint(const Expr& x);
// The diagonals from -lower to upper; negative: all on that side.
Expr Band(const Expr& x, int64_t lower, int64_t upper);
Expr HalfDiagonal(const Expr& x);

}  // namespace gradients
}  // namespace millrace
