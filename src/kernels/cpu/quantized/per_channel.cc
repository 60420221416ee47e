// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// RequantizationRangePerChannel and RequantizePerChannel: sums with a range for each channel, the last
// dimension.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/loop.h"
#include "kernels/cpu/quantized/symmetric.h"

namespace millrace {
namespace {

using quantized::Data;
using quantized::Range;

constexpr double kSums = 2147483648.0;  // 2^31

StatusOr<std::vector<Range>> ChannelRanges(const KernelContext& context) {
  const Tensor& in = context.input(0);
  if (in.rank() == 0) return errors::InvalidArgument("input must not be a scalar");
  const int64_t depth = in.dim(in.rank() - 1);
  for (const int i : {1, 2}) {
    const Tensor& end = context.input(i);
    if (end.rank() != 1 || end.dim(0) != depth) {
      return errors::InvalidArgument(i == 1 ? "input_min" : "input_max", " has incorrect size, expected ",
                                     depth, " was ", end.num_elements());
    }
  }
  return quantized::ReadRanges(context, 1, depth);
}

class RangeKernel final : public OpKernel {
 public:
  explicit RangeKernel(KernelConstruction& c) : OpKernel(c), most_(c.Attr<float>("clip_value_max")) {}
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(const std::vector<Range> ranges, ChannelRanges(context));
    const auto depth = static_cast<int64_t>(ranges.size());
    std::vector<uint32_t> largest(ranges.size());
    uint32_t signs = 0;
    RunLoop([=, &signs, row = Data<int32_t>(in), most = largest.data(),
             rows = depth == 0 ? 0 : in.num_elements() / depth]() MR_INLINE_LAMBDA {
      uint32_t all = 0;
      for (int64_t i = 0, r = 0; r < rows; ++r, i += depth) {
        for (int64_t c = 0; c < depth; ++c) {
          const auto bits = static_cast<uint32_t>(row[i + c]);
          const uint32_t size = row[i + c] < 0 ? 0 - bits : bits;
          most[c] = size > most[c] ? size : most[c];
          all |= bits;
        }
      }
      signs = all;
    });
    const bool has_sign = signs >> 31 != 0;
    float used = 0;
    for (size_t c = 0; c < ranges.size(); ++c) {
      used = std::max(used, static_cast<float>(quantized::LargestEnd(ranges[c]) *
                                               static_cast<double>(largest[c]) / kSums));
    }
    used = std::min(used, most_);
    quantized::PutRange(context, {has_sign ? -used : 0, used}, 0);
    return Status();
  }

 private:
  const float most_;
};

template <typename Out>
class RequantizePerChannelKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(const std::vector<Range> ranges, ChannelRanges(context));
    MR_ASSIGN_OR_RETURN(const Range wanted, quantized::ReadRange(context, 3));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, in.shape()));
    std::vector<double> scale;
    for (const Range& range : ranges) {
      scale.push_back(quantized::UsableFactor(quantized::kLimit<Out> * quantized::LargestEnd(range) /
                                              (quantized::LargestEnd(wanted) * kSums)));
    }
    const auto depth = static_cast<int64_t>(ranges.size()), rows = depth == 0 ? 0 : in.num_elements() / depth;
    quantized::RepeatChannels(rows, &scale);
    context.ParallelFor(rows, depth, [&](int64_t begin, int64_t end) {
      RunLoop([size = (end - begin) * depth, repeated = static_cast<int64_t>(scale.size()),
               from = Data<int32_t>(in) + begin * depth, to = Data<Out>(out) + begin * depth,
               factors = scale.data(), bounds = quantized::Bounds<Out>()]() MR_INLINE_LAMBDA {
        quantized::ForRepeated(size, repeated, [=](int64_t first, int64_t count) MR_INLINE_LAMBDA {
          for (int64_t c = 0; c < count; ++c) to[first + c] = bounds.Nearest(from[first + c] * factors[c]);
        });
      });
    });
    quantized::PutRange(context, wanted);
    return Status();
  }
};

}  // namespace

void RegisterPerChannelKernels(KernelRegistry& registry) {
  const TypeList wide = {DataType::kQint32};
  registry.Register<RangeKernel>(KernelDef("RequantizationRangePerChannel").Types("T", wide));
  registry.Register<RequantizePerChannelKernel<uint8_t>>(
      KernelDef("RequantizePerChannel").Types("T", wide).Types("out_type", {DataType::kQuint8}));
  registry.Register<RequantizePerChannelKernel<int8_t>>(
      KernelDef("RequantizePerChannel").Types("T", wide).Types("out_type", {DataType::kQint8}));
}

}  // namespace millrace
