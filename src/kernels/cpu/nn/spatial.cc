// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// LRN, Dilation2D, MaxPoolWithArgmax, and their gradients.

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/loop.h"
#include "kernels/cpu/nn/util.h"
#include "kernels/cpu/vector/response_norm.h"

namespace millrace {
namespace {

// Both directions, in float.
class ResponseNormKernel : public OpKernel {
 public:
  explicit ResponseNormKernel(KernelConstruction& c)
      : OpKernel(c),
        bias_(c.Attr<float>("bias")),
        alpha_(c.Attr<float>("alpha")),
        beta_(c.Attr<float>("beta")) {
    const auto radius = c.Attr<int64_t>("depth_radius");
    if (radius < 0 || radius > std::numeric_limits<int32_t>::max())
      c.SetError(errors::InvalidArgument("depth_radius = ", radius, " larger than int max"));
    radius_ = radius;
  }

 protected:
  // Gives fn(norm, pixels, result) an output of that shape, in float.
  template <typename Fn>
  Status WithResult(KernelContext& context, const TensorShape& shape, Fn fn) const {
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    if (out->num_elements() == 0) return Status();
    Tensor result = *out;
    if (out->dtype() != DataType::kFloat) {
      MR_ASSIGN_OR_RETURN(result, context.AllocateTemp(DataType::kFloat, shape));
    }
    const int64_t depth = shape.dim(3);
    fn(cpu::ResponseNorm{depth, radius_, bias_, alpha_, beta_}, shape.num_elements() / depth,
       result.data<float>());
    if (out->dtype() != DataType::kFloat) FromFloat(context, result, out);
    return Status();
  }

 private:
  const float bias_, alpha_, beta_;
  int64_t radius_ = 0;
};

class LrnKernel final : public ResponseNormKernel {
 public:
  using ResponseNormKernel::ResponseNormKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    if (in.rank() != 4) return errors::InvalidArgument("in must be 4-dimensional");
    MR_ASSIGN_OR_RETURN(const Tensor x, ToFloat(context, in));
    return WithResult(context, in.shape(), [&](const cpu::ResponseNorm& norm, int64_t pixels, float* y) {
      ContextParallel parallel(context);
      cpu::ResponseNormalize(norm, x.data<float>(), y, pixels, parallel);
    });
  }
};

class LrnGradKernel final : public ResponseNormKernel {
 public:
  using ResponseNormKernel::ResponseNormKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& grads = context.input(0);
    const Tensor& image = context.input(1);
    const Tensor& output = context.input(2);
    if (grads.rank() != 4 || image.rank() != 4)
      return errors::InvalidArgument("inputs must be 4-dimensional");
    if (image.shape() != grads.shape() || output.shape() != grads.shape()) {
      return errors::InvalidArgument(
          "input_grads, input_image, and out_image should have the same shape, got ", grads.shape(), ", ",
          image.shape(), " and ", output.shape());
    }
    MR_ASSIGN_OR_RETURN(const Tensor dy, ToFloat(context, grads));
    MR_ASSIGN_OR_RETURN(const Tensor x, ToFloat(context, image));
    MR_ASSIGN_OR_RETURN(const Tensor y, ToFloat(context, output));
    return WithResult(context, grads.shape(), [&](const cpu::ResponseNorm& norm, int64_t pixels, float* dx) {
      ContextParallel parallel(context);
      cpu::ResponseNormalizeGrad(norm, {dy.data<float>(), x.data<float>(), y.data<float>(), dx}, pixels,
                                 parallel);
    });
  }
};

// Windows over images in NHWC.
struct Windows {
  int64_t batch, in_h, in_w, depth;
  int64_t window_h, window_w, rate_h, rate_w, stride_h, stride_w;
  WindowedOutput rows, columns;
  TensorShape OutputShape() const { return TensorShape({batch, rows.size, columns.size, depth}); }
};
StatusOr<Windows> MakeWindows(const TensorShape& in, const SpatialAttr& window, const SpatialAttr& rate,
                              const SpatialAttr& stride, Padding padding) {
  Windows w{in.dim(0), in.dim(1), in.dim(2), in.dim(3), window.h, window.w,
            rate.h,    rate.w,    stride.h,  stride.w,  {},       {}};
  MR_ASSIGN_OR_RETURN(w.rows, GetWindowedOutput(w.in_h, window.h, rate.h, stride.h, padding));
  MR_ASSIGN_OR_RETURN(w.columns, GetWindowedOutput(w.in_w, window.w, rate.w, stride.w, padding));
  MR_RETURN_IF_ERROR(CheckImageSize("The output", w.batch, w.rows.size, w.columns.size, w.depth));
  return w;
}

