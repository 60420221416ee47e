// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// QuantizedConv2D…, QuantizedDepthwiseConv2D… and QuantizedMatMul… with the operations in the suffixes of
// their names: WithBias, Sum, Relu, Requantize. Filters are signed; sums of products are of int32 and
// wrap.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "kernels/cpu/loop.h"
#include "kernels/cpu/nn/util.h"
#include "kernels/cpu/quantized/products.h"
#include "kernels/cpu/quantized/symmetric.h"

namespace millrace {
namespace {

using quantized::Data;
using quantized::Finish;
using quantized::Range;
using quantized::Windows;

// The operations in the name of an op.
struct Form {
  explicit Form(std::string_view op)
      : depthwise(op.find("Depthwise") != op.npos),
        bias(op.find("WithBias") != op.npos),
        sum(op.find("Sum") != op.npos),
        relu(op.find("AndRelu") != op.npos),
        narrow(op.find("AndRequantize") != op.npos) {}
  const bool depthwise, bias, sum, relu, narrow;
};

// The inputs of a node: two factors, an optional bias, their ranges, an optional range of the output, an
// optional tensor to add and its range.
class Inputs {
 public:
  Inputs(const KernelContext& context, const Form& form) : context_(context), form_(form) {}
  const Tensor& bias() const { return context_.input(2); }
  StatusOr<Range> left_range() const { return quantized::ReadRange(context_, first_range()); }
  int right_range() const { return first_range() + 2; }
  StatusOr<Range> output_range() const { return quantized::ReadRange(context_, first_range() + 4); }
  const Tensor& summand() const { return context_.input(at_summand()); }
  StatusOr<Range> summand_range() const { return quantized::ReadRange(context_, at_summand() + 1); }

