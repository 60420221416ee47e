// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Fractional pooling: Graham, "Fractional Max-Pooling". Regions differ in size by one; random numbers, as in
// TensorFlow, determine their order.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/random/philox.h"
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/loop.h"

namespace millrace {
namespace {

template <typename Fn>
Status VisitPooled(const KernelContext& context, DataType dtype, Fn fn) {
  switch (dtype) {
    case DataType::kFloat:
      return fn.template operator()<float>();
    case DataType::kDouble:
      return fn.template operator()<double>();
    case DataType::kInt32:
      return fn.template operator()<int32_t>();
    case DataType::kInt64:
      return fn.template operator()<int64_t>();
    default:
      return NoSuchType(context, dtype);
  }
}

using Bounds = std::vector<int64_t>;  // the start of each region; then the end of the last

// Single numbers from blocks of the generator.
class Numbers {
 public:
  explicit Numbers(PhiloxRandom random) : random_(random) {}
  uint32_t Next() {
    if (used_ == PhiloxRandom::kResultElementCount) {
      block_ = random_();
      used_ = 0;
    }
    return block_[static_cast<size_t>(used_++)];
  }
  // In [0, 1), of 52 bits.
  double NextDouble() {
    const uint64_t low = Next(), high = Next() & 0xfffff;
    return std::ldexp(static_cast<double>((high << 32) | low), -52);
  }

 private:
  PhiloxRandom random_;
  PhiloxRandom::Block block_{};
  int used_ = PhiloxRandom::kResultElementCount;
};

// Ceilings of an arithmetic sequence with a random start.
Bounds PseudoRandomBounds(int64_t in, int64_t out, GuardedPhilox& generator) {
  const double alpha = static_cast<double>(in) / static_cast<double>(out);
  const int64_t k = in / out;
  const double limit = std::min(static_cast<double>(k + 2) / alpha - 1,
                                static_cast<double>(in + 1 - k) / alpha - static_cast<double>(out - 1));
  Numbers numbers(generator.ReserveBlocks(1));
  const double u = numbers.NextDouble() * limit;
  Bounds bounds(static_cast<size_t>(out) + 1, 0);
  for (int64_t i = 1; i < out; ++i) {
    const auto at = static_cast<int64_t>(std::ceil(alpha * (static_cast<double>(i) + u))) - 1;
    bounds[static_cast<size_t>(i)] = std::clamp(at, bounds[static_cast<size_t>(i) - 1], in);
  }
  bounds.back() = in;
  return bounds;
}

// The sizes in random order.
Bounds RandomBounds(int64_t in, int64_t out, GuardedPhilox& generator) {
  Bounds sizes(static_cast<size_t>(out), in / out);
  for (int64_t i = 0; i < in % out; ++i) ++sizes[static_cast<size_t>(i)];
  Numbers numbers(generator.ReserveBlocks(static_cast<uint64_t>(out + 3) / 4));
  for (size_t i = 0; i + 1 < sizes.size(); ++i)
    std::swap(sizes[i], sizes[i + numbers.Next() % static_cast<uint32_t>(sizes.size() - i)]);
  Bounds bounds(sizes.size() + 1, 0);
  for (size_t i = 0; i < sizes.size(); ++i) bounds[i + 1] = bounds[i] + sizes[i];
  return bounds;
}

// Regions of images in NHWC.
struct Regions {
  int64_t batch, in_h, in_w, channels;
  Bounds rows, columns;
  bool overlapping;

