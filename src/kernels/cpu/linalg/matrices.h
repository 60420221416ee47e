// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Code that the kernels of linear algebra share: batches of matrices, in any of four types, computed in
// double precision, with one instantiation each for real and complex numbers.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <complex>

#include "base/mutex.h"
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/linalg/small.h"

namespace millrace {

inline TypeList MatrixTypes() {
  return {DataType::kFloat, DataType::kDouble, DataType::kComplex64, DataType::kComplex128};
}
inline TypeList RealMatrixTypes() { return {DataType::kFloat, DataType::kDouble}; }

// The first dimensions of t, without the last `n`.
inline TensorShape BatchShapeOf(const Tensor& t, int n = 2) {
  return TensorShape(t.shape().dims().subspan(0, static_cast<size_t>(t.rank() - n)));
}
inline int64_t RowsOf(const Tensor& t) { return t.dim(t.rank() - 2); }
inline int64_t ColumnsOf(const Tensor& t) { return t.dim(t.rank() - 1); }

// Checks that the first n inputs are batches of equal shape.
inline Status CheckBatches(const KernelContext& context, int n) {
  for (int i = 0; i < n; ++i) {
    const Tensor& t = context.input(i);
    if (i == 0 && t.rank() < 2) return errors::InvalidArgument("Input tensor ", i, " must have rank >= 2");
    if (t.rank() != context.input(0).rank())
      return errors::InvalidArgument("All input tensors must have the same rank.");
    if (BatchShapeOf(t) != BatchShapeOf(context.input(0)))
      return errors::InvalidArgument("All input tensors must have the same outer dimensions.");
  }
  return Status();
}

// Allocates an output with the batch shape of the first input and two more dimensions, one if columns < 0.
inline StatusOr<Tensor*> AllocateMatrices(KernelContext& context, int output, int64_t rows,
                                          int64_t columns = -1) {
  TensorShape shape = BatchShapeOf(context.input(0));
  MR_RETURN_IF_ERROR(shape.TryAddDim(rows));
  if (columns >= 0) MR_RETURN_IF_ERROR(shape.TryAddDim(columns));
  return context.AllocateOutput(output, shape);
}

// Copies elements [offset, offset + n) to doubles, and back below.
template <typename S>
void LoadAs(const Tensor& t, int64_t offset, int64_t n, S* to) {
  const auto copy = [&]<typename T>(const T* from) {
    if constexpr (kIsComplex<S> || !kIsComplex<T>) {
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<S>(from[offset + i]);
    }
  };
  switch (t.dtype()) {
    case DataType::kFloat:
      return copy(t.data<float>());
    case DataType::kDouble:
      return copy(t.data<double>());
    case DataType::kComplex64:
      return copy(t.data<complex64>());
    default:
      return copy(t.data<complex128>());
  }
}
// The real part, if T is real.
template <typename T, typename S>
T ElementAs(const S& value) {
  if constexpr (kIsComplex<S> && !kIsComplex<T>) {
    return static_cast<T>(value.real());
  } else {
    return static_cast<T>(value);
  }
}
template <typename S>
void StoreAs(const S* from, int64_t offset, int64_t n, Tensor* t) {
  const auto copy = [&]<typename T>(T* to) {
    for (int64_t i = 0; i < n; ++i) to[offset + i] = ElementAs<T>(from[i]);
  };
  switch (t->dtype()) {
    case DataType::kFloat:
      return copy(t->data<float>());
    case DataType::kDouble:
      return copy(t->data<double>());
    case DataType::kComplex64:
      return copy(t->data<complex64>());
    default:
      return copy(t->data<complex128>());
  }
}

// Runs fn(index of the matrix) for the whole batch; returns the first error in the order of the batch.
template <typename Fn>
Status ForBatch(const KernelContext& context, int64_t batch, double cost_ns, Fn fn) {
  Mutex mu;
  Status first;
  int64_t first_at = batch;
  context.ParallelFor(batch, static_cast<int64_t>(std::min(cost_ns, 1e12)) + 1,
                      [&](int64_t begin, int64_t end) {
                        for (int64_t i = begin; i < end; ++i) {
                          const Status status = fn(i);
                          if (status.ok()) continue;
                          MutexLock lock(mu);
                          if (i < first_at) {
                            first_at = i;
                            first = status;
                          }
                          return;
                        }
                      });
  return first;
}

inline double Cube(int64_t n) {
  const auto x = static_cast<double>(n);
  return x * x * x;
}

// Calls fn with float or double, the type of t. REQUIRES: a real one.
template <typename Fn>
auto VisitReal(const Tensor& t, Fn fn) {
  if (t.dtype() == DataType::kFloat) return fn.template operator()<float>();
  return fn.template operator()<double>();
}

// Whether small.h has functions for the matrices of t.
inline bool IsSmallReal(const Tensor& t) {
  return cpu::IsSmallMatrix(RowsOf(t), ColumnsOf(t)) && !IsComplexType(t.dtype());
}

// Calls fn with double or complex<double>, depending on the type of the matrices.
template <typename Fn>
Status VisitScalar(DataType dtype, Fn fn) {
  if (IsComplexType(dtype)) return fn.template operator()<std::complex<double>>();
  return fn.template operator()<double>();
}

}  // namespace millrace
