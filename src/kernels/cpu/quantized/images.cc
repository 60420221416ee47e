// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Convolution, pooling, normalization and resizing of quantized images.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/image/scaling.h"
#include "kernels/cpu/nn/util.h"
#include "kernels/cpu/quantized/range.h"

namespace millrace {
namespace {

using quantized::Data;
using quantized::Range;

// Where a window lies in an image: the part that is inside.
struct Span {
  int64_t begin, end, before;  // `before`: what lies in front of the image
};
Span InsideOf(int64_t out, int64_t stride, int64_t pad, int64_t window, int64_t size) {
  const int64_t start = out * stride - pad;
  return {std::max<int64_t>(start, 0), std::min(start + window, size), std::max<int64_t>(-start, 0)};
}

class QuantizedConv2DKernel final : public OpKernel {
 public:
  explicit QuantizedConv2DKernel(KernelConstruction& c)
      : OpKernel(c), strides_(ReadSpatialAttr(c, "strides", ImageDims())), padding_(ReadPadding(c)) {
    const SpatialAttr dilations = ReadSpatialAttr(c, "dilations", ImageDims());
    if (c.status().ok() && (dilations.h != 1 || dilations.w != 1)) {
      c.SetError(errors::InvalidArgument(
          "Current implementation only supports dilated rate as 1 in the row and column dimensions."));
    }
  }
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const Tensor& filter = context.input(1);
    MR_ASSIGN_OR_RETURN(const Range in_range, quantized::ReadRange(context, 2));
    MR_ASSIGN_OR_RETURN(const Range filter_range, quantized::ReadRange(context, 4));
    if (in.rank() != 4) return errors::InvalidArgument("input must be 4-dimensional", in.shape());
    if (filter.rank() != 4) return errors::InvalidArgument("filter must be 4-dimensional: ", filter.shape());
    if (in.dim(3) != filter.dim(2)) {
      return errors::InvalidArgument("input and filter must have the same depth: ", in.dim(3), " vs ",
                                     filter.dim(2));
    }
    MR_ASSIGN_OR_RETURN(const WindowedOutput rows,
                        GetWindowedOutput(in.dim(1), filter.dim(0), 1, strides_.h, padding_));
    MR_ASSIGN_OR_RETURN(const WindowedOutput columns,
                        GetWindowedOutput(in.dim(2), filter.dim(1), 1, strides_.w, padding_));
    MR_RETURN_IF_ERROR(CheckImageSize("The output", in.dim(0), rows.size, columns.size, filter.dim(3)));
    MR_ASSIGN_OR_RETURN(
        Tensor * out,
        context.AllocateOutput(0, TensorShape({in.dim(0), rows.size, columns.size, filter.dim(3)})));
    quantized::PutRange(context, quantized::ProductRange<uint8_t, uint8_t, int32_t>(in_range, filter_range));
    if (out->num_elements() == 0) return Status();
    const auto zero = static_cast<uint32_t>(quantized::ToSteps<uint8_t>(0, in_range));
    const auto filter_zero = static_cast<uint32_t>(quantized::ToSteps<uint8_t>(0, filter_range));
    std::vector<int32_t> factors(static_cast<size_t>(filter.num_elements()));
    for (size_t i = 0; i < factors.size(); ++i)
      factors[i] = static_cast<int32_t>(Data<uint8_t>(filter)[i] - filter_zero);
    const int64_t row_cost = columns.size * std::max<int64_t>(1, filter.num_elements() / 4);
    context.ParallelFor(in.dim(0) * rows.size, row_cost, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) Row(in, filter.shape(), factors, zero, rows, columns, r, out);
    });
    return Status();
  }

 private:
  // Row r of all images of the output. Pixels outside of the image are 0 and add nothing.
  void Row(const Tensor& in, const TensorShape& filter, const std::vector<int32_t>& factors, uint32_t zero,
           const WindowedOutput& rows, const WindowedOutput& columns, int64_t r, Tensor* out) const {
    const int64_t height = in.dim(1), width = in.dim(2), depth = in.dim(3), results = filter.dim(3);
    const Span ys = InsideOf(r % rows.size, strides_.h, rows.pad_before, filter.dim(0), height);
    for (int64_t x = 0; x < columns.size; ++x) {
      int32_t* sums = Data<int32_t>(out) + (r * columns.size + x) * results;
      std::fill_n(sums, results, 0);
      const Span xs = InsideOf(x, strides_.w, columns.pad_before, filter.dim(1), width);
      for (int64_t y = ys.begin; y < ys.end; ++y) {
        const uint8_t* pixels = Data<uint8_t>(in) + ((r / rows.size * height + y) * width) * depth;
        const int64_t filter_row = (ys.before + y - ys.begin) * filter.dim(1) + xs.before - xs.begin;
        for (int64_t i = xs.begin * depth; i < xs.end * depth; ++i) {
          const auto value = static_cast<int32_t>(pixels[i] - zero);
          const int32_t* weights = factors.data() + (filter_row * depth + i) * results;
          for (int64_t k = 0; k < results; ++k) sums[k] = Plus(sums[k], Times(value, weights[k]));
        }
      }
    }
  }

  const SpatialAttr strides_;
  const Padding padding_;
};