// The cost of a row of the output.
int64_t RowCost(const Windows& w) {
  const double places =
      static_cast<double>(std::min(w.window_h, w.in_h)) * static_cast<double>(std::min(w.window_w, w.in_w));
  const double samples = static_cast<double>(w.columns.size) * static_cast<double>(w.depth);
  return static_cast<int64_t>(std::min(places * samples * 2, 1e9)) + 1;
}

template <typename T>
T Lowest() {
  if constexpr (std::is_same_v<T, half>) {
    return static_cast<T>(-65504.0f);
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    return static_cast<T>(-0x1.FEp127f);
  } else {
    return std::numeric_limits<T>::lowest();
  }
}

// Calls fn(offset of the output's pixel, image, top, left) for the pixels of the rows [begin, end).
template <typename Fn>
inline MR_INLINE_LAMBDA void ForWindows(const Windows& w, int64_t begin, int64_t end, Fn fn) {
  for (int64_t r = begin; r < end; ++r) {
    const int64_t image = r / w.rows.size, top = r % w.rows.size * w.stride_h - w.rows.pad_before;
    for (int64_t c = 0; c < w.columns.size; ++c)
      fn((r * w.columns.size + c) * w.depth, image, top, c * w.stride_w - w.columns.pad_before);
  }
}

// Calls fn(number of the place in the window, offset of the image's pixel) for the places in the image.
template <typename Fn>
void ForPlaces(const Windows& w, int64_t image, int64_t top, int64_t left, Fn fn) {
  // Windows may be much larger than the image.
  const auto first = [](int64_t start, int64_t rate) { return start < 0 ? (rate - 1 - start) / rate : 0; };
  for (int64_t i = first(top, w.rate_h); i < w.window_h; ++i) {
    const int64_t y = top + i * w.rate_h;
    if (y >= w.in_h) break;
    for (int64_t j = first(left, w.rate_w); j < w.window_w; ++j) {
      const int64_t x = left + j * w.rate_w;
      if (x >= w.in_w) break;
      fn(i * w.window_w + j, ((image * w.in_h + y) * w.in_w + x) * w.depth);
    }
  }
}

// The part of a window that is inside of the image: its places by number, and where their pixels are.
struct Inside {
  int64_t rows = 0, columns = 0;  // places
  int64_t place = 0;              // the number of the first
  int64_t pixel = 0;              // the offset of the first one's pixel
};
Inside InsideOf(const Windows& w, int64_t image, int64_t top, int64_t left) {
  const auto first = [](int64_t start, int64_t rate) { return start < 0 ? (rate - 1 - start) / rate : 0; };
  const auto count = [](int64_t start, int64_t begin, int64_t rate, int64_t window, int64_t size) {
    const int64_t at = start + begin * rate;
    return at >= size ? 0 : std::max<int64_t>(0, std::min(window - begin, (size - at + rate - 1) / rate));
  };
  const int64_t i = first(top, w.rate_h), j = first(left, w.rate_w);
  return {count(top, i, w.rate_h, w.window_h, w.in_h), count(left, j, w.rate_w, w.window_w, w.in_w),
          i * w.window_w + j,
          ((image * w.in_h + top + i * w.rate_h) * w.in_w + left + j * w.rate_w) * w.depth};
}

// Grey dilation: the largest sum of pixel and filter in each window.
class DilationKernel : public OpKernel {
 public:
  explicit DilationKernel(KernelConstruction& c)
      : OpKernel(c),
        strides_(ReadSpatialAttr(c, "strides", {})),
        rates_(ReadSpatialAttr(c, "rates", {})),
        padding_(ReadPadding(c)) {}

 protected:
  StatusOr<Windows> Check(const Tensor& in, const Tensor& filter) const {
    if (in.rank() != 4) return errors::InvalidArgument("input must be 4-dimensional", in.shape());
    if (filter.rank() != 3) return errors::InvalidArgument("filter must be 3-dimensional: ", filter.shape());
    if (in.dim(3) != filter.dim(2)) {
      return errors::InvalidArgument("input and filter must have the same depth: ", in.dim(3), " vs ",
                                     filter.dim(2));
    }
    if (filter.dim(0) <= 0 || filter.dim(1) <= 0)
      return errors::InvalidArgument("filter must not be empty: ", filter.shape());
    return MakeWindows(in.shape(), {filter.dim(0), filter.dim(1)}, rates_, strides_, padding_);
  }