  int64_t out_h() const { return static_cast<int64_t>(rows.size()) - 1; }
  int64_t out_w() const { return static_cast<int64_t>(columns.size()) - 1; }
  TensorShape OutShape() const { return {batch, out_h(), out_w(), channels}; }
  // The end of the rows or columns of region i; overlapping regions have one in common.
  int64_t End(const Bounds& bounds, int64_t i, int64_t size) const {
    return std::min(bounds[static_cast<size_t>(i) + 1] + (overlapping ? 1 : 0), size);
  }
  int64_t RowEnd(int64_t i) const { return End(rows, i, in_h); }
  int64_t ColumnEnd(int64_t i) const { return End(columns, i, in_w); }
};

// The region (y, x) of image n: its first pixel and its sides.
struct Region {
  Region(const Regions& r, int64_t n, int64_t y, int64_t x)
      : width(r.in_w),
        rows(r.RowEnd(y) - r.rows[static_cast<size_t>(y)]),
        columns(r.ColumnEnd(x) - r.columns[static_cast<size_t>(x)]),
        first((n * r.in_h + r.rows[static_cast<size_t>(y)]) * r.in_w + r.columns[static_cast<size_t>(x)]) {}
  // Calls fn(index) for all pixels, counted from the first one.
  template <typename Fn>
  MR_INLINE_LAMBDA void ForPixels(const Fn& fn) const {
    for (int64_t h = 0; h < rows; ++h) {
      for (int64_t w = 0; w < columns; ++w) fn(h * width + w);
    }
  }
  int64_t count() const { return rows * columns; }
  const int64_t width, rows, columns, first;
};

// Calls fn(lanes, first channel) for blocks of `lanes` channels, which are a constant.
template <typename T, typename Fn>
MR_INLINE_LAMBDA inline void ForChannels(int64_t channels, const Fn& fn) {
  int64_t c = 0;
  if constexpr (std::is_same_v<T, float>) {
    for (; c + 16 <= channels; c += 16) fn(std::integral_constant<int, 16>(), c);
    for (; c + 4 <= channels; c += 4) fn(std::integral_constant<int, 4>(), c);
  } else {
    for (; c + 8 <= channels; c += 8) fn(std::integral_constant<int, 8>(), c);
  }
  for (; c < channels; ++c) fn(std::integral_constant<int, 1>(), c);
}

template <bool kMax>
class FractionalPoolKernel final : public OpKernel {
 public:
  explicit FractionalPoolKernel(KernelConstruction& c)
      : OpKernel(c),
        ratios_(c.Attr<std::vector<float>>("pooling_ratio")),
        pseudo_random_(c.Attr<bool>("pseudo_random")),
        overlapping_(c.Attr<bool>("overlapping")),
        seed_(c.Attr<int64_t>("seed")),
        seed2_(c.Attr<int64_t>("seed2")) {
    const bool deterministic = c.Attr<bool>("deterministic");
    if (!c.status().ok()) return;
    if (ratios_.size() != 4) {
      c.SetError(errors::InvalidArgument("pooling_ratio field must specify 4 dimensions"));
    } else if (ratios_[0] != 1 || ratios_[3] != 1) {
      c.SetError(errors::Unimplemented("Fractional ", kMax ? "max" : "average",
                                       " pooling is not yet supported on the batch nor channel dimension."));
    } else if (!(ratios_[1] >= 1) || !(ratios_[2] >= 1)) {
      c.SetError(errors::InvalidArgument("pooling_ratio should be >= 1"));
    }
    if (!deterministic && (seed_ != 0 || seed2_ != 0)) {
      c.SetError(errors::InvalidArgument("Both seed and seed2 should be 0 if deterministic is false."));
    }
    if (deterministic && seed_ == 0 && seed2_ == 0) {
      seed_ = static_cast<int64_t>(RandomSeed64());
      seed2_ = static_cast<int64_t>(RandomSeed64());
    }
  }

  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    if (in.rank() != 4) return errors::InvalidArgument("tensor_in must be 4-dimensional");
    Regions r{in.dim(0), in.dim(1), in.dim(2), in.dim(3), {}, {}, overlapping_};
    GuardedPhilox generator(seed_, seed2_);
    // Without elements nothing else limits the sides, and each of them gets a list of its regions.
    if (in.num_elements() == 0 && std::max(r.in_h, r.in_w) > kLargestEmptySide)
      return errors::ResourceExhausted("An image without elements is too large to be pooled: ", in.shape());
    MR_ASSIGN_OR_RETURN(r.rows, DrawBounds(r.in_h, ratios_[1], generator));
    MR_ASSIGN_OR_RETURN(r.columns, DrawBounds(r.in_w, ratios_[2], generator));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, r.OutShape()));
    for (const auto& [i, bounds] : {std::pair(1, &r.rows), std::pair(2, &r.columns)}) {
      MR_ASSIGN_OR_RETURN(Tensor * copy, context.AllocateOutput(i, {static_cast<int64_t>(bounds->size())}));
      std::copy(bounds->begin(), bounds->end(), copy->data<int64_t>());
    }
    if (out->num_elements() == 0) return Status();
    return VisitPooled(context, in.dtype(), [&]<typename T>() {
      context.ParallelFor(r.batch * r.out_h(), r.in_h / r.out_h() * r.in_w * r.channels + 1,
                          [&](int64_t begin, int64_t end) {
                            for (int64_t i = begin; i < end; ++i)
                              PoolRow(r, i / r.out_h(), i % r.out_h(), in.data<T>(), out->data<T>());
                          });
      return Status();
    });
  }

 private:
  static constexpr int64_t kLargestEmptySide = int64_t{1} << 24;

  StatusOr<Bounds> DrawBounds(int64_t size, float ratio, GuardedPhilox& generator) const {
    const auto out = std::min(
        static_cast<int64_t>(std::floor(static_cast<double>(size) / static_cast<double>(ratio))), size);
    if (out <= 0 || out > INT32_MAX) {
      return errors::InvalidArgument("A side of ", size, " cannot be pooled by a ratio of ", ratio);
    }
    return pseudo_random_ ? PseudoRandomBounds(size, out, generator) : RandomBounds(size, out, generator);
  }

  template <typename T>
  static void PoolRow(const Regions& r, int64_t n, int64_t y, const T* in, T* out) {
    RunLoop([&]() MR_INLINE_LAMBDA {
      for (int64_t x = 0; x < r.out_w(); ++x) {
        const Region region(r, n, y, x);
        T* const to = out + ((n * r.out_h() + y) * r.out_w() + x) * r.channels;
        if (region.count() <= 0) {
          std::fill_n(to, r.channels, T(0));
          continue;
        }
        const T* const from = in + region.first * r.channels;
        ForChannels<T>(r.channels, [&](auto lanes, int64_t c) MR_INLINE_LAMBDA {
          T sums[lanes()];
          // Adding a number to -0 does not change it.
          ForLanes<lanes()>([&](int l)
                                MR_INLINE_LAMBDA { sums[l] = kMax ? from[c + l] : static_cast<T>(-0.0); });
          region.ForPixels([&](int64_t place) MR_INLINE_LAMBDA {
            const T* const pixel = from + place * r.channels + c;
            ForLanes<lanes()>([&](int l) MR_INLINE_LAMBDA {
              if constexpr (kMax) {
                sums[l] = pixel[l] > sums[l] ? pixel[l] : sums[l];
              } else {
                sums[l] = Plus(sums[l], pixel[l]);
              }
            });
          });
          const auto count = static_cast<T>(region.count());
          ForLanes<lanes()>(
              [&](int l) MR_INLINE_LAMBDA { to[c + l] = kMax ? sums[l] : static_cast<T>(sums[l] / count); });
        });
      }
    });
  }

  const std::vector<float> ratios_;
  const bool pseudo_random_, overlapping_;
  int64_t seed_, seed2_;
};