 private:
  int first_range() const { return form_.bias ? 3 : 2; }
  int at_summand() const { return first_range() + (form_.narrow ? 6 : 4); }
  const KernelContext& context_;
  const Form& form_;
};

// The steps of sums of products as floats, for each channel of the output.
struct Steps {
  std::vector<double> per_unit;
};
template <typename In>
Steps StepsOf(double left_largest, const std::vector<Range>& right, int64_t channels) {
  Steps steps;
  for (int64_t c = 0; c < channels; ++c) {
    steps.per_unit.push_back(quantized::kLimit<In> * quantized::kLimit<int8_t> /
                             (left_largest * quantized::LargestEnd(quantized::RangeOf(right, c))));
  }
  return steps;
}

// Converts a float bias to steps; a bias of qint32 is used unchanged.
Status ReadBias(const Tensor& bias, int64_t channels, const Steps& steps, Finish* finish) {
  if (bias.rank() != 1 || bias.dim(0) != channels) {
    return errors::InvalidArgument("bias must be a vector of ", channels, ", got shape ", bias.shape());
  }
  for (int64_t c = 0; c < channels; ++c) {
    finish->bias.push_back(bias.dtype() == DataType::kFloat
                               ? quantized::Saturated<int32_t>(static_cast<double>(bias.data<float>()[c]) *
                                                               steps.per_unit[static_cast<size_t>(c)])
                               : Data<int32_t>(bias)[c]);
  }
  return Status();
}

// Reads the operations after the sums, and the output's range.
template <typename In, typename Out>
Status ReadFinish(KernelContext& context, const Form& form, Range left, const std::vector<Range>& right,
                  const Steps& steps, const TensorShape& shape, Finish* finish) {
  const Inputs inputs(context, form);
  const auto channels = static_cast<int64_t>(steps.per_unit.size());
  finish->relu = form.relu;
  finish->narrow = form.narrow;
  finish->steps_per_unit = steps.per_unit;
  if (form.bias && finish->bias.empty()) MR_RETURN_IF_ERROR(ReadBias(inputs.bias(), channels, steps, finish));
  if (form.sum && inputs.summand().shape() != shape) {
    return errors::InvalidArgument("summand must have the shape of the output, ", shape, ", got ",
                                   inputs.summand().shape());
  }
  if constexpr (std::is_same_v<Out, int32_t>) {
    if (form.sum) finish->numbers = inputs.summand().data<float>();
    const bool one = context.input(inputs.right_range()).rank() == 0;
    Tensor low(DataType::kFloat, one ? TensorShape() : TensorShape({static_cast<int64_t>(right.size())}));
    Tensor high(DataType::kFloat, low.shape());
    if (!low.IsInitialized() || !high.IsInitialized())
      return errors::ResourceExhausted("No memory for ranges");
    for (size_t c = 0; c < right.size(); ++c) {
      const Range range = quantized::SymmetricProductRange<In, int8_t>(left, right[c]);
      low.data<float>()[c] = range.min;
      high.data<float>()[c] = range.max;
    }
    context.set_output(1, std::move(low));
    context.set_output(2, std::move(high));
  } else {
    MR_ASSIGN_OR_RETURN(const Range range, inputs.output_range());
    const double output = quantized::kLimit<Out> / quantized::LargestEnd(range);
    for (const double per_unit : steps.per_unit) finish->scale.push_back(output / per_unit);
    if (form.sum) {
      MR_ASSIGN_OR_RETURN(const Range of_summand, inputs.summand_range());
      const bool has_sign = inputs.summand().dtype() == DataType::kQint8;
      const double limit = has_sign ? quantized::kLimit<int8_t> : quantized::kLimit<uint8_t>;
      finish->summand_scale = quantized::LargestEnd(of_summand) / limit * output;
      if (has_sign) {
        finish->signed_steps = Data<int8_t>(inputs.summand());
      } else {
        finish->unsigned_steps = Data<uint8_t>(inputs.summand());
      }
    }
    quantized::PutRange(context, range);
  }
  return Status();
}

StatusOr<Windows> PlaceWindows(int64_t in, int64_t window, int64_t dilation, int64_t stride, Padding padding,
                               int64_t before, int64_t after) {
  int64_t padded = in;
  if (before < 0 || after < 0 || __builtin_add_overflow(padded, before, &padded) ||
      __builtin_add_overflow(padded, after, &padded)) {
    return errors::InvalidArgument("padding_list has sizes that are negative or too large");
  }
  MR_ASSIGN_OR_RETURN(const WindowedOutput out, GetWindowedOutput(padded, window, dilation, stride, padding));
  return Windows{out.size, window, stride, dilation, out.pad_before + before};
}

template <typename In, typename Out>
class ConvKernel final : public OpKernel {
 public:
  explicit ConvKernel(KernelConstruction& c)
      : OpKernel(c),
        form_(c.props()->op->def.name),
        strides_(ReadSpatialAttr(c, "strides", ImageDims())),
        dilations_(ReadSpatialAttr(c, "dilations", ImageDims())),
        padding_(ReadPadding(c)) {
    if (c.HasAttr("padding_list")) margins_ = c.Attr<std::vector<int64_t>>("padding_list");
    if (margins_.empty()) margins_.assign(8, 0);
    if (margins_.size() != 8) {
      c.SetError(errors::InvalidArgument("padding_list must have 8 entries, two for each dimension, got ",
                                         margins_.size()));
    }
  }

  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const Tensor& filter = context.input(1);
    if (in.rank() != 4) return errors::InvalidArgument("input must be 4-dimensional", in.shape());
    if (filter.rank() != 4) return errors::InvalidArgument("filter must be 4-dimensional: ", filter.shape());
    if (in.dim(3) != filter.dim(2)) {
      return errors::InvalidArgument("input and filter must have the same depth: ", in.dim(3), " vs ",
                                     filter.dim(2));
    }
    MR_ASSIGN_OR_RETURN(Placement rows, Rows(in, filter));
    int64_t channels = filter.dim(3);
    if (form_.depthwise && __builtin_mul_overflow(channels, in.dim(3), &channels)) {
      return errors::InvalidArgument("The filter has too many channels: ", filter.shape());
    }
    MR_RETURN_IF_ERROR(CheckImageSize("The output", in.dim(0), rows.y.count, rows.x.count, channels));
    const TensorShape shape({in.dim(0), rows.y.count, rows.x.count, channels});
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    const Inputs inputs(context, form_);
    MR_ASSIGN_OR_RETURN(const Range in_range, inputs.left_range());
    MR_ASSIGN_OR_RETURN(const auto filter_ranges,
                        quantized::ReadRanges(context, inputs.right_range(), channels));
    const Steps steps = StepsOf<In>(quantized::LargestEnd(in_range), filter_ranges, channels);
    Finish finish;
    MR_RETURN_IF_ERROR((ReadFinish<In, Out>(context, form_, in_range, filter_ranges, steps, shape, &finish)));
    if (out->num_elements() == 0) return Status();
    const int64_t image_rows = in.dim(0) * rows.y.count;
    finish.Prepare(channels, image_rows * rows.x.count);
    const int64_t results = form_.depthwise ? 0 : channels,
                  taps = results == 0 ? 0 : filter.num_elements() / results;
    std::vector<int32_t> weights(static_cast<size_t>(filter.num_elements()));
    MapLoop(Data<int8_t>(filter), weights.data(), filter.num_elements(),
            [](int8_t x) MR_INLINE_LAMBDA { return static_cast<int32_t>(x); });
    const quantized::RightFactor right(
        std::span<const int32_t>(weights.data(), static_cast<size_t>(taps * results)), taps, results,
        quantized::LargestFrom<In>(0));
    const quantized::PaddedRows padded{{in.dim(1), in.dim(2), in.dim(3)}, rows.y, rows.x, 0};
    MR_RETURN_IF_ERROR(padded.Check());
    std::optional<quantized::Convolution> convolution;
    std::optional<quantized::Depthwise> by_channel;
    if (form_.depthwise) {
      by_channel.emplace(padded, weights, filter.dim(3));
    } else {
      convolution.emplace(padded, right);
    }
    const int64_t terms = filter.num_elements() / (form_.depthwise ? 16 : 32), size = rows.x.count * channels;
    context.ParallelFor(
        image_rows, rows.x.count * std::max<int64_t>(1, terms), [&](int64_t begin, int64_t end) {
          std::vector<int32_t> sums(static_cast<size_t>(size));
          std::vector<float> memory;
          for (int64_t r = begin; r < end; ++r) {
            const In* pixels = Data<In>(in) + r / rows.y.count * in.dim(1) * in.dim(2) * in.dim(3);
            if (form_.depthwise) {
              by_channel->Row(pixels, r % rows.y.count, &memory, sums.data());
            } else {
              convolution->Row(pixels, r % rows.y.count, &memory, sums.data());
            }
            finish.Run(sums.data(), r * size, size, Data<Out>(out) + r * size);
          }
        });
    return Status();
  }

