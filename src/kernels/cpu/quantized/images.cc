// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Convolution, pooling, normalization and resizing of quantized images.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "kernels/cpu/image/scaling.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/loop.h"
#include "kernels/cpu/nn/util.h"
#include "kernels/cpu/quantized/products.h"
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
    const auto filter_zero = static_cast<uint32_t>(quantized::ToSteps<uint8_t>(0, filter_range));
    std::vector<int32_t> factors(static_cast<size_t>(filter.num_elements()));
    for (size_t i = 0; i < factors.size(); ++i)
      factors[i] = static_cast<int32_t>(Data<uint8_t>(filter)[i] - filter_zero);
    const int64_t taps = filter.num_elements() / filter.dim(3);
    const int64_t zero_steps = quantized::ToSteps<uint8_t>(0, in_range);
    const quantized::RightFactor right(factors, taps, filter.dim(3),
                                       quantized::LargestFrom<uint8_t>(zero_steps));
    const quantized::Image image{in.dim(1), in.dim(2), in.dim(3)};
    const quantized::Convolution convolution(
        image, {rows.size, filter.dim(0), strides_.h, 1, rows.pad_before},
        {columns.size, filter.dim(1), strides_.w, 1, columns.pad_before}, zero_steps, right);
    const int64_t row_cost = columns.size * std::max<int64_t>(1, filter.num_elements() / 32);
    context.ParallelFor(in.dim(0) * rows.size, row_cost, [&](int64_t begin, int64_t end) {
      std::vector<float> memory;
      for (int64_t r = begin; r < end; ++r) {
        const uint8_t* pixels = Data<uint8_t>(in) + r / rows.size * image.height * image.width * image.depth;
        convolution.Row(pixels, r % rows.size, &memory,
                        Data<int32_t>(out) + r * columns.size * filter.dim(3));
      }
    });
    return Status();
  }

 private:
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
      for (int64_t r = begin; r < end; ++r) {
        if (mean_) {
          Row<true>(in, rows, columns, r, out);
        } else {
          Row<false>(in, rows, columns, r, out);
        }
      }
    });
    return Status();
  }

 private:
  // The part of an image that a window covers.
  struct Part {
    const uint8_t* first;
    int64_t rows, columns, row_step, depth;
    uint32_t count() const { return static_cast<uint32_t>(std::max<int64_t>(1, rows * columns)); }
  };

  template <bool kMean>
  void Row(const Tensor& in, const WindowedOutput& rows, const WindowedOutput& columns, int64_t r,
           Tensor* out) const {
    const int64_t height = in.dim(1), width = in.dim(2), depth = in.dim(3);
    const Span ys = InsideOf(r % rows.size, strides_.h, rows.pad_before, window_.h, height);
    RunLoop([=, this, image = Data<uint8_t>(in) + r / rows.size * height * width * depth,
             first = Data<uint8_t>(out) + r * columns.size * depth, size = columns.size,
             before = columns.pad_before]() MR_INLINE_LAMBDA {
      uint8_t* to = first;
      for (int64_t x = 0; x < size; ++x, to += depth) {
        const Span xs = InsideOf(x, strides_.w, before, window_.w, width);
        Part part{image + (ys.begin * width + xs.begin) * depth, std::max<int64_t>(0, ys.end - ys.begin),
                  std::max<int64_t>(0, xs.end - xs.begin), width * depth, depth};
        int64_t c = 0;
        for (; c + 16 <= depth; c += 16, part.first += 16) Pool<16, kMean>(part, to + c);
        for (; c + 4 <= depth; c += 4, part.first += 4) Pool<4, kMean>(part, to + c);
        for (; c < depth; ++c, ++part.first) Pool<1, kMean>(part, to + c);
      }
    });
  }

  // kLanes channels of a window.
  template <int kLanes, bool kMean>
  static void Pool(const Part& part, uint8_t* to) {
    using Value = std::conditional_t<kMean, uint32_t, uint8_t>;
    Value held[kLanes] = {};
    for (int64_t y = 0; y < part.rows; ++y) {
      const uint8_t* pixel = part.first + y * part.row_step;
      for (int64_t x = 0; x < part.columns; ++x, pixel += part.depth) {
        ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA {
          if constexpr (kMean) {
            held[l] += pixel[l];
          } else {
            held[l] = held[l] > pixel[l] ? held[l] : pixel[l];
          }
        });
      }
    }
    const uint32_t count = part.count();
    if (!kMean || count == 1) {
      for (int l = 0; l < kLanes; ++l) to[l] = static_cast<uint8_t>(held[l]);
    } else if (count < 1 << 16) {
      // A sum of at most 2^24 is exact as a float, and so is the integer part of a quotient of at most 255:
      // the next integer is 1 / count or more away, which is more than the quotient's error.
      const auto divisor = static_cast<float>(count);
      uint8_t results[kLanes];
      ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA {
        results[l] = static_cast<uint8_t>(
            static_cast<int32_t>(static_cast<float>(static_cast<int32_t>(held[l])) / divisor));
      });
      for (int l = 0; l < kLanes; ++l) to[l] = results[l];
    } else {
      for (int l = 0; l < kLanes; ++l) to[l] = static_cast<uint8_t>(held[l] / count);
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
    context.ParallelFor(
        depth == 0 ? 0 : in.num_elements() / depth, depth * 2, [&](int64_t begin, int64_t end) {
          RunLoop([&, range = ranges[0], mean = values[1].data(), beta = values[3].data(),
                   by = factor.data()]() MR_INLINE_LAMBDA {
            const uint8_t* from = Data<uint8_t>(in) + begin * depth;
            int32_t* to = Data<int32_t>(out) + begin * depth;
            for (int64_t r = begin; r < end; ++r, from += depth, to += depth) {
              for (int64_t c = 0; c < depth; ++c) {
                const float x = quantized::Number(from[c], range);
                to[c] = quantized::Quantized<int32_t>((x - mean[c]) * by[c] + beta[c], kOutput);
              }
            }
          });
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
    Range used = given_;
    const auto channels = static_cast<size_t>(in.dim(0) * in.dim(3));
    std::vector<double> means(channels), factors(channels);
    if (in.num_elements() > 0) {
      const Range found = Measure(in, range, means.data(), factors.data());
      if (!range_given_) used = {found.min, std::max(found.max, found.min + separation_)};
    }
    const int64_t depth = in.dim(3), pixels = in.dim(1) * in.dim(2);
    for (int64_t image = 0; image < in.dim(0); ++image) {
      RunLoop([=, from = Data<uint8_t>(in) + image * pixels * depth, mean = means.data() + image * depth,
               factor = factors.data() + image * depth, to = Data<uint8_t>(out) + image * pixels * depth,
               steps = 255.0f / (used.max - used.min), least = used.min]() MR_INLINE_LAMBDA {
        for (int64_t i = 0; i < pixels * depth; i += depth) {
          const uint8_t* const x = from + i;
          uint8_t* const y = to + i;
          for (int64_t c = 0; c < depth; ++c) {
            const auto normalized = static_cast<float>((x[c] - mean[c]) * factor[c]);
            const float value = std::round((normalized - least) * steps);
            const float above = value > 0.0f ? value : 0.0f;  // also for NaN
            y[c] = static_cast<uint8_t>(static_cast<int32_t>(above < 255.0f ? above : 255.0f));
          }
        }
      });
    }
    quantized::PutRange(context, used);
    return Status();
  }

 private:
  // Of each channel of each image the mean and one over the deviation, in steps; and the range of what they
  // make of the image.
  Range Measure(const Tensor& in, Range range, double* means, double* factors) const {
    const int64_t depth = in.dim(3), pixels = in.dim(1) * in.dim(2);
    const double step = static_cast<double>(range.max - range.min) / 255;
    const auto count = static_cast<double>(pixels), epsilon = static_cast<double>(epsilon_);
    std::vector<uint8_t> ends(static_cast<size_t>(2 * depth));
    Range found{std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()};
    for (int64_t image = 0; image < in.dim(0); ++image, means += depth, factors += depth) {
      RunLoop([=, from = Data<uint8_t>(in) + image * pixels * depth, least = ends.data(),
               most = ends.data() + depth]() MR_INLINE_LAMBDA {
        int64_t c = 0;
        const auto block = [&](auto lanes) MR_INLINE_LAMBDA {
          Moments<lanes()>(from + c, pixels, depth, least + c, most + c, means + c, factors + c);
          c += lanes();
        };
        while (c + 16 <= depth) block(std::integral_constant<int, 16>());
        while (c + 4 <= depth) block(std::integral_constant<int, 4>());
        while (c < depth) block(std::integral_constant<int, 1>());
      });
      for (int64_t c = 0; c < depth; ++c) {
        factors[c] = step / std::sqrt(factors[c] / count * step * step + epsilon);
        const auto at = [&](size_t end) {
          return static_cast<float>((ends[end + static_cast<size_t>(c)] - means[c]) * factors[c]);
        };
        found = {std::min(found.min, at(0)), std::max(found.max, at(static_cast<size_t>(depth)))};
      }
    }
    return found;
  }

  // Of kLanes channels the mean, the sum of squared distances from it, and the least and largest values. Sums
  // of 2^16 bytes, and of 2^16 squares of bytes, fit into 32 bits.
  template <int kLanes>
  static MR_INLINE_LAMBDA void Moments(const uint8_t* from, int64_t pixels, int64_t depth, uint8_t* least,
                                       uint8_t* most, double* mean, double* squares) {
    uint8_t low[kLanes], high[kLanes];
    double sum[kLanes] = {}, second[kLanes] = {};
    for (int l = 0; l < kLanes; ++l) {
      low[l] = 255;
      high[l] = 0;
    }
    for (int64_t begin = 0; begin < pixels; begin += kPart) {
      const int64_t end = std::min(pixels, begin + kPart);
      uint32_t part[kLanes] = {}, part_squares[kLanes] = {};
      for (int64_t i = begin * depth; i < end * depth; i += depth) {
        ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA {
          const uint32_t x = from[i + l];
          part[l] += x;
          part_squares[l] += x * x;
        });
        ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA {
          const uint8_t x = from[i + l];
          low[l] = x < low[l] ? x : low[l];
          high[l] = x > high[l] ? x : high[l];
        });
      }
      for (int l = 0; l < kLanes; ++l) {
        sum[l] += part[l];
        second[l] += part_squares[l];
      }
    }
    // The sums are integers below 2^53, and exact; what is left of the difference is small where all values
    // are alike, and not negative.
    const auto count = static_cast<double>(pixels);
    for (int l = 0; l < kLanes; ++l) {
      mean[l] = sum[l] / count;
      const double left = second[l] - sum[l] * mean[l];
      squares[l] = left > 0.0 ? left : 0.0;
      least[l] = low[l];
      most[l] = high[l];
    }
  }
  static constexpr int64_t kPart = int64_t{1} << 16;

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
    MapLoop(Data<T>(images), numbers.data<float>(), images.num_elements(), [range](T x) MR_INLINE_LAMBDA {
      if constexpr (std::is_same_v<T, float>) return x;
      return quantized::Number(x, range);
    });
    const auto ys = image::LinearTaps(s.in_h, s.out_h, alignment_);
    const auto xs = image::LinearTaps(s.in_w, s.out_w, alignment_);
    const int64_t row = s.out_w * s.channels;
    context.ParallelFor(s.batch * s.out_h, row * 10, [&](int64_t begin, int64_t end) {
      std::vector<float> result(static_cast<size_t>(row));
      for (int64_t r = begin; r < end; ++r) {
        image::BilinearRow(numbers.data<float>() + r / s.out_h * s.in_h * s.in_w * s.channels, s,
                           ys[static_cast<size_t>(r % s.out_h)], xs, result.data());
        MapLoop(result.data(), Data<T>(out) + r * row, row, [range](float x) MR_INLINE_LAMBDA {
          if constexpr (std::is_same_v<T, float>) return x;
          return quantized::Quantized<T>(x, range);
        });
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
