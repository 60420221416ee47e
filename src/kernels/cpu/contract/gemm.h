// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Matrix products on raw pointers. Any thread may call; results are the same bits for every number of
// threads.
#pragma once

#include <cstdint>

#include "kernels/cpu/contract/parallel.h"
#include "kernels/cpu/contract/rectify.h"

namespace millrace::cpu {

// C[m,n] = op(A)[m,k] * op(B)[k,n] (+ C), all row-major. op(X) is X, or its transpose where trans_x is set:
// then X is stored [k,m] (A) or [n,k] (B). Any of m, n, k may be 0; k == 0 gives zeros (or leaves C where
// accumulate is set).
struct GemmShape {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  bool trans_a = false;
  bool trans_b = false;
  bool accumulate = false;  // add to the values in C
  int64_t lda = 0;          // elements between stored rows; 0 means dense
  int64_t ldb = 0;
  int64_t ldc = 0;
};

// The operations on the results, in this order; those that are null or none are skipped:
// C = rows(rectify(C * scale[column] + bias[column] + residual[row, column])).
template <typename T>
struct GemmEpilogue {
  const T* scale = nullptr;     // n values
  const T* bias = nullptr;      // n values
  const T* residual = nullptr;  // in the layout of C; must not be C
  Rectify rectify = Rectify::kNone;
  // Any function of one element, over count elements in place; called on parts of rows.
  void (*rows)(const void* in, void* out, int64_t count) = nullptr;
};

// Vectorised. REQUIRES: a, b and c don't overlap; all products of dims fit int64_t. `packed` is B by
// PackMatrix (with one run of k) or null; results are the same. It needs more than one row and no accumulate.
void Gemm(const GemmShape& shape, const float* a, const float* b, float* c, Parallel& parallel,
          const GemmEpilogue<float>& epilogue = {}, const float* packed = nullptr);
void Gemm(const GemmShape& shape, const double* a, const double* b, double* c, Parallel& parallel,
          const GemmEpilogue<double>& epilogue = {}, const double* packed = nullptr);

// Whether adding to C (accumulate) gives the same bits as C as the residual: sums that are not split are
// added once, at the end.
bool AddsOnce(const GemmShape& shape);

// A matrix in the order in which the inner loops read it: `runs` times k rows of n columns. The order depends
// on the instruction set. With `winograd` it is a filter [3, 3, k, n] in the form of conv_winograd.h.
struct PackedShape {
  int64_t k = 0, runs = 1, n = 0;
  bool winograd = false;
  friend bool operator==(const PackedShape&, const PackedShape&) = default;
};
template <typename T>
int64_t PackedElements(const PackedShape& shape);
// Rows of b lie ldb elements apart, or with `transposed` its columns do. REQUIRES: no size is 0.
template <typename T>
void PackMatrix(const PackedShape& shape, const T* b, int64_t ldb, bool transposed, T* packed);

// Plain loops for types without a fast path. Instantiated for int32_t, int64_t (both wrap on overflow),
// std::complex<float> and std::complex<double>. Transposes don't conjugate.
template <typename T>
void GemmGeneric(const GemmShape& shape, const T* a, const T* b, T* c, Parallel& parallel);

}  // namespace millrace::cpu
