// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/collective/merge.h"

#include <algorithm>
#include <type_traits>

namespace millrace {
namespace {

// The type of the arithmetic. Sums of integers wrap around.
template <typename T>
using Wide =
    std::conditional_t<std::is_same_v<T, half>, float,
                       std::conditional_t<std::is_same_v<T, int32_t>, uint32_t,
                                          std::conditional_t<std::is_same_v<T, int64_t>, uint64_t, T>>>;
template <typename T>
using Comparable = std::conditional_t<std::is_same_v<T, half>, float, T>;

template <typename T>
void MergeOf(MergeOp op, const Tensor& so_far, const Tensor& own, Tensor* out) {
  const T* const a = so_far.data<T>();
  const T* const b = own.data<T>();
  T* const c = out->data<T>();
  const int64_t n = out->num_elements();
  const auto each = [&](auto fn) {
    for (int64_t i = 0; i < n; ++i) c[i] = static_cast<T>(fn(a[i], b[i]));
  };
  using W = Wide<T>;
  using C = Comparable<T>;
  switch (op) {
    case MergeOp::kAdd:
      return each([](T x, T y) { return static_cast<W>(x) + static_cast<W>(y); });
    case MergeOp::kMul:
      return each([](T x, T y) { return static_cast<W>(x) * static_cast<W>(y); });
    case MergeOp::kMin:
      return each([](T x, T y) { return std::min(static_cast<C>(x), static_cast<C>(y)); });
    case MergeOp::kMax:
      return each([](T x, T y) { return std::max(static_cast<C>(x), static_cast<C>(y)); });
  }
}

template <typename T>
void DivideOf(int64_t size, Tensor* values) {
  using C = Comparable<T>;
  for (T& value : values->flat<T>()) value = static_cast<T>(static_cast<C>(value) / static_cast<C>(size));
}

// Calls fn with a value of the element type.
template <typename Fn>
void ByType(DataType dtype, Fn fn) {
  switch (dtype) {
    case DataType::kFloat:
      return fn(float());
    case DataType::kDouble:
      return fn(double());
    case DataType::kHalf:
      return fn(half());
    case DataType::kInt32:
      return fn(int32_t());
    case DataType::kInt64:
      return fn(int64_t());
    default:
      return;
  }
}

}  // namespace

StatusOr<MergeOp> ParseMergeOp(const std::string& name) {
  if (name == "Add") return MergeOp::kAdd;
  if (name == "Mul") return MergeOp::kMul;
  if (name == "Min") return MergeOp::kMin;
  if (name == "Max") return MergeOp::kMax;
  return errors::InvalidArgument("merge_op must be one of {\"Min\",\"Max\",\"Mul\",\"Add\"} but got ", name);
}

void Merge(MergeOp op, const Tensor& so_far, const Tensor& own, Tensor* out) {
  ByType(out->dtype(), [&](auto zero) { MergeOf<decltype(zero)>(op, so_far, own, out); });
}

void DivideBy(int64_t size, Tensor* values) {
  ByType(values->dtype(), [&](auto zero) { DivideOf<decltype(zero)>(size, values); });
}

}  // namespace millrace
