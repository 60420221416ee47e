// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Quantized numbers whose integer 0 represents 0: an integer of 8 bits counts steps of the largest absolute
// end of its range, divided by 255 if it is unsigned, else by 127. Ops whose filters have a range for each
// channel use them.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/loop.h"
#include "kernels/cpu/quantized/range.h"
#include "kernels/cpu/quantized/rounding.h"

namespace millrace::quantized {

// The number of steps from 0 to the largest end.
template <typename T>
constexpr double kLimit = static_cast<double>(std::numeric_limits<T>::max());

inline double LargestEnd(Range r) { return std::max(std::fabs(r.min), std::fabs(r.max)); }

// The nearest integer in the range of T, ties to even; 0 for NaN.
template <typename T>
T Saturated(double value) {
  const double number = value == value ? value : 0.0;
  const double above = number > kLowest<T> ? number : kLowest<T>;
  const double inside = above < kHighest<T> ? above : kHighest<T>;
  return static_cast<T>(static_cast<int32_t>(std::nearbyint(inside)));  // T has at most 32 bits
}

// The width of a step of the range, symmetrical although T has one more negative integer.
template <typename T>
float SymmetricStep(Range r) {
  const double lowest = std::max(kLowest<T>, -kHighest<T>);
  return (r.max - r.min) / static_cast<float>(kHighest<T> - lowest);
}
// The range of products that are summed in int32.
template <typename A, typename B>
Range SymmetricProductRange(Range a, Range b) {
  const float step = SymmetricStep<A>(a) * SymmetricStep<B>(b);
  return {step * static_cast<float>(kLowest<int32_t>), step * static_cast<float>(kHighest<int32_t>)};
}

// The ranges with the ends in inputs i and i + 1: one, or one for each of `channels`.
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

// The operations after the sums of a product or convolution, for each channel of the output: a bias and a
// tensor are added, and sums are requantized.
struct Finish {
  bool relu = false;
  bool narrow = false;             // the output has 8 bits
  std::vector<int32_t> bias;       // empty: none
  std::vector<double> scale;       // of a step of the output; only when narrow
  double summand_scale = 0;        // in the same unit; 0: there is nothing to add
  const float* numbers = nullptr;  // floats to be added to the sums
  const uint8_t* unsigned_steps = nullptr;
  const int8_t* signed_steps = nullptr;
  std::vector<double> steps_per_unit;  // of sums; by channel

  // Prepares for Run when all of the above is set. `rows`: of channels.
  void Prepare(int64_t channels, int64_t rows) {
    bias.resize(static_cast<size_t>(channels));
    RepeatChannels(rows, &bias);
    for (double& factor : scale) factor = UsableFactor(factor);
    RepeatChannels(rows, &scale);
    RepeatChannels(rows, &steps_per_unit);
    summand_scale = UsableFactor(summand_scale);
  }

  // Computes `size` output elements, whole rows of channels, from `first` on, from their sums.
  template <typename T>
  void Run(const int32_t* sums, int64_t first, int64_t size, T* out) const {
    if constexpr (std::is_same_v<T, int32_t>) {
      if (numbers != nullptr) return RunNumbers(sums, first, size, out);
      return Each(size, [=, add = bias.data(), least = relu ? 0 : std::numeric_limits<int32_t>::lowest()](
                            int64_t i, int64_t c) MR_INLINE_LAMBDA {
        const int32_t sum = Plus(sums[i], add[c]);
        out[i] = sum > least ? sum : least;
      });
    } else {
      if (unsigned_steps != nullptr) return RunSteps(sums, unsigned_steps + first, size, out);
      if (signed_steps != nullptr) return RunSteps(sums, signed_steps + first, size, out);
      return Each(size,
                  [=, add = bias.data(), by = scale.data(), bounds = BoundsOf<T>()](int64_t i, int64_t c)
                      MR_INLINE_LAMBDA { out[i] = bounds.Nearest(Plus(sums[i], add[c]) * by[c]); });
    }
  }

 private:
  template <typename T>
  Bounds<T> BoundsOf() const {
    Bounds<T> bounds;
    if (relu) bounds.least = 0;
    return bounds;
  }
  // fn(element, index of its constants).
  template <typename Fn>
  void Each(int64_t size, const Fn& fn) const {
    RunLoop([=, repeated = static_cast<int64_t>(bias.size())]() MR_INLINE_LAMBDA {
      const Fn local = fn;  // a copy, which no store can change
      ForRepeated(size, repeated, [&](int64_t begin, int64_t count) MR_INLINE_LAMBDA {
        for (int64_t c = 0; c < count; ++c) local(begin + c, c);
      });
    });
  }
  void RunNumbers(const int32_t* sums, int64_t first, int64_t size, int32_t* out) const {
    Each(size,
         [=, add = bias.data(), units = steps_per_unit.data(), more = numbers + first,
          least = relu ? 0 : std::numeric_limits<int32_t>::lowest()](int64_t i, int64_t c) MR_INLINE_LAMBDA {
           const auto steps = Saturated<int32_t>(static_cast<double>(more[i]) * units[c]);
           const int32_t sum = Plus(Plus(sums[i], add[c]), steps);
           out[i] = sum > least ? sum : least;
         });
  }
  template <typename T, typename Step>
  void RunSteps(const int32_t* sums, const Step* steps, int64_t size, T* out) const {
    Each(size, [=, add = bias.data(), by = scale.data(), factor = summand_scale, bounds = BoundsOf<T>()](
                   int64_t i, int64_t c) MR_INLINE_LAMBDA {
      out[i] = bounds.Nearest(Plus(sums[i], add[c]) * by[c] + steps[i] * factor);
    });
  }
};

}  // namespace millrace::quantized
