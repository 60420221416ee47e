// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Convolution, pooling, normalization and resizing of quantized images.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>
#include <vector>

#include "kernels/cpu/image/scaling.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/loop.h"
#include "kernels/cpu/nn/util.h"
#include "kernels/cpu/quantized/products.h"
#include "kernels/cpu/quantized/range.h"
#include "kernels/cpu/quantized/rounding.h"

namespace millrace {
namespace {

using quantized::Data;
using quantized::Range;

// The position of a window in an image: the part that is inside.
struct Span {
  int64_t begin, end, before;  // `before`: the number of elements before the image
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
    MapLoop(Data<uint8_t>(filter), factors.data(), filter.num_elements(),
            [filter_zero](uint8_t x) MR_INLINE_LAMBDA { return static_cast<int32_t>(x - filter_zero); });
    const int64_t taps = filter.num_elements() / filter.dim(3);
    const int64_t zero_steps = quantized::ToSteps<uint8_t>(0, in_range);
    const quantized::RightFactor right(factors, taps, filter.dim(3),
                                       quantized::LargestFrom<uint8_t>(zero_steps));
    const quantized::PaddedRows padded{.image = {in.dim(1), in.dim(2), in.dim(3)},
                                       .y = {rows.size, filter.dim(0), strides_.h, 1, rows.pad_before},
                                       .x = {columns.size, filter.dim(1), strides_.w, 1, columns.pad_before},
                                       .zero = zero_steps};
    MR_RETURN_IF_ERROR(padded.Check());
    const quantized::Convolution convolution(padded, right);
    const int64_t row_cost = columns.size * std::max<int64_t>(1, filter.num_elements() / 32);
    context.ParallelFor(in.dim(0) * rows.size, row_cost, [&](int64_t begin, int64_t end) {
      std::vector<float> memory;
      for (int64_t r = begin; r < end; ++r) {
        const uint8_t* pixels = Data<uint8_t>(in) + r / rows.size * in.dim(1) * in.dim(2) * in.dim(3);
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
      if (!mean_) {
        Rows<uint8_t>(in, rows, columns, begin, end, out);
      } else if (window_.h <= 257 / window_.w) {  // the sum of this number of bytes is at most 2^16 - 1
        Rows<uint16_t>(in, rows, columns, begin, end, out);
      } else {
        Rows<uint32_t>(in, rows, columns, begin, end, out);
      }
    });
    return Status();
  }

 private:
  // Combines the rows of an image under a row of windows, then the columns of each window, and computes means
  // of windows of one size, in long loops. Held: the type of maxima, uint8_t, or of sums.
  template <typename Held>
  void Rows(const Tensor& in, const WindowedOutput& rows, const WindowedOutput& columns, int64_t begin,
            int64_t end, Tensor* out) const {
    constexpr bool kMean = sizeof(Held) > 1;
    const int64_t height = in.dim(1), depth = in.dim(3), size = in.dim(2) * depth;
    const int64_t out_row = columns.size * depth;
    std::vector<Held> under_row(static_cast<size_t>(size)), sums(kMean ? static_cast<size_t>(out_row) : 0);
    std::vector<Span> xs;
    for (int64_t x = 0; x < columns.size; ++x)
      xs.push_back(InsideOf(x, strides_.w, columns.pad_before, window_.w, in.dim(2)));
    for (int64_t r = begin; r < end; ++r) {
      const Span ys = InsideOf(r % rows.size, strides_.h, rows.pad_before, window_.h, height);
      uint8_t* const to = Data<uint8_t>(out) + r * out_row;
      Held* held;
      if constexpr (kMean) {
        held = sums.data();
      } else {
        held = to;
      }
      RunLoop([=, from = Data<uint8_t>(in) + r / rows.size * height * size, row = under_row.data(),
               spans = xs.data(), count = columns.size]() MR_INLINE_LAMBDA {
        for (int64_t i = 0; i < size; ++i) row[i] = ys.begin < ys.end ? from[ys.begin * size + i] : Held(0);
        for (int64_t y = ys.begin + 1; y < ys.end; ++y) {
          for (int64_t i = 0; i < size; ++i) row[i] = Joined<Held>(row[i], from[y * size + i]);
        }
        for (int64_t x = 0; x < count; ++x) {
          const Held* first = row + spans[x].begin * depth;
          const int64_t wide = spans[x].end - spans[x].begin;
          int64_t c = 0;
          for (; c + 16 <= depth; c += 16) JoinColumns<16>(first + c, wide, depth, held + x * depth + c);
          for (; c + 4 <= depth; c += 4) JoinColumns<4>(first + c, wide, depth, held + x * depth + c);
          for (; c < depth; ++c) JoinColumns<1>(first + c, wide, depth, held + x * depth + c);
        }
      });
      if constexpr (kMean) {
        const auto places = [&](int64_t x) {
          const Span& span = xs[static_cast<size_t>(x)];
          return std::max<int64_t>(1, std::max<int64_t>(0, ys.end - ys.begin) * (span.end - span.begin));
        };
        for (int64_t x = 0, last; x < columns.size; x = last) {
          for (last = x + 1; last < columns.size && places(last) == places(x);) ++last;
          Means(held + x * depth, (last - x) * depth, places(x), to + x * depth);
        }
      }
    }
  }