  // Calls fn(lanes, channel) for blocks of `lanes` channels, which are a constant: arrays of so many become
  // registers.
  template <typename Fn>
  static void ForChannels(const Windows& w, Fn fn) {
    int64_t c = 0;
    for (; c + 16 <= w.depth; c += 16) fn(std::integral_constant<int, 16>(), c);
    for (; c + 4 <= w.depth; c += 4) fn(std::integral_constant<int, 4>(), c);
    for (; c < w.depth; ++c) fn(std::integral_constant<int, 1>(), c);
  }

  // Calls fn(offset of the pixel, offset in the filter) for the places of a window in the image.
  template <typename Fn>
  static void ForInside(const Windows& w, const Inside& inside, Fn fn) {
    for (int64_t i = 0; i < inside.rows; ++i) {
      int64_t x = inside.pixel + i * w.rate_h * w.in_w * w.depth;
      int64_t f = (inside.place + i * w.window_w) * w.depth;
      for (int64_t j = 0; j < inside.columns; ++j, x += w.rate_w * w.depth, f += w.depth) fn(x, f);
    }
  }

 private:
  const SpatialAttr strides_, rates_;
  const Padding padding_;
};

class DilationForwardKernel final : public DilationKernel {
 public:
  using DilationKernel::DilationKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const Tensor& filter = context.input(1);
    MR_ASSIGN_OR_RETURN(const Windows w, Check(in, filter));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, w.OutputShape()));
    if (out->num_elements() == 0) return Status();
    return VisitReal(in.dtype(), NoSuchType(context, in.dtype()), [&]<typename T>() {
      context.ParallelFor(w.batch * w.rows.size, RowCost(w), [&](int64_t begin, int64_t end) {
        Run(w, begin, end, in.data<T>(), filter.data<T>(), out->data<T>());
      });
      return Status();
    });
  }

 private:
  template <typename T>
  static void Run(const Windows& w, int64_t begin, int64_t end, const T* in, const T* filter, T* out) {
    RunLoop([=, &w]() MR_INLINE_LAMBDA {
      ForWindows(w, begin, end,
                 [=, &w](int64_t at, int64_t image, int64_t top, int64_t left) MR_INLINE_LAMBDA {
                   const Inside inside = InsideOf(w, image, top, left);
                   T* const largest = out + at;
                   if (inside.rows * inside.columns == 0) {
                     for (int64_t c = 0; c < w.depth; ++c) largest[c] = Lowest<T>();
                     return;
                   }
                   ForChannels(w, [&](auto lanes, int64_t c) {
                     Largest<lanes()>(w, inside, in + c, filter + c, largest + c);
                   });
                 });
    });
  }

  template <int kLanes, typename T>
  static void Largest(const Windows& w, const Inside& inside, const T* in, const T* filter, T* out) {
    T largest[kLanes];
    const T *const first = in + inside.pixel, *const factor = filter + inside.place * w.depth;
    ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA { largest[l] = Plus(first[l], factor[l]); });
    ForInside(w, inside, [&](int64_t x, int64_t f) {
      ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA {
        const T sum = Plus(in[x + l], filter[f + l]);
        largest[l] = LessThan(largest[l], sum) ? sum : largest[l];
      });
    });
    ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA { out[l] = largest[l]; });
  }
};

