// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Factorizations and solvers of real matrices that fit into the second cache, stored by rows, so that the
// loops are over vectors of columns. Large matrices are left to blocked algorithms.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/linalg/matrices.h"

namespace millrace::dense {

// Rows begin at multiples of kWidth numbers. The padding at their ends takes part in the loops over rows; its
// values are undefined.
class Rows {
 public:
  static constexpr int64_t kWidth = 8;
  static constexpr int64_t kMost = 256;  // the most rows and columns for which this is faster

  // Zeros.
  Rows(int64_t rows, int64_t columns)
      : rows_(rows),
        columns_(columns),
        stride_((columns + kWidth - 1) / kWidth * kWidth),
        values_(static_cast<size_t>(rows * stride_)) {}
  // Matrix i of a batch.
  Rows(const Tensor& t, int64_t i);

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  int64_t stride() const { return stride_; }
  double* operator[](int64_t row) { return values_.data() + row * stride_; }
  const double* operator[](int64_t row) const { return values_.data() + row * stride_; }

  // Writes the first `rows` rows to matrix i of a batch.
  void StoreTo(int64_t i, Tensor* t, int64_t rows) const;
  void StoreTo(int64_t i, Tensor* t) const { StoreTo(i, t, rows_); }
  // Converts from and to storage by columns.
  static Rows FromColumns(const double* columns, int64_t rows, int64_t count);
  void ToColumns(double* columns) const;
  Rows Transposed() const;

 private:
  int64_t rows_, columns_, stride_;
  std::vector<double> values_;
};

inline bool IsSmall(int64_t n) { return n <= Rows::kMost; }
inline bool IsSmall(const Tensor& t) { return RowsOf(t) <= Rows::kMost && ColumnsOf(t) <= Rows::kMost; }

// Both factors in one matrix, L with ones on its diagonal.
struct Lu {
  Rows factors;
  std::vector<int64_t> from;  // for each row the row of the input that it comes from
  int sign = 1;               // of the permutation
};
// By partial pivoting; zero pivots stay where they are.
Lu FactorLu(Rows m);
// Whether a factor has a zero or NaN on its diagonal.
bool IsSingular(const Rows& factor);

// The upper factor U with transposed(U) U = m, computed from the upper half of m. False if a pivot is not
// positive.
bool FactorCholesky(Rows* m);

// Solves l x = b or u x = b in place of b. `unit`: the diagonal counts as ones.
void SolveLower(const Rows& l, bool unit, Rows* b);
void SolveUpper(const Rows& u, Rows* b);
// For the matrix with these factors.
Rows Solve(const Lu& lu, const Rows& b);
Rows Inverse(const Lu& lu);

Rows Product(const Rows& a, const Rows& b);

// Q and R by reflections (Householder): `columns` columns of Q, all rows of R.
struct Qr {
  Rows q, r;
};
Qr FactorQr(Rows m, int64_t columns);

}  // namespace millrace::dense
