// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Complex matrices are reduced to real bidiagonal ones first, so that the iteration is compiled for real
// numbers only.
#define EIGEN_NO_DEBUG  // the caller checks the conditions of its assertions
#include <Eigen/Householder>
#include <Eigen/SVD>

#include "kernels/cpu/linalg/svd.h"

namespace millrace {
namespace {

using Complex = std::complex<double>;

// The first `columns` columns of `reflections` times [vectors, 0; 0, identity].
template <typename Reflections>
Eigen::MatrixXcd Expand(const Reflections& reflections, const Eigen::MatrixXd& vectors, Eigen::Index rows,
                        Eigen::Index columns) {
  Eigen::MatrixXcd result = Eigen::MatrixXcd::Identity(rows, columns);
  result.topLeftCorner(vectors.rows(), vectors.cols()) = vectors.cast<Complex>();
  result.applyOnTheLeft(reflections);
  return result;
}

}  // namespace

SvdResult<Complex> DecomposeSingular(const Eigen::MatrixXcd& matrix, SvdVectors wanted) {
  const Eigen::Index m = matrix.rows(), n = matrix.cols();
  if (m < n) {
    SvdResult<Complex> result = DecomposeSingular(Eigen::MatrixXcd(matrix.adjoint()), wanted);
    std::swap(result.u, result.v);
    return result;
  }
  // Squares of the elements of the scaled matrix neither overflow nor vanish.
  const double largest = std::max(matrix.real().cwiseAbs().maxCoeff(), matrix.imag().cwiseAbs().maxCoeff());
  const double scale = largest > 0 ? largest : 1;
  Eigen::internal::UpperBidiagonalization<Eigen::MatrixXcd> steps(matrix / scale);
  const Eigen::MatrixXd bidiagonal = steps.bidiagonal().toDenseMatrix();
  const SvdResult<double> inner = DecomposeSingular(bidiagonal, wanted);
  SvdResult<Complex> result{.values = inner.values * scale, .u = {}, .v = {}};
  if (wanted == SvdVectors::kNone) return result;
  result.u = Expand(steps.householderU(), inner.u, m, wanted == SvdVectors::kFull ? m : n);
  result.v = Expand(steps.householderV(), inner.v, n, n);
  return result;
}

}  // namespace millrace