class QuantizedPoolKernel final : public OpKernel {
 public:
  QuantizedPoolKernel(KernelConstruction& c, bool mean)
      : OpKernel(c),
        mean_(mean),
        window_(ReadSpatialAttr(c, "ksize", ImageDims())),
        strides_(ReadSpatialAttr(c, "strides", ImageDims())),
        padding_(ReadPadding(c)) {}
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(const Range range, quantized::ReadRange(context, 1));
    if (in.rank() != 4) return errors::InvalidArgument("tensor_in must be 4-dimensional");
    MR_ASSIGN_OR_RETURN(const WindowedOutput rows,
                        GetWindowedOutput(in.dim(1), window_.h, 1, strides_.h, padding_));
    MR_ASSIGN_OR_RETURN(const WindowedOutput columns,
                        GetWindowedOutput(in.dim(2), window_.w, 1, strides_.w, padding_));
    MR_RETURN_IF_ERROR(CheckImageSize("The output", in.dim(0), rows.size, columns.size, in.dim(3)));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(
                                          0, TensorShape({in.dim(0), rows.size, columns.size, in.dim(3)})));
    quantized::PutRange(context, range);
    if (out->num_elements() == 0) return Status();
    const int64_t pixel_cost = window_.h * window_.w * in.dim(3);
    context.ParallelFor(in.dim(0) * rows.size, columns.size * pixel_cost, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) Row(in, rows, columns, r, out);
    });
    return Status();
  }

 private:
  void Row(const Tensor& in, const WindowedOutput& rows, const WindowedOutput& columns, int64_t r,
           Tensor* out) const {
    const int64_t height = in.dim(1), width = in.dim(2), depth = in.dim(3);
    const Span ys = InsideOf(r % rows.size, strides_.h, rows.pad_before, window_.h, height);
    for (int64_t x = 0; x < columns.size; ++x) {
      const Span xs = InsideOf(x, strides_.w, columns.pad_before, window_.w, width);
      const int64_t count = std::max<int64_t>(1, (ys.end - ys.begin) * (xs.end - xs.begin));
      for (int64_t c = 0; c < depth; ++c) {
        int64_t sum = 0;
        uint8_t largest = 0;
        for (int64_t y = ys.begin; y < ys.end; ++y) {
          for (int64_t k = xs.begin; k < xs.end; ++k) {
            const uint8_t value = Data<uint8_t>(in)[((r / rows.size * height + y) * width + k) * depth + c];
            sum += value;
            largest = std::max(largest, value);
          }
        }
        Data<uint8_t>(out)[(r * columns.size + x) * depth + c] =
            mean_ ? static_cast<uint8_t>(sum / count) : largest;
      }
    }
  }

  const bool mean_;
  const SpatialAttr window_, strides_;
  const Padding padding_;
};

