// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Quantized numbers whose integer 0 stands for 0: an integer of 8 bits counts steps of the largest absolute
// end of its range, by 255 when it has no sign, else by 127. So do the ops whose filters have a range for
// each channel.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/loop.h"
#include "kernels/cpu/quantized/range.h"

namespace millrace::quantized {

// Steps from 0 to the largest end.
template <typename T>
constexpr double kLimit = static_cast<double>(std::numeric_limits<T>::max());

inline double LargestEnd(Range r) { return std::max(std::fabs(r.min), std::fabs(r.max)); }

// To the nearest integer that T has, of two to the even one; 0 for NaN.
template <typename T>
T Saturated(double value) {
  const double number = value == value ? value : 0.0;
  const double above = number > kLowest<T> ? number : kLowest<T>;
  const double inside = above < kHighest<T> ? above : kHighest<T>;
  return static_cast<T>(static_cast<int32_t>(std::nearbyint(inside)));  // T has at most 32 bits
}

// The width of a step of the range, symmetrical also where T has one more negative integer.
template <typename T>
float SymmetricStep(Range r) {
  const double lowest = std::max(kLowest<T>, -kHighest<T>);
  return (r.max - r.min) / static_cast<float>(kHighest<T> - lowest);
}
// The range of products that are added up in int32.
template <typename A, typename B>
Range SymmetricProductRange(Range a, Range b) {
  const float step = SymmetricStep<A>(a) * SymmetricStep<B>(b);
  return {step * static_cast<float>(kLowest<int32_t>), step * static_cast<float>(kHighest<int32_t>)};
}

// The ranges whose ends are inputs i and i + 1: one, or one for each of `channels`.
inline StatusOr<std::vector<Range>> ReadRanges(const KernelContext& context, int i, int64_t channels) {
  const Tensor& low = context.input(i);
  const Tensor& high = context.input(i + 1);
  if (low.rank() > 1 || low.shape() != high.shape() ||
      (low.num_elements() != 1 && low.num_elements() != channels)) {
    return errors::InvalidArgument("The ends of ranges must be scalars or vectors of ", channels,
                                   ", got shapes ", low.shape(), " and ", high.shape());
  }
  std::vector<Range> ranges;
  for (int64_t c = 0; c < low.num_elements(); ++c)
    ranges.push_back({low.data<float>()[c], high.data<float>()[c]});
  return ranges;
}
inline Range RangeOf(const std::vector<Range>& ranges, int64_t channel) {
  return ranges.size() == 1 ? ranges[0] : ranges[static_cast<size_t>(channel)];
}

// What follows the sums of a product or convolution, for each channel of the output: a bias and a tensor are
// added, and sums become few bits again.
struct Finish {
  bool relu = false;
  bool narrow = false;             // the output has 8 bits
  std::vector<int32_t> bias;       // empty: none
  std::vector<double> scale;       // of a step of the output; only when narrow
  double summand_scale = 0;        // of the same; 0: there is nothing to add
  const float* numbers = nullptr;  // to be added to sums, in numbers
  const uint8_t* unsigned_steps = nullptr;
  const int8_t* signed_steps = nullptr;
  std::vector<double> steps_per_unit;  // of sums; by channel

  // Output elements from `first` on, of all channels, from their sums.
  template <typename T>
  void Row(const int32_t* sums, int64_t first, int64_t channels, T* out) const {
    // Copies that writes to `out` can't change.
    RunLoop([=, add = bias.empty() ? nullptr : bias.data(), by = scale.data(), units = steps_per_unit.data(),
             at_numbers = numbers, no_sign = unsigned_steps, with_sign = signed_steps,
             by_summand = summand_scale, positive = relu]() MR_INLINE_LAMBDA {
      static_cast<void>(at_numbers), static_cast<void>(no_sign),
          static_cast<void>(with_sign);  // of other types
      static_cast<void>(by_summand);
      for (int64_t c = 0; c < channels; ++c) {
        const int32_t sum = add == nullptr ? sums[c] : Plus(sums[c], add[c]);
        if constexpr (std::is_same_v<T, int32_t>) {
          int32_t value = sum;
          if (at_numbers != nullptr)
            value = Plus(value, Saturated<int32_t>(static_cast<double>(at_numbers[first + c]) * units[c]));
          out[c] = positive && value < 0 ? 0 : value;
        } else {
          double value = sum * by[c];
          if (no_sign != nullptr) value += no_sign[first + c] * by_summand;
          if (with_sign != nullptr) value += with_sign[first + c] * by_summand;
          out[c] = Saturated<T>(positive && value < 0.0 ? 0.0 : value);
        }
      }
    });
  }
};

}  // namespace millrace::quantized
