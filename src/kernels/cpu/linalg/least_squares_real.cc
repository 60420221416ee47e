// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#define EIGEN_NO_DEBUG  // the caller checks the conditions of its assertions
#include <algorithm>

#include "kernels/cpu/linalg/dense.h"
#include "kernels/cpu/linalg/least_squares.h"
#include "kernels/cpu/linalg/least_squares_solver.h"

namespace millrace {
namespace {

// SolveNormalEquations for small matrices.
bool SolveSmall(const Eigen::MatrixXd& a, const Eigen::MatrixXd& b, double weight, Eigen::MatrixXd* x) {
  const auto rows = dense::Rows::FromColumns(a.data(), a.rows(), a.cols());
  const auto adjoint = rows.Transposed(), right = dense::Rows::FromColumns(b.data(), b.rows(), b.cols());
  const bool tall = a.rows() >= a.cols();
  dense::Rows gram = tall ? dense::Product(adjoint, rows) : dense::Product(rows, adjoint);
  for (int64_t i = 0; i < gram.rows(); ++i) gram[i][i] += weight;
  if (!dense::FactorCholesky(&gram)) return false;
  dense::Rows solution = tall ? dense::Product(adjoint, right) : right;
  dense::SolveLower(gram.Transposed(), /*unit=*/false, &solution);
  dense::SolveUpper(gram, &solution);
  if (!tall) solution = dense::Product(adjoint, solution);
  x->resize(a.cols(), b.cols());
  solution.ToColumns(x->data());
  return true;
}

}  // namespace

bool SolveLeastSquares(const Eigen::MatrixXd& a, const Eigen::MatrixXd& b, double weight, bool fast,
                       Eigen::MatrixXd* x) {
  if (fast && dense::IsSmall(std::max({a.rows(), a.cols(), b.cols()}))) return SolveSmall(a, b, weight, x);
  return SolveLeastSquaresOf(a, b, weight, fast, x);
}

}  // namespace millrace