// Reads bounds from an input.
StatusOr<Bounds> ReadBounds(const Tensor& t, int64_t size, int64_t out, const char* name) {
  // A region has at least one row or column.
  if (!t.shape().IsVector() || t.num_elements() - 1 != out || out > size) {
    return errors::InvalidArgument(name, " must be a vector of one value more than the output's size, ", out,
                                   ", which must not exceed that of the input, ", size, "; got shape ",
                                   t.shape());
  }
  Bounds bounds(t.data<int64_t>(), t.data<int64_t>() + t.num_elements());
  if (bounds.front() < 0 || bounds.back() > size || !std::is_sorted(bounds.begin(), bounds.end()))
    return errors::InvalidArgument(name, " must be in ascending order from 0 to the size of the input, ",
                                   size);
  return bounds;
}

// Max: orig_input, orig_output, out_backprop, rows, columns. Average: shape, out_backprop, rows, columns.
template <bool kMax>
class FractionalPoolGradKernel final : public OpKernel {
 public:
  explicit FractionalPoolGradKernel(KernelConstruction& c)
      : OpKernel(c), overlapping_(c.Attr<bool>("overlapping")) {}

  Status Compute(KernelContext& context) override {
    constexpr int kGrad = kMax ? 2 : 1;
    TensorShape shape = context.input(0).shape();
    if constexpr (!kMax) {
      MR_ASSIGN_OR_RETURN(shape, ShapeFromTensor(context.input(0), "orig_input_tensor_shape"));
    }
    const Tensor& grad = context.input(kGrad);
    if (shape.rank() != 4 || grad.rank() != 4)
      return errors::InvalidArgument("orig_input and out_backprop must be 4-dimensional");
    Regions r{shape.dim(0), shape.dim(1), shape.dim(2), shape.dim(3), {}, {}, overlapping_};
    MR_ASSIGN_OR_RETURN(r.rows,
                        ReadBounds(context.input(kGrad + 1), r.in_h, grad.dim(1), "row_pooling_sequence"));
    MR_ASSIGN_OR_RETURN(r.columns,
                        ReadBounds(context.input(kGrad + 2), r.in_w, grad.dim(2), "col_pooling_sequence"));
    if (grad.shape() != r.OutShape()) {
      return errors::InvalidArgument("out_backprop must have shape ", r.OutShape(), ", got ", grad.shape());
    }
    if (kMax && context.input(1).shape() != grad.shape()) {
      return errors::InvalidArgument("orig_output must have shape ", grad.shape(), ", got ",
                                     context.input(1).shape());
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    std::memset(out->raw_data(), 0, static_cast<size_t>(out->num_elements()) * ElementSize(out->dtype()));
    if (out->num_elements() == 0 || grad.num_elements() == 0) return Status();
    return VisitPooled(context, grad.dtype(), [&]<typename T>() {
      // Regions may overlap, but those of two images do not.
      context.ParallelFor(r.batch, 4 * r.in_h * r.in_w * r.channels, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin * r.out_h(); i < end * r.out_h(); ++i) {
          const int64_t n = i / r.out_h(), y = i % r.out_h();
          const T* const from = grad.data<T>() + i * r.out_w() * r.channels;
          if constexpr (kMax) {
            SpreadToLargest(r, n, y, from, context.input(0).data<T>(), out->data<T>());
          } else {
            SpreadEvenly(r, n, y, from, out->data<T>());
          }
        }
      });
      return Status();
    });
  }

 private:
  // Adds the gradients of a row to the first largest element of each region.
  template <typename T>
  static void SpreadToLargest(const Regions& r, int64_t n, int64_t y, const T* grad, const T* in, T* out) {
    RunLoop([&]() MR_INLINE_LAMBDA {
      using Place = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
      for (int64_t x = 0; x < r.out_w(); ++x, grad += r.channels) {
        const Region region(r, n, y, x);
        if (region.count() <= 0) continue;
        const T* const first = in + region.first * r.channels;
        T* const to = out + region.first * r.channels;
        ForChannels<T>(r.channels, [&](auto lanes, int64_t c) MR_INLINE_LAMBDA {
          T best[lanes()];
          Place best_number[lanes()];
          ForLanes<lanes()>([&](int l) MR_INLINE_LAMBDA { best[l] = first[c + l]; });
          ForLanes<lanes()>([&](int l) MR_INLINE_LAMBDA { best_number[l] = 0; });
          Place number = 0;
          region.ForPixels([&](int64_t place) MR_INLINE_LAMBDA {
            const T* const pixel = first + place * r.channels + c;
            ForLanes<lanes()>([&](int l) MR_INLINE_LAMBDA {
              const bool larger = pixel[l] > best[l];
              best[l] = larger ? pixel[l] : best[l];
              best_number[l] = larger ? number : best_number[l];
            });
            ++number;
          });
          number = 0;
          region.ForPixels([&](int64_t place) MR_INLINE_LAMBDA {
            T* const pixel = to + place * r.channels + c;
            T sums[lanes()];
            ForLanes<lanes()>([&](int l) MR_INLINE_LAMBDA {
              const T own = best_number[l] == number ? grad[c + l] : T(0);
              sums[l] = Plus(pixel[l], own);
            });
            ForLanes<lanes()>([&](int l) MR_INLINE_LAMBDA { pixel[l] = sums[l]; });
            ++number;
          });
        });
      }
    });
  }

  template <typename T>
  static void SpreadEvenly(const Regions& r, int64_t n, int64_t y, const T* grad, T* out) {
    RunLoop([&]() MR_INLINE_LAMBDA {
      for (int64_t x = 0; x < r.out_w(); ++x, grad += r.channels) {
        const Region region(r, n, y, x);
        const auto count = static_cast<double>(std::max<int64_t>(region.count(), 1));
        T* const to = out + region.first * r.channels;
        ForChannels<T>(r.channels, [&](auto lanes, int64_t c) MR_INLINE_LAMBDA {
          T shares[lanes()];
          ForLanes<lanes()>([&](int l) MR_INLINE_LAMBDA {
            shares[l] = static_cast<T>(static_cast<double>(grad[c + l]) / count);
          });
          region.ForPixels([&](int64_t place) MR_INLINE_LAMBDA {
            T* const pixel = to + place * r.channels + c;
            T sums[lanes()];
            ForLanes<lanes()>([&](int l) MR_INLINE_LAMBDA { sums[l] = Plus(pixel[l], shares[l]); });
            ForLanes<lanes()>([&](int l) MR_INLINE_LAMBDA { pixel[l] = sums[l]; });
          });
        });
      }
    });
  }

  const bool overlapping_;
};

}  // namespace

void RegisterFractionalPoolKernels(KernelRegistry& registry) {
  const TypeList types = {DataType::kFloat, DataType::kDouble, DataType::kInt32, DataType::kInt64};
  registry.Register<FractionalPoolKernel<false>>(KernelDef("FractionalAvgPool").Types("T", types));
  registry.Register<FractionalPoolKernel<true>>(KernelDef("FractionalMaxPool").Types("T", types));
  registry.Register<FractionalPoolGradKernel<false>>(KernelDef("FractionalAvgPoolGrad").Types("T", types));
  registry.Register<FractionalPoolGradKernel<true>>(KernelDef("FractionalMaxPoolGrad").Types("T", types));
}

}  // namespace millrace