// The gradient goes to the pixel, or to the element of the filter, that made the largest sum.
template <bool kFilter>
class DilationBackpropKernel final : public DilationKernel {
 public:
  using DilationKernel::DilationKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const Tensor& filter = context.input(1);
    const Tensor& grads = context.input(2);
    MR_ASSIGN_OR_RETURN(const Windows w, Check(in, filter));
    if (grads.shape() != w.OutputShape()) {
      return errors::InvalidArgument("out_backprop has incompatible size: ", grads.shape(), ", expected ",
                                     w.OutputShape());
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, kFilter ? filter.shape() : in.shape()));
    if (out->num_elements() == 0) return Status();
    return VisitReal(in.dtype(), NoSuchType(context, in.dtype()), [&]<typename T>() {
      std::fill_n(out->data<T>(), out->num_elements(), T(0));
      constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
      if (in.num_elements() <= kMost && filter.num_elements() <= kMost) {
        Run<T, int32_t>(w, in.data<T>(), filter.data<T>(), grads.data<T>(), out->data<T>());
      } else {
        Run<T, int64_t>(w, in.data<T>(), filter.data<T>(), grads.data<T>(), out->data<T>());
      }
      return Status();
    });
  }

 private:
  template <typename T, typename Index>
  static void Run(const Windows& w, const T* in, const T* filter, const T* grads, T* sums) {
    RunLoop([=, &w]() MR_INLINE_LAMBDA {
      ForWindows(w, 0, w.batch * w.rows.size,
                 [=, &w](int64_t at, int64_t image, int64_t top, int64_t left) MR_INLINE_LAMBDA {
                   const Inside inside = InsideOf(w, image, top, left);
                   if (inside.rows * inside.columns == 0) return;
                   ForChannels(w, [&](auto lanes, int64_t c) {
                     Give<lanes(), Index>(w, inside, in + c, filter + c, grads + at + c, sums + c);
                   });
                 });
    });
  }

  // Adds the gradients of kLanes channels where their first largest sums are.
  template <int kLanes, typename Index, typename T>
  static void Give(const Windows& w, const Inside& inside, const T* in, const T* filter, const T* grads,
                   T* sums) {
    T largest[kLanes];
    Index best[kLanes];
    const T *const first = in + inside.pixel, *const factor = filter + inside.place * w.depth;
    ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA {
      largest[l] = Plus(first[l], factor[l]);
      best[l] = static_cast<Index>(kFilter ? inside.place * w.depth : inside.pixel);
    });
    ForInside(w, inside, [&](int64_t x, int64_t f) {
      const auto here = static_cast<Index>(kFilter ? f : x);
      ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA {
        const T sum = Plus(in[x + l], filter[f + l]);
        const bool more = LessThan(largest[l], sum);
        largest[l] = more ? sum : largest[l];
        best[l] = more ? here : best[l];
      });
    });
    if constexpr (kLanes == 1) {
      sums[best[0]] = Plus(sums[best[0]], grads[0]);
    } else {
      // To every place of the window, most of them zeros: single numbers would wait for the ones before.
      ForInside(w, inside, [&](int64_t x, int64_t f) {
        const int64_t here = kFilter ? f : x;
        T now[kLanes];
        ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA {
          now[l] = Plus(sums[here + l], best[l] == static_cast<Index>(here) ? grads[l] : T(0.0f));
        });
        ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA { sums[here + l] = now[l]; });
      });
    }
  }
};

class ArgmaxKernel : public OpKernel {
 public:
  explicit ArgmaxKernel(KernelConstruction& c)
      : OpKernel(c),
        window_(ReadSpatialAttr(c, "ksize", {})),
        strides_(ReadSpatialAttr(c, "strides", {})),
        padding_(ReadPadding(c)),
        batch_in_index_(c.Attr<bool>("include_batch_in_index")) {}

 protected:
  StatusOr<Windows> Check(const Tensor& in) const {
    if (in.rank() != 4) return NotAnImage(in.rank(), /*nchw=*/false);
    return MakeWindows(in.shape(), window_, {}, strides_, padding_);
  }

  // The summand that turns an index into the offset in the whole batch.
  int64_t ImageOffset(const Windows& w, int64_t image) const {
    return batch_in_index_ ? 0 : image * w.in_h * w.in_w * w.depth;
  }

  // The offsets that `argmax`, of the shape of the output, points at.
  template <typename Fn>
  Status ForMaxima(const Windows& w, const Tensor& in, const Tensor& argmax, Fn fn) const {
    const int64_t image_size = w.rows.size * w.columns.size * w.depth;
    for (int64_t i = 0; i < argmax.num_elements(); ++i) {
      int64_t offset;
      if (__builtin_add_overflow(IntValue(argmax, i), ImageOffset(w, i / image_size), &offset) ||
          offset < 0 || offset >= in.num_elements()) {
        return errors::InvalidArgument("Invalid argmax index ", IntValue(argmax, i),
                                       " for an input of shape ", in.shape());
      }
      fn(i, offset);
    }
    return Status();
  }

 private:
  const SpatialAttr window_, strides_;
  const Padding padding_;
  const bool batch_in_index_;
};