 private:
  struct Placement {
    Windows y, x;
  };
  StatusOr<Placement> Rows(const Tensor& in, const Tensor& filter) const {
    Placement rows;
    MR_ASSIGN_OR_RETURN(rows.y, PlaceWindows(in.dim(1), filter.dim(0), dilations_.h, strides_.h, padding_,
                                             margins_[2], margins_[3]));
    MR_ASSIGN_OR_RETURN(rows.x, PlaceWindows(in.dim(2), filter.dim(1), dilations_.w, strides_.w, padding_,
                                             margins_[4], margins_[5]));
    return rows;
  }

  const Form form_;
  const SpatialAttr strides_, dilations_;
  const Padding padding_;
  std::vector<int64_t> margins_;
};

// In mode MIN_FIRST the integer 0 of the left factor represents the lower end of its range, in mode SCALED 0.
template <typename Out>
class FusedMatMulKernel final : public OpKernel {
 public:
  explicit FusedMatMulKernel(KernelConstruction& c)
      : OpKernel(c),
        form_(c.props()->op->def.name),
        transpose_a_(c.Attr<bool>("transpose_a")),
        transpose_b_(c.Attr<bool>("transpose_b")),
        min_first_(c.Attr<std::string>("input_quant_mode") == "MIN_FIRST") {}