  template <typename Held, typename T>
  static Held Joined(Held a, T b) {
    if constexpr (sizeof(Held) == 1) return a > b ? a : b;
    return static_cast<Held>(a + b);
  }
  // kLanes channels of adjacent pixels.
  template <int kLanes, typename Held>
  static void JoinColumns(const Held* from, int64_t wide, int64_t depth, Held* to) {
    if constexpr (kLanes == 1) {
      Held held = 0;
      for (int64_t x = 0; x < wide; ++x) held = Joined<Held>(held, from[x * depth]);
      *to = held;
    } else {
      using Lanes [[gnu::vector_size(kLanes * sizeof(Held))]] = Held;
      Lanes held{};
      for (int64_t x = 0; x < wide; ++x) {
        Lanes pixel;
        std::memcpy(&pixel, from + x * depth, sizeof(pixel));
        if constexpr (sizeof(Held) == 1) {
          held = held > pixel ? held : pixel;
        } else {
          held += pixel;
        }
      }
      std::memcpy(to, &held, sizeof(held));
    }
  }

  template <typename Held>
  static void Means(const Held* sums, int64_t n, int64_t places, uint8_t* to) {
    if (places < 1 << 13) {
      // A sum plus a half is exact as a float. Its quotient, at most 256, is at least half a part of `places`
      // away from the next integers, which is more than the rounding error of product and inverse.
      MapLoop(sums, to, n, [share = 1.0f / static_cast<float>(places)](Held sum) MR_INLINE_LAMBDA {
        const float number = static_cast<float>(static_cast<int32_t>(sum)) + 0.5f;
        return static_cast<uint8_t>(static_cast<int32_t>(number * share));
      });
    } else {
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<uint8_t>(sums[i] / static_cast<uint64_t>(places));
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
    const int64_t pixels = depth == 0 ? 0 : in.num_elements() / depth;
    for (std::vector<float>* constants : {&values[1], &values[3], &factor})
      quantized::RepeatChannels(pixels, constants);
    context.ParallelFor(pixels, depth * 2, [&](int64_t begin, int64_t end) {
      RunLoop([from = Data<uint8_t>(in) + begin * depth, to = Data<int32_t>(out) + begin * depth,
               size = (end - begin) * depth, repeated = static_cast<int64_t>(factor.size()),
               number = quantized::Numbers<uint8_t>(ranges[0]),
               quantize = quantized::Quantizer<int32_t>(kOutput), mean = values[1].data(),
               beta = values[3].data(), by = factor.data()]() MR_INLINE_LAMBDA {
        quantized::ForRepeated(size, repeated, [=](int64_t first, int64_t count) MR_INLINE_LAMBDA {
          for (int64_t c = 0; c < count; ++c)
            to[first + c] = quantize((number(from[first + c]) - mean[c]) * by[c] + beta[c]);
        });
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
    const float steps = 255.0f / (used.max - used.min), least = used.min;
    for (int64_t image = 0; image < in.dim(0); ++image) {
      const auto of_image = [&](const std::vector<double>& values) {
        std::vector<double> repeated(values.begin() + image * depth, values.begin() + (image + 1) * depth);
        quantized::RepeatChannels(pixels, &repeated);
        return repeated;
      };
      const std::vector<double> mean = of_image(means), factor = of_image(factors);
      context.ParallelFor(pixels, depth * 2, [&](int64_t begin, int64_t end) {
        const int64_t at = (image * pixels + begin) * depth;
        RunLoop([=, from = Data<uint8_t>(in) + at, to = Data<uint8_t>(out) + at, size = (end - begin) * depth,
                 repeated = static_cast<int64_t>(mean.size()), mean = mean.data(), factor = factor.data(),
                 most = 255.0f]() MR_INLINE_LAMBDA {
          quantized::ForRepeated(size, repeated, [=](int64_t first, int64_t count) MR_INLINE_LAMBDA {
            for (int64_t c = 0; c < count; ++c) {
              const auto normalized = static_cast<float>((from[first + c] - mean[c]) * factor[c]);
              const float value = std::round((normalized - least) * steps);
              const float above = value > 0.0f ? value : 0.0f;  // also for NaN
              to[first + c] = static_cast<uint8_t>(static_cast<int32_t>(above < most ? above : most));
            }
          });
        });
      });
    }
    quantized::PutRange(context, used);
    return Status();
  }

 private:
  // The mean of each channel of each image and the inverse of its deviation, in steps; and the range of the
  // normalized image.
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

  // The mean of kLanes channels, the sum of squared differences from it, and the least and largest values.
  // Sums of 2^16 bytes, and of 2^16 squares of bytes, fit into 32 bits.
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
    // The sums are integers below 2^53, and exact; the difference is small if all values are alike, and not
    // negative.
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

// Resizes the numbers that the integers represent, in the same range.
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
    const auto ys = image::LinearTaps(s.in_h, s.out_h, alignment_);
    const auto xs = image::LinearTaps(s.in_w, s.out_w, alignment_);
    const int64_t row = s.out_w * s.channels;
    const std::optional<FewSteps> few = FewSteps::For(range);
    context.ParallelFor(s.batch * s.out_h, row * 10, [&](int64_t begin, int64_t end) {
      StretchedRows rows(Data<T>(images), s, xs, range);
      for (int64_t r = begin; r < end; ++r) {
        const image::LinearTap& tap = ys[static_cast<size_t>(r % s.out_h)];
        const int64_t first = r / s.out_h * s.in_h;
        const float* above = rows.Find(first + tap.lower, first + tap.upper);
        const float* below = rows.Find(first + tap.upper, first + tap.lower);
        T* const to = Data<T>(out) + r * row;
        if constexpr (sizeof(T) == 1) {
          if (few.has_value()) {
            Mix(above, below, tap.share, row, *few, to);
            continue;
          }
        }
        Mix(above, below, tap.share, row, Back(range), to);
      }
    });
    return Status();
  }

 private:
  // Converts between integers and the numbers that they represent; for floats it is the identity.
  struct Same {
    explicit Same(Range) {}
    float operator()(float x) const { return x; }
  };
  using Number = std::conditional_t<std::is_same_v<T, float>, Same, quantized::Numbers<T>>;
  using Back = std::conditional_t<std::is_same_v<T, float>, Same, quantized::Quantizer<T>>;

  // As quantized::Quantizer for numbers in the range, with integers of 32 bits.
  struct FewSteps {
    static std::optional<FewSteps> For(Range range) {
      const quantized::Quantizer<uint8_t> wide(range);
      const double most = std::max(std::fabs(range.min), std::fabs(range.max)) * wide.scale;
      if (!(most < 1 << 29)) return std::nullopt;
      return FewSteps{wide.scale, static_cast<int32_t>(wide.zero)};
    }
    uint8_t operator()(float value) const {
      const int32_t steps = quantized::RoundAway(static_cast<double>(value) * scale) - zero;
      const int32_t above = steps > 0 ? steps : 0;
      return static_cast<uint8_t>(above < 255 ? above : 255);
    }
    double scale;
    int32_t zero;
  };

  // Interpolates between two rows.
  template <typename Fn>
  static void Mix(const float* above, const float* below, float share, int64_t n, const Fn& fn, T* to) {
    RunLoop([=]() MR_INLINE_LAMBDA {
      for (int64_t i = 0; i < n; ++i) to[i] = fn(above[i] + (below[i] - above[i]) * share);
    });
  }

  // Rows of the images as numbers, stretched to the width of the result. Keeps the last two.
  class StretchedRows {
   public:
    StretchedRows(const T* images, const image::ResizeSizes& s, const std::vector<image::LinearTap>& xs,
                  Range range)
        : images_(images),
          s_(s),
          xs_(xs),
          number_(range),
          numbers_(static_cast<size_t>(s.in_w * s.channels)) {
      for (auto& row : rows_) row.resize(static_cast<size_t>(s.out_w * s.channels));
    }
    // Row r of all images, replacing a row other than `kept`.
    const float* Find(int64_t r, int64_t kept) {
      if (r == at_[0]) return rows_[0].data();
      if (r == at_[1]) return rows_[1].data();
      const size_t place = at_[0] == kept ? 1 : 0;
      at_[place] = r;
      const int64_t size = s_.in_w * s_.channels;
      MapLoop(images_ + r * size, numbers_.data(), size, number_);
      Stretch(numbers_.data(), rows_[place].data());
      return rows_[place].data();
    }

   private:
    void Stretch(const float* from, float* to) const {
      RunLoop([=, xs = xs_.data(), count = s_.out_w, channels = s_.channels]() MR_INLINE_LAMBDA {
        for (int64_t x = 0; x < count; ++x) {
          const float *a = from + xs[x].lower * channels, *b = from + xs[x].upper * channels;
          float* const result = to + x * channels;
          const float share = xs[x].share;
          int64_t c = 0;
          for (; c + 16 <= channels; c += 16) Between<16>(a + c, b + c, share, result + c);
          for (; c + 4 <= channels; c += 4) Between<4>(a + c, b + c, share, result + c);
          for (; c < channels; ++c) Between<1>(a + c, b + c, share, result + c);
        }
      });
    }
    template <int kLanes>
    static void Between(const float* a, const float* b, float share, float* to) {
      float result[kLanes];
      ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA { result[l] = a[l] + (b[l] - a[l]) * share; });
      ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA { to[l] = result[l]; });
    }

    const T* const images_;
    const image::ResizeSizes& s_;
    const std::vector<image::LinearTap>& xs_;
    const Number number_;
    std::vector<float> numbers_, rows_[2];
    int64_t at_[2] = {-1, -1};
  };

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
