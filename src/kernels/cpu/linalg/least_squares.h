// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Eigen/Core>
#include <complex>

#include "kernels/cpu/linalg/eigen_products.h"

namespace millrace {

// Sets x to the solution of min |A X - B|^2 + weight |X|^2. `fast` selects the normal equations, otherwise a
// complete orthogonal decomposition finds the solution of the least norm, without the weight. False if the
// normal equations are too ill-conditioned. REQUIRES: matrices with elements, of the same number of rows.
// Each type has a separate file, since they take long to compile.
bool SolveLeastSquares(const Eigen::MatrixXd& a, const Eigen::MatrixXd& b, double weight, bool fast,
                       Eigen::MatrixXd* x);
bool SolveLeastSquares(const Eigen::MatrixXcd& a, const Eigen::MatrixXcd& b, double weight, bool fast,
                       Eigen::MatrixXcd* x);

}  // namespace millrace