  Status Compute(KernelContext& context) override {
    const Tensor& a = context.input(0);
    const Tensor& b = context.input(1);
    if (a.rank() != 2) return errors::InvalidArgument("In[0] is not a matrix");
    if (b.rank() != 2) return errors::InvalidArgument("In[1] is not a matrix");
    const int64_t m = a.dim(transpose_a_ ? 1 : 0), k = a.dim(transpose_a_ ? 0 : 1);
    const int64_t n = b.dim(transpose_b_ ? 0 : 1);
    if (k != b.dim(transpose_b_ ? 1 : 0)) {
      return errors::InvalidArgument("Matrix size-incompatible: In[0]: ", a.shape(), ", In[1]: ", b.shape());
    }
    const Inputs inputs(context, form_);
    MR_ASSIGN_OR_RETURN(const Range a_range, inputs.left_range());
    MR_ASSIGN_OR_RETURN(const Range b_range, quantized::ReadRange(context, inputs.right_range()));
    MR_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Make(Dims{m, n}));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    const double width =
        min_first_ ? static_cast<double>(a_range.max - a_range.min) : quantized::LargestEnd(a_range);
    const Steps steps = StepsOf<uint8_t>(width, {b_range}, n);
    Finish finish;
    MR_RETURN_IF_ERROR(ReadBias(inputs.bias(), n, steps, &finish));
    const std::vector<int32_t> weights = Weights(b, k, n);
    if (min_first_) {
      // The lower end times the sum of each column.
      const double lowest = static_cast<double>(a_range.min) * quantized::kLimit<uint8_t> / width;
      const std::vector<int32_t> sums = ColumnSums(weights, k, n);
      for (size_t j = 0; j < sums.size(); ++j)
        finish.bias[j] = Plus(finish.bias[j], quantized::Saturated<int32_t>(sums[j] * lowest));
    }
    MR_RETURN_IF_ERROR((ReadFinish<uint8_t, Out>(context, form_, a_range, {b_range}, steps, shape, &finish)));
    if (out->num_elements() == 0) return Status();
    finish.Prepare(n, m);
    const quantized::RightFactor right(weights, k, n, quantized::LargestFrom<uint8_t>(0));
    // As many rows at a time as fit in the cache.
    const int64_t most = std::clamp<int64_t>(4096 / std::max<int64_t>(k, 1), 8, 64), whole[] = {0};
    context.ParallelFor(m, 1 + k * n / 32, [&](int64_t begin, int64_t end) {
      const int64_t rows = std::min(most, end - begin);
      std::vector<float> left(static_cast<size_t>(rows * k));
      std::vector<int32_t> sums(static_cast<size_t>(rows * n));
      for (; begin < end; begin += most) {
        const int64_t count = std::min(most, end - begin);
        LoadRows(a, begin, count, k, left.data());
        quantized::Products(left.data(), {.rows = count, .step = k, .length = k, .runs = whole}, right,
                            sums.data());
        finish.Run(sums.data(), begin * n, count * n, Data<Out>(out) + begin * n);
      }
    });
    return Status();
  }

