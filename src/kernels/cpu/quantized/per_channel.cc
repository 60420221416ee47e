// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// RequantizationRangePerChannel and RequantizePerChannel: sums whose last dimension has a range for each
// channel.
#include <algorithm>
#include <cmath>

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
    std::vector<int64_t> largest(ranges.size());
    bool has_sign = false;
    for (int64_t i = 0; i < in.num_elements(); ++i) {
      const int64_t value = Data<int32_t>(in)[i];
      int64_t& most = largest[static_cast<size_t>(i % depth)];
      most = std::max(most, std::abs(value));
      has_sign |= value < 0;
    }
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
      scale.push_back(quantized::kLimit<Out> * quantized::LargestEnd(range) /
                      (quantized::LargestEnd(wanted) * kSums));
    }
    const auto depth = static_cast<int64_t>(ranges.size());
    context.ParallelFor(in.num_elements(), 3, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        Data<Out>(out)[i] =
            quantized::Saturated<Out>(Data<int32_t>(in)[i] * scale[static_cast<size_t>(i % depth)]);
      }
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
