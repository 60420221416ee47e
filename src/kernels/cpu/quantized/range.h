// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Code that the kernels of quantized arithmetic share: integers of 8, 16 or 32 bits that represent the
// numbers of a range, the lowest its lower end.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/quantized/rounding.h"

namespace millrace::quantized {

struct Range {
  float min = 0, max = 0;
};

template <typename T>
constexpr double kLowest = static_cast<double>(std::numeric_limits<T>::lowest());
template <typename T>
constexpr double kHighest = static_cast<double>(std::numeric_limits<T>::max());

// The nearest integer, clamped to the range of int64_t; 0 for NaN.
inline int64_t Rounded(double value) {
  constexpr double kMost = 4e18;
  const double number = value == value ? std::round(value) : 0.0;
  const double above = number > -kMost ? number : -kMost;
  return static_cast<int64_t>(above < kMost ? above : kMost);
}

// Steps per unit. The integers end half a step before the upper end of the range.
template <typename T>
double StepsPerUnit(Range r) {
  const double steps = kHighest<T> - kLowest<T> + 1;
  return steps / (static_cast<double>(r.max - r.min) * (steps / (steps - 1)));
}

// The integer for a number, which may be outside of the range of T.
template <typename T>
int64_t ToSteps(float value, Range r) {
  const auto lowest = static_cast<int64_t>(kLowest<T>);
  if (r.min == r.max) return lowest;
  const double scale = StepsPerUnit<T>(r);
  return Rounded(static_cast<double>(value) * scale) - Rounded(static_cast<double>(r.min) * scale) + lowest;
}
// The same for many numbers, clamped to the range of T: in double, which represents all integers that occur
// here.
template <typename T>
struct Quantizer {
  explicit Quantizer(Range r)
      : scale(r.min == r.max ? 0 : StepsPerUnit<T>(r)),
        zero(static_cast<double>(Rounded(static_cast<double>(r.min) * scale))) {}
  T operator()(float value) const {
    const double scaled = static_cast<double>(value) * scale;
    return bounds(std::round(scaled == scaled ? scaled : 0.0) - zero + kLowest<T>);
  }
  double scale, zero;
  Bounds<T> bounds;
};
template <typename T>
T Quantized(float value, Range r) {
  return Quantizer<T>(r)(value);
}
// The numbers that integers represent.
template <typename T>
struct Numbers {
  explicit Numbers(Range r)
      : step(r.min == r.max ? 0 : 1 / StepsPerUnit<T>(r)),
        lowest(step == 0 ? static_cast<double>(r.min)
                         : std::round(static_cast<double>(r.min) / step) * step) {}
  float operator()(T value) const {
    return static_cast<float>(lowest + (static_cast<double>(value) - kLowest<T>)*step);
  }
  double step, lowest;
};
template <typename T>
float Number(T value, Range r) {
  return Numbers<T>(r)(value);
}

// The largest absolute difference between integers of T and `zero`, which is clamped to 2^40.
template <typename T>
int64_t LargestFrom(int64_t zero) {
  constexpr int64_t kMost = int64_t{1} << 40;
  zero = std::clamp(zero, -kMost, kMost);
  return std::max(std::abs(static_cast<int64_t>(kLowest<T>) - zero),
                  std::abs(static_cast<int64_t>(kHighest<T>) - zero));
}

// The range of products that are summed in C.
template <typename A, typename B, typename C>
Range ProductRange(Range a, Range b) {
  const float a_step = (a.max - a.min) / static_cast<float>(kHighest<A> - kLowest<A>);
  const float b_step = (b.max - b.min) / static_cast<float>(kHighest<B> - kLowest<B>);
  const float step = a_step * b_step;
  return {step * static_cast<float>(kLowest<C>), step * static_cast<float>(kHighest<C>)};
}
// A range for sums that is much wider, so that it includes the sums of both: symmetrical about 0.
inline Range SumRange(Range a, Range b) {
  const float largest = std::max({a.max, -a.min, b.max, -b.min}) * (1 << 14);
  return {-largest, largest};
}

// The range with the ends in inputs i and j.
inline StatusOr<Range> ReadRange(const KernelContext& context, int i, int j) {
  for (const int end : {i, j}) {
    if (context.input(end).num_elements() != 1) {
      return errors::InvalidArgument("The end of a range must be a scalar, got shape ",
                                     context.input(end).shape());
    }
  }
  return Range{context.input(i).data<float>()[0], context.input(j).data<float>()[0]};
}
inline StatusOr<Range> ReadRange(const KernelContext& context, int i) { return ReadRange(context, i, i + 1); }
// The same for a range that must not be empty: "max_a must be larger than min_a.".
inline StatusOr<Range> ReadWideRange(const KernelContext& context, int i, std::string_view name) {
  MR_ASSIGN_OR_RETURN(const Range r, ReadRange(context, i));
  if (r.max > r.min) return r;
  return errors::InvalidArgument("max_", name, " must be larger than min_", name, ".");
}
// Sets outputs i and i + 1.
inline void PutRange(KernelContext& context, Range r, int i = 1) {
  context.set_output(i, Tensor::Scalar(r.min));
  context.set_output(i + 1, Tensor::Scalar(r.max));
}

template <typename T>
const T* Data(const Tensor& t) {
  return static_cast<const T*>(t.raw_data());
}
template <typename T>
T* Data(Tensor* t) {
  return static_cast<T*>(t->raw_data());
}

}  // namespace millrace::quantized