// Inputs: the images, mean, variance, beta and gamma, each with its range.
class QuantizedBatchNormKernel final : public OpKernel {
 public:
  explicit QuantizedBatchNormKernel(KernelConstruction& c)
      : OpKernel(c),
        epsilon_(c.Attr<float>("variance_epsilon")),
        scale_(c.Attr<bool>("scale_after_normalization")) {}
  Status Compute(KernelContext& context) override {
    static constexpr const char* kNames[] = {"input", "mean", "var", "beta", "gamma"};
    Range ranges[5];
    const Tensor& in = context.input(0);
    if (in.rank() != 4) return errors::InvalidArgument("input must be 4-dimensional", in.shape());
    const int64_t depth = in.dim(3);
    std::vector<float> values[5];
    for (int i = 0; i < 5; ++i) {
      MR_ASSIGN_OR_RETURN(ranges[i], quantized::ReadRange(context, 3 * i + 1));
      const Tensor& t = context.input(3 * i);
      if (i == 0) continue;
      if (t.rank() != 1) return errors::InvalidArgument(kNames[i], " must be 1-dimensional", t.shape());
      if (t.dim(0) != depth) {
        return errors::InvalidArgument(kNames[i], " must have an element for each of ", depth,
                                       " channels, got ", t.dim(0));
      }
      for (int64_t c = 0; c < depth; ++c)
        values[i].push_back(quantized::Number(Data<uint8_t>(t)[c], ranges[i]));
    }
    constexpr Range kOutput{-(1 << 20), 1 << 20};
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, in.shape()));
    std::vector<float> factor;
    for (size_t c = 0; c < static_cast<size_t>(depth); ++c)
      factor.push_back((scale_ ? values[4][c] : 1.0f) / std::sqrt(values[2][c] + epsilon_));
    context.ParallelFor(in.num_elements(), 10, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto c = static_cast<size_t>(i % depth);
        const float x = quantized::Number(Data<uint8_t>(in)[i], ranges[0]);
        Data<int32_t>(out)[i] =
            quantized::Quantized<int32_t>((x - values[1][c]) * factor[c] + values[3][c], kOutput);
      }
    });
    quantized::PutRange(context, kOutput);
    return Status();
  }

 private:
  const float epsilon_;
  const bool scale_;
};

class QuantizedInstanceNormKernel final : public OpKernel {
 public:
  explicit QuantizedInstanceNormKernel(KernelConstruction& c)
      : OpKernel(c),
        range_given_(c.Attr<bool>("output_range_given")),
        given_{c.Attr<float>("given_y_min"), c.Attr<float>("given_y_max")},
        epsilon_(c.Attr<float>("variance_epsilon")),
        separation_(c.Attr<float>("min_separation")) {
    if (range_given_ && !(given_.min < given_.max)) {
      c.SetError(errors::InvalidArgument("given_y_min must be less than given_y_max : ", given_.min,
                                         " >= ", given_.max));
    }
  }
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(const Range range, quantized::ReadRange(context, 1));
    if (in.rank() != 4) return errors::InvalidArgument("Rank of input must be 4, got shape ", in.shape());
    if (!(range.min < range.max)) {
      return errors::InvalidArgument("input_min must be less than input_max : ", range.min,
                                     " >= ", range.max);
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, in.shape()));
    MR_ASSIGN_OR_RETURN(Tensor normalized, context.AllocateTemp(DataType::kFloat, in.shape()));
    Range used = given_;
    if (in.num_elements() > 0) {
      Normalize(in, range, normalized.data<float>());
      if (!range_given_) {
        const auto [low, high] =
            std::minmax_element(normalized.data<float>(), normalized.data<float>() + in.num_elements());
        used = {*low, std::max(*high, *low + separation_)};
      }
    }
    const float steps = 255.0f / (used.max - used.min);
    for (int64_t i = 0; i < in.num_elements(); ++i) {
      const float value = std::round((normalized.data<float>()[i] - used.min) * steps);
      Data<uint8_t>(out)[i] =
          static_cast<uint8_t>(std::isnan(value) ? 0.0f : std::clamp(value, 0.0f, 255.0f));
    }
    quantized::PutRange(context, used);
    return Status();
  }

 private:
  // Each channel of each image by its own mean and variance.
  void Normalize(const Tensor& in, Range range, float* out) const {
    const int64_t depth = in.dim(3), pixels = in.dim(1) * in.dim(2);
    const double step = static_cast<double>(range.max - range.min) / 255;
    for (int64_t image = 0; image < in.dim(0); ++image) {
      const uint8_t* from = Data<uint8_t>(in) + image * pixels * depth;
      for (int64_t c = 0; c < depth; ++c) {
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < pixels; ++i) sum += from[i * depth + c];
        const double mean = sum / static_cast<double>(pixels);
        for (int64_t i = 0; i < pixels; ++i)
          squares += (from[i * depth + c] - mean) * (from[i * depth + c] - mean);
        const double variance = squares / static_cast<double>(pixels) * step * step;
        const double factor = step / std::sqrt(variance + static_cast<double>(epsilon_));
        for (int64_t i = 0; i < pixels; ++i)
          out[image * pixels * depth + i * depth + c] =
              static_cast<float>((from[i * depth + c] - mean) * factor);
      }
    }
  }

  const bool range_given_;
  const Range given_;
  const float epsilon_, separation_;
};

