// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The classes of Eigen that svd_real.cc uses, compiled separately.
#define EIGEN_NO_DEBUG
#include <Eigen/SVD>

#include "kernels/cpu/linalg/eigen_products.h"

template class Eigen::JacobiSVD<Eigen::MatrixXd>;
template class Eigen::internal::UpperBidiagonalization<Eigen::MatrixXd>;
