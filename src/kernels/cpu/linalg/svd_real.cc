// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#define EIGEN_NO_DEBUG  // the caller checks the conditions of its assertions
#include <Eigen/SVD>

#include "kernels/cpu/linalg/svd.h"

// Instantiated in svd_real_parts.cc: together they take over 1 GB of memory to compile.
extern template class Eigen::JacobiSVD<Eigen::MatrixXd>;
extern template class Eigen::internal::UpperBidiagonalization<Eigen::MatrixXd>;

namespace millrace {

SvdResult<double> DecomposeSingular(const Eigen::MatrixXd& matrix, SvdVectors wanted) {
  const unsigned options = wanted == SvdVectors::kNone   ? 0U
                           : wanted == SvdVectors::kFull ? Eigen::ComputeFullU | Eigen::ComputeFullV
                                                         : Eigen::ComputeThinU | Eigen::ComputeThinV;
  const Eigen::BDCSVD<Eigen::MatrixXd> svd(matrix, options);
  SvdResult<double> result{.values = svd.singularValues(), .u = {}, .v = {}};
  if (wanted == SvdVectors::kNone) return result;
  result.u = svd.matrixU();
  result.v = svd.matrixV();
  return result;
}

}  // namespace millrace
