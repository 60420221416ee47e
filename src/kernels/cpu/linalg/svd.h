// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Eigen/Core>
#include <complex>

#include "kernels/cpu/linalg/eigen_products.h"

namespace millrace {

enum class SvdVectors { kNone, kThin, kFull };

template <typename S>
struct SvdResult {
  using Vectors = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic>;

  Eigen::VectorXd values;  // in decreasing order
  Vectors u, v;            // matrix = u * diag(values) * adjoint(v); empty if not requested
};

// REQUIRES: the matrix is finite and has elements. Each type has a separate file, since they take long to
// compile.
SvdResult<double> DecomposeSingular(const Eigen::MatrixXd& matrix, SvdVectors wanted);
SvdResult<std::complex<double>> DecomposeSingular(const Eigen::MatrixXcd& matrix, SvdVectors wanted);

}  // namespace millrace
