// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Factors and systems of real matrices that fit into the second cache, by rows, so that the loops are over
// vectors of columns. Large matrices are left to blocked methods.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/linalg/matrices.h"

namespace millrace::dense {

// Rows begin at multiples of kWidth numbers. What is behind their ends takes part in the loops over rows, and
// has no meaning.
class Rows {
 public:
  static constexpr int64_t kWidth = 8;
  static constexpr int64_t kMost = 256;  // rows and columns that are worth it

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

  // As matrix i of a batch, the first `rows` of it.
  void StoreTo(int64_t i, Tensor* t, int64_t rows) const;
  void StoreTo(int64_t i, Tensor* t) const { StoreTo(i, t, rows_); }
  // Of and to one column after the other.
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
  std::vector<int64_t> from;  // for each row the row of the input that it is made of
  int sign = 1;               // of that permutation
};
// By partial pivoting; zero pivots stay where they are.
Lu FactorLu(Rows m);
// Whether a factor has a zero, or something that is no number, on its diagonal.
bool IsSingular(const Rows& factor);

// The upper factor U with transposed(U) U = m, of whose upper half it is made. False if a pivot is not
// positive.
bool FactorCholesky(Rows* m);

// x where l x = b or u x = b, in the place of b. `unit`: the diagonal counts as ones.
void SolveLower(const Rows& l, bool unit, Rows* b);
void SolveUpper(const Rows& u, Rows* b);
// Of the matrix whose factors these are.
Rows Solve(const Lu& lu, const Rows& b);
Rows Inverse(const Lu& lu);

Rows Product(const Rows& a, const Rows& b);

// Q and R by reflections (Householder): `columns` columns of Q, all rows of R.
struct Qr {
  Rows q, r;
};
Qr FactorQr(Rows m, int64_t columns);

}  // namespace millrace::dense
