// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// What svd_real.cc uses of Eigen, compiled on its own.
#define EIGEN_NO_DEBUG
#include <Eigen/SVD>

#include "kernels/cpu/linalg/eigen_products.h"

template class Eigen::JacobiSVD<Eigen::MatrixXd>;
template class Eigen::internal::UpperBidiagonalization<Eigen::MatrixXd>;
