// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Code that the random ops share.
#pragma once

#include <algorithm>

#include "base/random/philox.h"
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/vector/random.h"

namespace millrace {

// The shape in input `t`, which must be a vector of integers.
inline StatusOr<TensorShape> ReadShape(const Tensor& t) {
  if (!t.shape().IsVector()) {
    return errors::InvalidArgument("shape must be a vector of {int32,int64}, got shape ", t.shape());
  }
  return ShapeFromTensor(t, "shape");
}

// The shape of samples of shape `samples` for each of the parameters.
inline StatusOr<TensorShape> ShapeOfSamples(const TensorShape& samples, const TensorShape& parameters) {
  Dims dims;
  for (const int64_t d : samples.dims()) dims.push_back(d);
  for (const int64_t d : parameters.dims()) dims.push_back(d);
  return ShapeFromValues(dims);
}

// Elements in one unit of parallel work; the routines give the same numbers for any split.
inline constexpr int64_t kRandomBlock = 1024;

using FillFn = void (*)(const PhiloxRandom& base, DataType type, void* out, int64_t begin, int64_t end);

// Calls `fill(begin, end)` for ranges of the elements of `out`, on several threads; `cost_ns` is for one
// element. Ends early, with an error, if the step is cancelled.
template <typename Fill>
Status FillInBlocks(const KernelContext& context, Tensor& out, int64_t cost_ns, const Fill& fill) {
  constexpr int64_t kBlocksBetweenChecks = 256;  // a few milliseconds
  const int64_t n = out.num_elements();
  const auto fill_blocks = [&](int64_t begin, int64_t end) {
    while (begin < end && !context.cancellation().IsCancelled()) {
      const int64_t stop = std::min(end, begin + kBlocksBetweenChecks);
      fill(begin * kRandomBlock, std::min(stop * kRandomBlock, n));
      begin = stop;
    }
  };
  context.ParallelFor((n + kRandomBlock - 1) / kRandomBlock, kRandomBlock * cost_ns, fill_blocks);
  if (context.cancellation().IsCancelled()) return errors::Cancelled("Step was cancelled");
  return Status();
}

// Fills `out`, on several threads; `cost_ns` is for one element.
inline Status FillRandom(const KernelContext& context, const PhiloxRandom& base, Tensor& out, int64_t cost_ns,
                         FillFn fill) {
  return FillInBlocks(context, out, cost_ns, [&](int64_t begin, int64_t end) {
    fill(base, out.dtype(), out.raw_data(), begin, end);
  });
}

// The same with integers in [low, high). REQUIRES: low < high.
inline Status FillRandomIntegers(const KernelContext& context, const PhiloxRandom& base, int64_t low,
                                 int64_t high, Tensor& out) {
  return FillInBlocks(context, out, 2, [&](int64_t begin, int64_t end) {
    cpu::FillRandomUniformInt(base, out.dtype(), low, high, out.raw_data(), begin, end);
  });
}

// The bounds of an op that draws integers: scalars, low < high unless no element is drawn.
struct IntegerBounds {
  int64_t low = 0;
  int64_t high = 1;
};
inline StatusOr<IntegerBounds> ReadBounds(const Tensor& low, const Tensor& high, int64_t n) {
  if (!low.shape().IsScalar()) return errors::InvalidArgument("minval must be 0-D, got shape ", low.shape());
  if (!high.shape().IsScalar())
    return errors::InvalidArgument("maxval must be 0-D, got shape ", high.shape());
  const IntegerBounds bounds{.low = IntValue(low), .high = IntValue(high)};
  if (n > 0 && bounds.low >= bounds.high) {
    return errors::InvalidArgument("Need minval < maxval, got ", bounds.low, " >= ", bounds.high);
  }
  return bounds;
}

// The generator for the seeds of a stateless op, two integers.
StatusOr<PhiloxRandom> ReadSeeds(const Tensor& seeds);

// Draws uniform doubles from a generator that is also used for other numbers, in TensorFlow's order: the
// second of a block first.
class UniformPairs {
 public:
  double Next(PhiloxRandom& generator);

 private:
  double values_[2] = {};
  int left_ = 0;
};

}  // namespace millrace