 private:
  void LoadRows(const Tensor& a, int64_t begin, int64_t count, int64_t k, float* to) const {
    const auto* const from = Data<uint8_t>(a);
    if (!transpose_a_) {
      MapLoop(from + begin * k, to, count * k,
              [](uint8_t x) MR_INLINE_LAMBDA { return static_cast<float>(x); });
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t j = 0; j < k; ++j) to[i * k + j] = from[j * a.dim(1) + begin + i];
    }
  }
  // The second factor as [k, n].
  std::vector<int32_t> Weights(const Tensor& b, int64_t k, int64_t n) const {
    std::vector<int32_t> weights(static_cast<size_t>(k * n));
    const int8_t* from = Data<int8_t>(b);
    if (transpose_b_) {
      for (int64_t j = 0; j < n; ++j) {
        for (int64_t i = 0; i < k; ++i) weights[static_cast<size_t>(i * n + j)] = from[j * k + i];
      }
    } else {
      MapLoop(from, weights.data(), k * n, [](int8_t x) MR_INLINE_LAMBDA { return static_cast<int32_t>(x); });
    }
    return weights;
  }
  static std::vector<int32_t> ColumnSums(const std::vector<int32_t>& weights, int64_t k, int64_t n) {
    std::vector<int32_t> sums(static_cast<size_t>(n));
    RunLoop([=, from = weights.data(), to = sums.data()]() MR_INLINE_LAMBDA {
      for (int64_t i = 0; i < k; ++i) {
        for (int64_t j = 0; j < n; ++j) to[j] = Plus(to[j], from[i * n + j]);
      }
    });
    return sums;
  }
  const Form form_;
  const bool transpose_a_, transpose_b_, min_first_;
};

KernelDef ConvDef(const std::string& op, DataType in, DataType out) {
  const Form form(op);
  KernelDef def(op);
  def.Types("Tinput", {in}).Types("Tfilter", {DataType::kQint8}).Types("out_type", {out});
  if (form.bias && form.narrow) def.Types("Tbias", {DataType::kFloat, DataType::kQint32});
  if (form.sum && form.narrow) def.Types("Tsummand", {DataType::kQuint8, DataType::kQint8});
  return def;
}

template <typename In>
void RegisterConv(KernelRegistry& registry, const std::string& op, DataType in) {
  if (!Form(op).narrow) return registry.Register<ConvKernel<In, int32_t>>(ConvDef(op, in, DataType::kQint32));
  registry.Register<ConvKernel<In, uint8_t>>(ConvDef(op, in, DataType::kQuint8));
  registry.Register<ConvKernel<In, int8_t>>(ConvDef(op, in, DataType::kQint8));
}

}  // namespace

void RegisterQuantizedFusedKernels(KernelRegistry& registry) {
  for (const char* end :
       {"Conv2DAndRelu", "Conv2DAndReluAndRequantize", "Conv2DAndRequantize", "Conv2DPerChannel",
        "Conv2DWithBias", "Conv2DWithBiasAndRelu", "Conv2DWithBiasAndReluAndRequantize",
        "Conv2DWithBiasAndRequantize", "Conv2DWithBiasSignedSumAndReluAndRequantize",
        "Conv2DWithBiasSumAndRelu", "Conv2DWithBiasSumAndReluAndRequantize", "DepthwiseConv2D",
        "DepthwiseConv2DWithBias", "DepthwiseConv2DWithBiasAndRelu",
        "DepthwiseConv2DWithBiasAndReluAndRequantize"}) {
    const std::string op = std::string("Quantized") + end;
    RegisterConv<uint8_t>(registry, op, DataType::kQuint8);
    RegisterConv<int8_t>(registry, op, DataType::kQint8);
  }
  const auto product = [](const char* op, DataType out) {
    return KernelDef(op)
        .Types("T1", {DataType::kQuint8})
        .Types("T2", {DataType::kQint8})
        .Types("Toutput", {out});
  };
  const TypeList biases = {DataType::kFloat, DataType::kQint32};
  registry.Register<FusedMatMulKernel<int32_t>>(
      product("QuantizedMatMulWithBias", DataType::kQint32).Types("Tbias", biases));
  registry.Register<FusedMatMulKernel<int32_t>>(product("QuantizedMatMulWithBiasAndRelu", DataType::kQint32));
  registry.Register<FusedMatMulKernel<uint8_t>>(
      product("QuantizedMatMulWithBiasAndReluAndRequantize", DataType::kQuint8).Types("Tbias", biases));
}

}  // namespace millrace