class MaxPoolWithArgmaxKernel final : public ArgmaxKernel {
 public:
  using ArgmaxKernel::ArgmaxKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(const Windows w, Check(in));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, w.OutputShape()));
    MR_ASSIGN_OR_RETURN(Tensor * argmax, context.AllocateOutput(1, w.OutputShape()));
    if (out->num_elements() == 0) return Status();
    return VisitReal(in.dtype(), NoSuchType(context, in.dtype()), [&]<typename T>() {
      // Places that are as wide as floats are chosen by the same vectors.
      if (in.num_elements() <= std::numeric_limits<int32_t>::max()) {
        Run<T, int32_t>(context, w, in.data<T>(), out->data<T>(), argmax);
      } else {
        Run<T, int64_t>(context, w, in.data<T>(), out->data<T>(), argmax);
      }
      return Status();
    });
  }

 private:
  template <typename T, typename Index>
  void Run(KernelContext& context, const Windows& w, const T* in, T* out, Tensor* argmax) const {
    context.ParallelFor(w.batch * w.rows.size, RowCost(w), [&](int64_t begin, int64_t end) {
      std::vector<Index> first_largest(static_cast<size_t>(w.depth));  // per channel
      Index* const best = first_largest.data();
      ForWindows(w, begin, end, [&](int64_t at, int64_t image, int64_t top, int64_t left) {
        T* const values = out + at;
        std::fill_n(values, w.depth, Lowest<T>());
        std::fill_n(best, w.depth, Index{-1});
        ForPlaces(w, image, top, left, [&](int64_t, int64_t offset) {
          const T* const x = in + offset;
          for (int64_t c = 0; c < w.depth; ++c) {
            const bool take = (best[c] < 0) | LessThan(values[c], x[c]);
            values[c] = take ? x[c] : values[c];
            best[c] = take ? static_cast<Index>(offset + c) : best[c];
          }
        });
        for (int64_t c = 0; c < w.depth; ++c)
          SetIndex(argmax, at + c, std::max<int64_t>(best[c] - ImageOffset(w, image), 0));
      });
    });
  }

  static void SetIndex(Tensor* t, int64_t i, int64_t value) {
    if (t->dtype() == DataType::kInt32) {
      t->data<int32_t>()[i] = static_cast<int32_t>(value);
    } else {
      t->data<int64_t>()[i] = value;
    }
  }
};

class ArgmaxGradKernel final : public ArgmaxKernel {
 public:
  using ArgmaxKernel::ArgmaxKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const Tensor& grads = context.input(1);
    const Tensor& argmax = context.input(2);
    MR_ASSIGN_OR_RETURN(const Windows w, Check(in));
    if (grads.shape() != w.OutputShape())
      return errors::InvalidArgument("Expected grad shape to be ", w.OutputShape(), ", but got ",
                                     grads.shape());
    if (argmax.shape() != w.OutputShape()) {
      return errors::InvalidArgument("Expected argmax shape to be ", w.OutputShape(), ", but got ",
                                     argmax.shape());
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, in.shape()));
    return VisitReal(in.dtype(), NoSuchType(context, in.dtype()), [&]<typename T>() {
      T* sums = out->data<T>();
      std::fill_n(sums, out->num_elements(), T(0));
      return ForMaxima(w, in, argmax, [&](int64_t i, int64_t offset) {
        sums[offset] = Plus(sums[offset], grads.data<T>()[i]);
      });
    });
  }
};

class ArgmaxGradGradKernel final : public ArgmaxKernel {
 public:
  using ArgmaxKernel::ArgmaxKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const Tensor& grads = context.input(1);
    const Tensor& argmax = context.input(2);
    MR_ASSIGN_OR_RETURN(const Windows w, Check(in));
    if (grads.shape() != in.shape())
      return errors::InvalidArgument("Expected grad shape to be ", in.shape(), ", but got ", grads.shape());
    if (argmax.shape() != w.OutputShape()) {
      return errors::InvalidArgument("Expected argmax shape to be ", w.OutputShape(), ", but got ",
                                     argmax.shape());
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, w.OutputShape()));
    return VisitReal(in.dtype(), NoSuchType(context, in.dtype()), [&]<typename T>() {
      return ForMaxima(w, in, argmax,
                       [&](int64_t i, int64_t offset) { out->data<T>()[i] = grads.data<T>()[offset]; });
    });
  }
};

}  // namespace

void RegisterNnSpatialKernels(KernelRegistry& registry) {
  registry.Register<LrnKernel>(KernelDef("LRN"));
  registry.Register<LrnGradKernel>(KernelDef("LRNGrad"));
  registry.Register<DilationForwardKernel>(KernelDef("Dilation2D"));
  registry.Register<DilationBackpropKernel<false>>(KernelDef("Dilation2DBackpropInput"));
  registry.Register<DilationBackpropKernel<true>>(KernelDef("Dilation2DBackpropFilter"));
  registry.Register<MaxPoolWithArgmaxKernel>(KernelDef("MaxPoolWithArgmax"));
  registry.Register<ArgmaxGradKernel>(KernelDef("MaxPoolGradWithArgmax"));
  registry.Register<ArgmaxGradGradKernel>(KernelDef("MaxPoolGradGradWithArgmax"));
}

}  // namespace millrace
