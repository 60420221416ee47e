// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Pooling by a fraction: Graham, "Fractional Max-Pooling". Regions differ in size by one; random numbers, as
// TensorFlow draws them, say where which size comes.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/random/philox.h"
#include "kernels/cpu/kernel_util.h"

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

using Bounds = std::vector<int64_t>;  // where each region starts; the last one: where they end

// Single numbers out of blocks.
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
  // One past the last row or column of region i; regions that overlap have one in common.
  int64_t End(const Bounds& bounds, int64_t i, int64_t size) const {
    return std::min(bounds[static_cast<size_t>(i) + 1] + (overlapping ? 1 : 0), size);
  }
  int64_t RowEnd(int64_t i) const { return End(rows, i, in_h); }
  int64_t ColumnEnd(int64_t i) const { return End(columns, i, in_w); }
  // Calls fn(index of the pixel) for the region (y, x) of image n.
  template <typename Fn>
  void ForPixels(int64_t n, int64_t y, int64_t x, Fn fn) const {
    for (int64_t h = rows[static_cast<size_t>(y)]; h < RowEnd(y); ++h) {
      for (int64_t w = columns[static_cast<size_t>(x)]; w < ColumnEnd(x); ++w) fn((n * in_h + h) * in_w + w);
    }
  }
  int64_t Count(int64_t y, int64_t x) const {
    return (RowEnd(y) - rows[static_cast<size_t>(y)]) * (ColumnEnd(x) - columns[static_cast<size_t>(x)]);
  }
};

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
    // Without elements nothing else bounds the sides, and each of them gets a list of its regions.
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
    for (int64_t x = 0; x < r.out_w(); ++x) {
      T* to = out + ((n * r.out_h() + y) * r.out_w() + x) * r.channels;
      bool first = true;
      r.ForPixels(n, y, x, [&](int64_t pixel) {
        const T* from = in + pixel * r.channels;
        for (int64_t c = 0; c < r.channels; ++c) {
          if (first) {
            to[c] = from[c];
          } else if constexpr (kMax) {
            to[c] = from[c] > to[c] ? from[c] : to[c];
          } else {
            to[c] = Plus(to[c], from[c]);
          }
        }
        first = false;
      });
      if (first) std::fill_n(to, r.channels, T(0));
      if (!kMax && !first) {
        const T count = static_cast<T>(r.Count(y, x));
        for (int64_t c = 0; c < r.channels; ++c) to[c] = static_cast<T>(to[c] / count);
      }
    }
  }

  const std::vector<float> ratios_;
  const bool pseudo_random_, overlapping_;
  int64_t seed_, seed2_;
};

// Bounds that came as an input.
StatusOr<Bounds> ReadBounds(const Tensor& t, int64_t size, int64_t out, const char* name) {
  // A region holds at least a row or a column.
  if (!t.shape().IsVector() || t.num_elements() - 1 != out || out > size) {
    return errors::InvalidArgument(name, " must be a vector of one value more than the output's size, ", out,
                                   ", which must not exceed that of the input, ", size, "; got shape ",
                                   t.shape());
  }
  Bounds bounds(t.data<int64_t>(), t.data<int64_t>() + t.num_elements());
  if (bounds.front() < 0 || bounds.back() > size || !std::is_sorted(bounds.begin(), bounds.end()))
    return errors::InvalidArgument(name, " must ascend from 0 to the size of the input, ", size);
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
        for (int64_t n = begin; n < end; ++n) Spread(context, r, n, grad.data<T>(), out->data<T>());
      });
      return Status();
    });
  }

 private:
  template <typename T>
  static void Spread(const KernelContext& context, const Regions& r, int64_t n, const T* grad, T* out) {
    for (int64_t y = 0; y < r.out_h(); ++y) {
      for (int64_t x = 0; x < r.out_w(); ++x) {
        const T* from = grad + ((n * r.out_h() + y) * r.out_w() + x) * r.channels;
        if constexpr (kMax) {
          const T* in = context.input(0).data<T>();
          for (int64_t c = 0; c < r.channels; ++c) {
            int64_t best = -1;
            r.ForPixels(n, y, x, [&](int64_t pixel) {
              const int64_t at = pixel * r.channels + c;
              if (best < 0 || in[at] > in[best]) best = at;
            });
            if (best >= 0) out[best] = Plus(out[best], from[c]);
          }
        } else {
          const auto count = static_cast<double>(std::max<int64_t>(r.Count(y, x), 1));
          r.ForPixels(n, y, x, [&](int64_t pixel) {
            T* to = out + pixel * r.channels;
            for (int64_t c = 0; c < r.channels; ++c)
              to[c] = Plus(to[c], static_cast<T>(static_cast<double>(from[c]) / count));
          });
        }
      }
    }
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
