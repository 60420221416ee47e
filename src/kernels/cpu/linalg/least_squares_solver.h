// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// For least_squares_real.cc and least_squares_complex.cc. Include it with EIGEN_NO_DEBUG defined.
#pragma once

#include <Eigen/Cholesky>
#include <Eigen/QR>

namespace millrace {

// By the normal equations, of the first kind or, if there are fewer equations than unknowns, the second.
template <typename M>
bool SolveNormalEquations(const M& a, const M& b, double weight, M* x) {
  const bool tall = a.rows() >= a.cols();
  M gram = tall ? M(a.adjoint() * a) : M(a * a.adjoint());
  gram.diagonal().array() += typename M::Scalar(weight);
  const Eigen::LLT<M> llt(gram);
  if (llt.info() != Eigen::Success) return false;
  if (tall) {
    const M right = a.adjoint() * b;
    *x = llt.solve(right);
  } else {
    const M multipliers = llt.solve(b);
    x->noalias() = a.adjoint() * multipliers;
  }
  return true;
}

template <typename M>
bool SolveLeastSquaresOf(const M& a, const M& b, double weight, bool fast, M* x) {
  if (fast) return SolveNormalEquations(a, b, weight, x);
  *x = a.completeOrthogonalDecomposition().solve(b);
  return true;
}

}  // namespace millrace
