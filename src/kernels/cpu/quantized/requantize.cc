// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Converts sums of int32 to bytes: QuantizeDownAndShrinkRange, RequantizationRange and Requantize.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/loop.h"
#include "kernels/cpu/quantized/range.h"

namespace millrace {
namespace {

using quantized::Data;
using quantized::Range;

// The range of the numbers that occur, and 0.
Range UsedRange(const Tensor& in, Range range) {
  if (in.num_elements() == 0) return {0, 0};
  const int32_t* data = Data<int32_t>(in);
  int32_t least = data[0], most = data[0];
  RunLoop([&, n = in.num_elements()]() MR_INLINE_LAMBDA {
    int32_t low = least, high = most;
    for (int64_t i = 1; i < n; ++i) {
      low = data[i] < low ? data[i] : low;
      high = data[i] > high ? data[i] : high;
    }
    least = low;
    most = high;
  });
  return {std::min(0.0f, quantized::Number(least, range)), quantized::Number(most, range)};
}

// Maps 2^32 steps around the middle of one range to 255 steps of the other.
Status Narrow(KernelContext& context, Range from, Range to) {
  const Tensor& in = context.input(0);
  MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, in.shape()));
  const double step = static_cast<double>(from.max - from.min) / 4294967296.0;
  const double middle = (static_cast<double>(from.min) + static_cast<double>(from.max)) / 2;
  const double width = static_cast<double>(to.max) - static_cast<double>(to.min);
  const double scale = width == 0 ? 0 : 255.0 / width;
  const auto least = static_cast<double>(to.min);
  context.ParallelFor(in.num_elements(), 1, [&](int64_t begin, int64_t end) {
    MapLoop(Data<int32_t>(in) + begin, Data<uint8_t>(out) + begin, end - begin,
            [=, bounds = quantized::Bounds<uint8_t>()](int32_t x) MR_INLINE_LAMBDA {
              const double value = x * step + middle;
              return bounds((value - least) * scale + 0.5);  // converts NaN to 0, and truncates
            });
  });
  quantized::PutRange(context, to);
  return Status();
}

class ShrinkKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const Range range, quantized::ReadRange(context, 1));
    return Narrow(context, range, UsedRange(context.input(0), range));
  }
};

class RequantizationRangeKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const Range range, quantized::ReadRange(context, 1));
    quantized::PutRange(context, UsedRange(context.input(0), range), 0);
    return Status();
  }
};

class RequantizeKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const Range range, quantized::ReadRange(context, 1));
    MR_ASSIGN_OR_RETURN(const Range wanted, quantized::ReadRange(context, 3));
    if (!(wanted.min <= 0))
      return errors::InvalidArgument("requested_output_min must be <= 0, but got ", wanted.min);
    if (!(wanted.max >= wanted.min)) {
      return errors::InvalidArgument("requested_output_max must be >= requested_output_min, but got ",
                                     wanted.max, " and ", wanted.min);
    }
    return Narrow(context, range, wanted);
  }
};

}  // namespace

void RegisterRequantizeKernels(KernelRegistry& registry) {
  const TypeList wide = {DataType::kQint32}, narrow = {DataType::kQuint8};
  registry.Register<ShrinkKernel>(
      KernelDef("QuantizeDownAndShrinkRange").Types("Tinput", wide).Types("out_type", narrow));
  registry.Register<RequantizationRangeKernel>(KernelDef("RequantizationRange").Types("Tinput", wide));
  registry.Register<RequantizeKernel>(
      KernelDef("Requantize").Types("Tinput", wide).Types("out_type", narrow));
}

}  // namespace millrace
