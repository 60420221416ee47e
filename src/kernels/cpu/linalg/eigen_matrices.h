// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Views matrices of a batch as Eigen matrices. Include it after the headers of Eigen that the file needs.
#pragma once

#include <Eigen/Core>

#include "kernels/cpu/linalg/eigen_products.h"
#include "kernels/cpu/linalg/matrices.h"

namespace millrace {

template <typename S>
using Matrix = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <typename S>
using ColumnMatrix = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic>;

template <typename S>
Matrix<S> Load(const Tensor& t, int64_t i) {
  Matrix<S> m(RowsOf(t), ColumnsOf(t));
  LoadAs(t, i * m.size(), m.size(), m.data());
  return m;
}
template <typename S>
void Store(const Matrix<S>& m, int64_t i, Tensor* t) {
  StoreAs(m.data(), i * m.size(), m.size(), t);
}

inline double Cost(int64_t m, int64_t n) {
  return static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(std::min(m, n));
}

}  // namespace millrace
