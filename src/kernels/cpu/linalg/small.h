// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Dense linear algebra of small real matrices in their own type, on registers of the active instruction set.
// Matrices are row-major and dense, on one thread; the bits of a result depend on the arguments and the
// instruction set only. The units small_*.inc.h are compiled once for each instruction set.
#pragma once

#include <stdint.h>

namespace millrace::cpu {

inline constexpr int64_t kMostSmall = 64;  // rows and columns

inline bool IsSmallMatrix(int64_t rows, int64_t columns) {
  return rows > 0 && columns > 0 && rows <= kMostSmall && columns <= kMostSmall;
}

// REQUIRES for all: every number of rows or columns is in [1, kMostSmall], except k: any number of columns of
// right sides. Inputs are not outputs.
template <typename T>
struct SmallMatrixTable {
  // By partial pivoting: both factors in one matrix, and for each of its rows the row of the input that it is
  // made of. False: a pivot is zero or no number.
  bool (*lu)(const T* a, int64_t n, T* factors, int32_t* rows);
  // The pivots; whether the permutation is odd.
  bool (*pivots)(const T* a, int64_t n, T* pivots);
  // False: singular.
  bool (*inverse)(const T* a, int64_t n, bool adjoint, T* out);
  bool (*solve)(const T* a, int64_t n, bool adjoint, const T* b, int64_t k, T* x);
  bool (*solve_triangular)(const T* a, int64_t n, bool lower, bool adjoint, const T* b, int64_t k, T* x);
  // Of the lower half. False: a pivot is not positive.
  bool (*cholesky)(const T* a, int64_t n, T* out);
  void (*cholesky_grad)(const T* factor, const T* grad, int64_t n, T* out);
  // `columns` columns of Q (m of them, or min(m, n)), as many rows of R. False, and nothing is stored: sums
  // of squares leave the range of T.
  bool (*qr)(const T* a, int64_t m, int64_t n, int64_t columns, T* q, T* r);
  // min |a x - b|^2 + weight |x|^2 by the normal equations. False: too ill-conditioned.
  bool (*least_squares)(const T* a, int64_t m, int64_t n, T weight, const T* b, int64_t k, T* x);
  // Singular values in decreasing order, min(m, n) columns of U and V; these may be null. False: the
  // iteration does not end, or the matrix is singular to working precision, or its range is too wide.
  bool (*svd)(const T* a, int64_t m, int64_t n, T* values, T* u, T* v);
  // Eigenvalues in increasing order and vectors as columns, which may be null. False: the iteration does not
  // end, or the range is too wide.
  bool (*self_adjoint_eig)(const T* a, int64_t n, T* values, T* vectors);
  // The principal root, by an iteration. False: where it does not converge soon.
  bool (*square_root)(const T* a, int64_t n, T* out);
};

// Complex matrices in double precision, as pairs of a real and an imaginary part.
struct SmallComplexTable {
  // The principal logarithm of n x n numbers, which is that of the transposed matrix, transposed. False where
  // the sums do not converge soon. `room`: SmallComplexRoom(n) numbers, aligned to 64 bytes.
  bool (*logarithm)(const double* a, int64_t n, double* out, double* room);
};
inline int64_t SmallComplexRoom(int64_t n) { return 16 * (n * ((n + 7) / 8 * 8) + 136); }

namespace baseline {
extern const SmallMatrixTable<float> kSmallFloat;
extern const SmallMatrixTable<double> kSmallDouble;
extern const SmallComplexTable kSmallComplex;
}  // namespace baseline
namespace avx2 {
extern const SmallMatrixTable<float> kSmallFloat;
extern const SmallMatrixTable<double> kSmallDouble;
extern const SmallComplexTable kSmallComplex;
}  // namespace avx2
namespace avx512 {
extern const SmallMatrixTable<float> kSmallFloat;
extern const SmallMatrixTable<double> kSmallDouble;
extern const SmallComplexTable kSmallComplex;
}  // namespace avx512

// Of ActiveIsa(). T: float, double.
template <typename T>
const SmallMatrixTable<T>& SmallMatrices();
const SmallComplexTable& SmallComplexMatrices();

}  // namespace millrace::cpu
