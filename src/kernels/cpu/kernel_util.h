// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Code that the CPU kernels share: the pool of a context for the vector routines, lists of element types,
// registration.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "kernel/kernel_context.h"
#include "kernel/kernel_registry.h"
#include "kernel/op_kernel.h"
#include "kernels/cpu/contract/parallel.h"
#include "kernels/shared/args.h"
#include "tensor/dtype_table.h"

namespace millrace {

// Lets the vector routines use the pool of the step.
class ContextParallel final : public cpu::Parallel {
 public:
  explicit ContextParallel(const KernelContext& context) : context_(context) {}
  int num_threads() const override { return context_.parallelism(); }
  void For(int64_t total, int64_t cost_per_unit_ns, cpu::ShardFn fn) override {
    context_.ParallelFor(total, cost_per_unit_ns, [&fn](int64_t begin, int64_t end) { fn(begin, end); });
  }

 private:
  const KernelContext& context_;
};

using TypeList = std::vector<DataType>;

// Element types by the operations that they support.
inline TypeList FloatTypes() {
  return {DataType::kHalf, DataType::kBfloat16, DataType::kFloat, DataType::kDouble};
}
inline TypeList IntegerTypes() {
  return {DataType::kInt8,  DataType::kInt16,  DataType::kInt32,  DataType::kInt64,
          DataType::kUint8, DataType::kUint16, DataType::kUint32, DataType::kUint64};
}
inline TypeList ComplexTypes() { return {DataType::kComplex64, DataType::kComplex128}; }
inline TypeList Concat(TypeList a, const TypeList& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
inline TypeList RealTypes() { return Concat(FloatTypes(), IntegerTypes()); }
inline TypeList NumberTypes() { return Concat(RealTypes(), ComplexTypes()); }
inline TypeList IndexTypes() { return {DataType::kInt32, DataType::kInt64}; }

// The types of `from` for which `has` is true.
template <typename Has>
TypeList Filter(const TypeList& from, Has has) {
  TypeList out;
  for (const DataType t : from) {
    if (has(t)) out.push_back(t);
  }
  return out;
}

// Arithmetic on elements as in the kernels: half and bfloat16 in float with a rounding after each operation,
// integers wrap.
template <typename T>
inline constexpr bool kIsSmallFloat = std::is_same_v<T, half> || std::is_same_v<T, bfloat16>;
template <typename T>
inline constexpr bool kIsComplex = std::is_same_v<T, complex64> || std::is_same_v<T, complex128>;

// The type for computations with T: unsigned for integers, so that overflow wraps. Types narrower than int
// would be promoted to int, whose product may overflow; they use uint32_t.
template <typename T>
struct ComputeTypeOf {
  using type = T;
};
template <typename T>
requires kIsSmallFloat<T>
struct ComputeTypeOf<T> {
  using type = float;
};
template <typename T>
requires std::is_integral_v<T>
struct ComputeTypeOf<T> {
  using type = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
};
template <typename T>
using ComputeType = typename ComputeTypeOf<T>::type;

template <typename T>
T Plus(T a, T b) {
  return static_cast<T>(static_cast<ComputeType<T>>(a) + static_cast<ComputeType<T>>(b));
}
template <typename T>
T Minus(T a, T b) {
  return static_cast<T>(static_cast<ComputeType<T>>(a) - static_cast<ComputeType<T>>(b));
}
template <typename T>
T Times(T a, T b) {
  return static_cast<T>(static_cast<ComputeType<T>>(a) * static_cast<ComputeType<T>>(b));
}
template <typename T>
bool LessThan(T a, T b) {
  if constexpr (kIsSmallFloat<T>) {
    return float(a) < float(b);
  } else {
    return a < b;
  }
}

// Calls fn.template operator()<T>() with T among the number types, as VisitDataType does among all.
template <typename R, typename Fn>
R VisitNumber(DataType t, R otherwise, Fn&& fn) {
  return VisitDataType(t, otherwise, [&]<typename T>() -> R {
    if constexpr (std::is_arithmetic_v<T> || kIsSmallFloat<T> || kIsComplex<T>) {
      if constexpr (!std::is_same_v<T, bool>) return fn.template operator()<T>();
    }
    return otherwise;
  });
}
// The same among the numbers that have an order.
template <typename R, typename Fn>
R VisitReal(DataType t, R otherwise, Fn&& fn) {
  return VisitNumber(t, otherwise, [&]<typename T>() -> R {
    if constexpr (!kIsComplex<T>) return fn.template operator()<T>();
    return otherwise;
  });
}

inline Status NoSuchType(const KernelContext& context, DataType t) {
  return errors::Unimplemented("Op ", context.kernel().op_name(), " has no CPU kernel for ", DataTypeName(t));
}

// "<what> must be a scalar, got shape [2]" unless it is one.
inline Status RequireScalar(const Tensor& t, std::string_view what) {
  if (t.shape().IsScalar()) [[likely]]
    return Status();
  return errors::InvalidArgument(what, " must be a scalar, got shape ", t.shape());
}

}  // namespace millrace