// Through the numbers that the integers stand for, in the same range.
template <typename T>
class QuantizedResizeKernel final : public OpKernel {
 public:
  explicit QuantizedResizeKernel(KernelConstruction& c) : OpKernel(c), alignment_(image::ReadAlignment(c)) {}
  Status Compute(KernelContext& context) override {
    const Tensor& images = context.input(0);
    MR_ASSIGN_OR_RETURN(const Range range, quantized::ReadRange(context, 2));
    MR_ASSIGN_OR_RETURN(const image::ResizeSizes s, image::CheckResize(images, context.input(1)));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, s.OutputShape()));
    quantized::PutRange(context, range);
    if (out->num_elements() == 0) return Status();
    MR_ASSIGN_OR_RETURN(Tensor numbers, context.AllocateTemp(DataType::kFloat, images.shape()));
    for (int64_t i = 0; i < images.num_elements(); ++i) {
      if constexpr (std::is_same_v<T, float>) {
        numbers.data<float>()[i] = Data<T>(images)[i];
      } else {
        numbers.data<float>()[i] = quantized::Number(Data<T>(images)[i], range);
      }
    }
    const auto ys = image::LinearTaps(s.in_h, s.out_h, alignment_);
    const auto xs = image::LinearTaps(s.in_w, s.out_w, alignment_);
    const int64_t row = s.out_w * s.channels;
    context.ParallelFor(s.batch * s.out_h, row * 10, [&](int64_t begin, int64_t end) {
      std::vector<float> result(static_cast<size_t>(row));
      for (int64_t r = begin; r < end; ++r) {
        image::BilinearRow(numbers.data<float>() + r / s.out_h * s.in_h * s.in_w * s.channels, s,
                           ys[static_cast<size_t>(r % s.out_h)], xs, result.data());
        for (int64_t i = 0; i < row; ++i) {
          T& to = Data<T>(out)[r * row + i];
          if constexpr (std::is_same_v<T, float>) {
            to = result[static_cast<size_t>(i)];
          } else {
            to = quantized::Quantized<T>(result[static_cast<size_t>(i)], range);
          }
        }
      }
    });
    return Status();
  }

 private:
  const image::Alignment alignment_;
};

}  // namespace

void RegisterQuantizedImageKernels(KernelRegistry& registry) {
  constexpr DataType k8 = DataType::kQuint8, k32 = DataType::kQint32;
  registry.Register<QuantizedConv2DKernel>(
      KernelDef("QuantizedConv2D").Types("Tinput", {k8}).Types("Tfilter", {k8}).Types("out_type", {k32}));
  for (const bool mean : {false, true}) {
    registry.Register(
        KernelDef(mean ? "QuantizedAvgPool" : "QuantizedMaxPool").Types("T", {k8}),
        [mean](KernelConstruction& c) { return std::make_unique<QuantizedPoolKernel>(c, mean); });
  }
  registry.Register<QuantizedBatchNormKernel>(
      KernelDef("QuantizedBatchNormWithGlobalNormalization").Types("Tinput", {k8}).Types("out_type", {k32}));
  registry.Register<QuantizedInstanceNormKernel>(KernelDef("QuantizedInstanceNorm").Types("T", {k8}));
  registry.Register<QuantizedResizeKernel<uint8_t>>(KernelDef("QuantizedResizeBilinear").Types("T", {k8}));
  registry.Register<QuantizedResizeKernel<int32_t>>(KernelDef("QuantizedResizeBilinear").Types("T", {k32}));
  registry.Register<QuantizedResizeKernel<float>>(
      KernelDef("QuantizedResizeBilinear").Types("T", {DataType::kFloat}));
}

}  // namespace millrace
