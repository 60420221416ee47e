// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#define EIGEN_NO_DEBUG  // the caller checks the conditions of its assertions
#include "kernels/cpu/linalg/least_squares.h"
#include "kernels/cpu/linalg/least_squares_solver.h"

namespace millrace {

bool SolveLeastSquares(const Eigen::MatrixXcd& a, const Eigen::MatrixXcd& b, double weight, bool fast,
                       Eigen::MatrixXcd* x) {
  return SolveLeastSquaresOf(a, b, weight, fast, x);
}

}  // namespace millrace
