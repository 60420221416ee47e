// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// LRN, Dilation2D, MaxPoolWithArgmax, and their gradients.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/cpu/loop.h"
#include "kernels/cpu/nn/util.h"
#include "kernels/cpu/vector/response_norm.h"
#include "kernels/cpu/vectors.h"

namespace millrace {
namespace {

// Forward and backward, in float.
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
  // Calls fn(norm, pixels, result) with an output of that shape, in float.
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

// The part of a window inside the image: its positions by number, and the offsets of their pixels.
struct Inside {
  int64_t rows = 0, columns = 0;  // numbers of positions
  int64_t place = 0;              // the number of the first
  int64_t pixel = 0;              // the offset of the pixel of the first position
};

// The same along one side, for each window: the number of positions, the first, and the pixel under it.
struct Reach {
  int64_t places, first, pixel;
};
std::vector<Reach> ReachOf(const WindowedOutput& out, int64_t window, int64_t rate, int64_t stride,
                           int64_t size) {
  std::vector<Reach> reaches;
  for (int64_t i = 0; i < out.size; ++i) {
    // Windows may be much larger than the image.
    const int64_t start = i * stride - out.pad_before, first = start < 0 ? (rate - 1 - start) / rate : 0;
    const int64_t at = start + first * rate;
    const int64_t places = at >= size ? 0 : std::min(window - first, (size - at + rate - 1) / rate);
    reaches.push_back({std::max<int64_t>(places, 0), first, at});
  }
  return reaches;
}

class Reaches {
 public:
  explicit Reaches(const Windows& w)
      : w_(w),
        rows_(ReachOf(w.rows, w.window_h, w.rate_h, w.stride_h, w.in_h)),
        columns_(ReachOf(w.columns, w.window_w, w.rate_w, w.stride_w, w.in_w)) {}
  // Calls fn(offset of the output's pixel, inside) for the pixels of row r of the outputs of all images.
  template <typename Fn>
  inline MR_INLINE_LAMBDA void ForRow(int64_t r, const Fn& fn) const {
    const int64_t image = r / w_.rows.size;
    const Reach y = rows_.data()[r % w_.rows.size];
    const Reach* const xs = columns_.data();
    const int64_t above = (image * w_.in_h + y.pixel) * w_.in_w;
    for (int64_t i = 0; i < w_.columns.size; ++i) {
      const Reach x = xs[i];
      fn((r * w_.columns.size + i) * w_.depth,
         Inside{y.places, x.places, y.first * w_.window_w + x.first, (above + x.pixel) * w_.depth});
    }
  }

 private:
  const Windows w_;
  const std::vector<Reach> rows_, columns_;
};

// Calls fn(offset of the pixel, offset in the filter) for the positions of a window inside the image.
template <typename Fn>
inline MR_INLINE_LAMBDA void ForInside(const Windows& w, const Inside& inside, const Fn& fn) {
  const int64_t down = w.rate_h * w.in_w * w.depth, right = w.rate_w * w.depth;
  for (int64_t i = 0; i < inside.rows; ++i) {
    int64_t x = inside.pixel + i * down;
    int64_t f = (inside.place + i * w.window_w) * w.depth;
    for (int64_t j = 0; j < inside.columns; ++j, x += right, f += w.depth) fn(x, f);
  }
}

// The same with code for rows of three positions, which are common.
template <typename Fn>
inline MR_INLINE_LAMBDA void ForInsideByThree(const Windows& w, const Inside& inside, const Fn& fn) {
  if (inside.columns != 3) return ForInside(w, inside, fn);
  const int64_t down = w.rate_h * w.in_w * w.depth, right = w.rate_w * w.depth;
  int64_t x = inside.pixel, f = inside.place * w.depth;
  for (int64_t i = 0; i < inside.rows; ++i, x += down, f += w.window_w * w.depth) {
    fn(x, f);
    fn(x + right, f + w.depth);
    fn(x + 2 * right, f + 2 * w.depth);
  }
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
    const Reaches reaches(w);
    RunChannels<T>([=, &w, &reaches](auto bytes) MR_INLINE_LAMBDA {
      for (int64_t r = begin; r < end; ++r) {
        reaches.ForRow(r, [&](int64_t at, const Inside& inside) MR_INLINE_LAMBDA {
          ForChannels<T, decltype(bytes)::value>(0, w.depth, [&](auto lanes, int64_t c) MR_INLINE_LAMBDA {
            Largest<lanes()>(w, inside, in + c, filter + c, out + at + c);
          });
        });
      }
    });
  }

  template <int kLanes, typename T>
  static void Largest(const Windows& w, const Inside& inside, const T* in, const T* filter, T* out) {
    if constexpr (kLanes == 1) {
      T largest = Lowest<T>();
      ForInside(w, inside, [&](int64_t x, int64_t f) MR_INLINE_LAMBDA {
        const T sum = Plus(in[x], filter[f]);
        largest = LessThan(largest, sum) ? sum : largest;
      });
      *out = largest;
    } else {
      using Values = typename LanesOf<T, kLanes>::Values;
      Values largest = Values{} + Lowest<T>();
      const auto sum_at = [&](int64_t x, int64_t f, Values* sum) MR_INLINE_LAMBDA {
        Values pixel, weight;
        std::memcpy(&pixel, in + x, sizeof(pixel));
        std::memcpy(&weight, filter + f, sizeof(weight));
        *sum = pixel + weight;
      };
      ForInsideByThree(w, inside, [&](int64_t x, int64_t f) MR_INLINE_LAMBDA {
        Values sum;
        sum_at(x, f, &sum);
        largest = largest < sum ? sum : largest;
      });
      std::memcpy(out, &largest, sizeof(largest));
    }
  }
};

// The gradient goes to the pixel, or to the element of the filter, with the largest sum.
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
      Run<T>(context, w, in.data<T>(), filter.data<T>(), grads.data<T>(), out->data<T>());
      return Status();
    });
  }

 private:
  // Threads add to different channels, or to different images.
  template <typename T>
  static void Run(const KernelContext& context, const Windows& w, const T* in, const T* filter,
                  const T* grads, T* sums) {
    constexpr int64_t kChannels = 16;
    const Reaches reaches(w);
    const int64_t blocks = (w.depth + kChannels - 1) / kChannels, parts = kFilter ? 1 : w.batch;
    const int64_t rows = w.batch * w.rows.size / parts;
    const double cost = static_cast<double>(RowCost(w)) * static_cast<double>(rows);
    context.ParallelFor(
        parts * blocks, static_cast<int64_t>(std::min(cost / static_cast<double>(blocks), 1e12)) + 1,
        [&](int64_t begin, int64_t end) {
          RunChannels<T>([=, &w, &reaches](auto bytes) MR_INLINE_LAMBDA {
            for (int64_t unit = begin; unit < end; ++unit) {
              const int64_t first = unit % blocks * kChannels, last = std::min(first + kChannels, w.depth);
              for (int64_t r = unit / blocks * rows; r < (unit / blocks + 1) * rows; ++r) {
                reaches.ForRow(r, [&](int64_t at, const Inside& inside) MR_INLINE_LAMBDA {
                  if (inside.rows * inside.columns == 0) return;
                  ForChannels<T, decltype(bytes)::value>(
                      first, last, [&](auto lanes, int64_t c) MR_INLINE_LAMBDA {
                        Give<lanes()>(w, inside, in + c, filter + c, grads + at + c, sums + c);
                      });
                });
              }
            }
          });
        });
  }

  // Adds the gradients of kLanes channels at the positions of their first largest sums.
  template <int kLanes, typename T>
  static void Give(const Windows& w, const Inside& inside, const T* in, const T* filter, const T* grads,
                   T* sums) {
    if constexpr (kLanes == 1) {
      int64_t best = kFilter ? inside.place * w.depth : inside.pixel;
      T largest = Lowest<T>();
      ForInside(w, inside, [&](int64_t x, int64_t f) MR_INLINE_LAMBDA {
        const T sum = Plus(in[x], filter[f]);
        const bool more = LessThan(largest, sum);
        largest = more ? sum : largest;
        best = more ? (kFilter ? f : x) : best;
      });
      sums[best] = Plus(sums[best], grads[0]);
    } else {
      using Values = typename LanesOf<T, kLanes>::Values;
      using Places = typename LanesOf<T, kLanes>::Places;
      Values largest = Values{} + Lowest<T>(), grad;
      Places best{}, number{};  // of the positions inside, in order
      const auto sum_at = [&](int64_t x, int64_t f, Values* sum) MR_INLINE_LAMBDA {
        Values pixel, weight;
        std::memcpy(&pixel, in + x, sizeof(pixel));
        std::memcpy(&weight, filter + f, sizeof(weight));
        *sum = pixel + weight;
      };
      std::memcpy(&grad, grads, sizeof(grad));
      ForInsideByThree(w, inside, [&](int64_t x, int64_t f) MR_INLINE_LAMBDA {
        Values sum;
        sum_at(x, f, &sum);
        const Places more = largest < sum;
        largest = more ? sum : largest;
        best = more ? number : best;
        number += 1;
      });
      // Adds to every position, mostly zeros: scattered additions would wait for the previous ones.
      number = Places{};
      ForInsideByThree(w, inside, [&](int64_t x, int64_t f) MR_INLINE_LAMBDA {
        T* const to = sums + (kFilter ? f : x);
        Values sum;
        std::memcpy(&sum, to, sizeof(sum));
        sum += best == number ? grad : Values{};
        std::memcpy(to, &sum, sizeof(sum));
        number += 1;
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

  // The offset to be added to an index to get the offset in the whole batch.
  int64_t ImageOffset(const Windows& w, int64_t image) const {
    return batch_in_index_ ? 0 : image * w.in_h * w.in_w * w.depth;
  }

  // Calls fn(i, offset) for the offsets in `argmax`, which has the shape of the output.
  template <typename Fn>
  Status ForMaxima(const Windows& w, const Tensor& in, const Tensor& argmax, Fn fn) const {
    if (argmax.dtype() == DataType::kInt32) return ForMaximaOf(w, in, argmax, argmax.data<int32_t>(), fn);
    return ForMaximaOf(w, in, argmax, argmax.data<int64_t>(), fn);
  }

 private:
  template <typename Index, typename Fn>
  Status ForMaximaOf(const Windows& w, const Tensor& in, const Tensor& argmax, const Index* indices,
                     Fn fn) const {
    const int64_t image_size = w.rows.size * w.columns.size * w.depth;
    const auto size = static_cast<uint64_t>(in.num_elements());
    int64_t i = 0;
    for (int64_t image = 0; image < w.batch; ++image) {
      const auto first = static_cast<uint64_t>(ImageOffset(w, image));
      for (int64_t k = 0; k < image_size; ++k, ++i) {
        const uint64_t offset = static_cast<uint64_t>(int64_t{indices[i]}) + first;  // large if negative
        if (offset >= size) {
          return errors::InvalidArgument("Invalid argmax index ", IntValue(argmax, i),
                                         " for an input of shape ", in.shape());
        }
        fn(i, static_cast<int64_t>(offset));
      }
    }
    return Status();
  }

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
      // Positions as wide as floats are selected by the same vector instructions.
      const bool narrow = in.num_elements() <= std::numeric_limits<int32_t>::max();
      const Reaches reaches(w);
      context.ParallelFor(w.batch * w.rows.size, RowCost(w), [&](int64_t begin, int64_t end) {
        if (sizeof(T) == 4 && narrow) {
          Run<T, int32_t>(w, reaches, begin, end, in.data<T>(), out->data<T>(), argmax);
        } else {
          Run<T, int64_t>(w, reaches, begin, end, in.data<T>(), out->data<T>(), argmax);
        }
      });
      return Status();
    });
  }

 private:
  template <typename T, typename Place>
  void Run(const Windows& w, const Reaches& reaches, int64_t begin, int64_t end, const T* in, T* out,
           Tensor* argmax) const {
    const int64_t size = w.columns.size * w.depth;
    std::vector<Place> found(static_cast<size_t>(size));  // in a row; -1: none
    for (int64_t r = begin; r < end; ++r) {
      RunChannels<T>([=, &w, &reaches, places = found.data()](auto bytes) MR_INLINE_LAMBDA {
        reaches.ForRow(r, [&](int64_t at, const Inside& inside) MR_INLINE_LAMBDA {
          ForChannels<T, decltype(bytes)::value>(0, w.depth, [&](auto lanes, int64_t c) MR_INLINE_LAMBDA {
            constexpr bool kSame = sizeof(T) == sizeof(Place);  // else vectors do not select both
            if constexpr (kSame || lanes() == 1) {
              Find<lanes()>(w, inside, c, in, out + at + c, places + at - r * size + c);
            } else {
              for (int l = 0; l < lanes(); ++l)
                Find<1>(w, inside, c + l, in, out + at + c + l, places + at - r * size + c + l);
            }
          });
        });
      });
      const int64_t before = ImageOffset(w, r / w.rows.size);
      const auto index = [before](Place place) MR_INLINE_LAMBDA {
        const int64_t offset = place - before;
        return offset > 0 ? offset : 0;
      };
      if (argmax->dtype() == DataType::kInt32) {
        MapLoop(found.data(), argmax->data<int32_t>() + r * size, size,
                [index](Place place) MR_INLINE_LAMBDA { return static_cast<int32_t>(index(place)); });
      } else {
        MapLoop(found.data(), argmax->data<int64_t>() + r * size, size, index);
      }
    }
  }

  // The first largest pixel of kLanes channels and its offset. NaN is only the largest if it is the first.
  template <int kLanes, typename T, typename Place>
  static void Find(const Windows& w, const Inside& inside, int64_t c, const T* in, T* value, Place* place) {
    const bool any = inside.rows * inside.columns > 0;
    if constexpr (kLanes == 1) {
      T largest = any ? in[inside.pixel + c] : Lowest<T>();
      int64_t best = any ? inside.pixel + c : -1;
      ForInside(w, inside, [&](int64_t x, int64_t) MR_INLINE_LAMBDA {
        const bool more = LessThan(largest, in[x + c]);
        largest = more ? in[x + c] : largest;
        best = more ? x + c : best;
      });
      *value = largest;
      *place = static_cast<Place>(best);
    } else {
      using Values = typename LanesOf<T, kLanes>::Values;
      using Places = typename LanesOf<T, kLanes>::Places;
      Values largest = Values{} + Lowest<T>();
      Places best = Places{} - 1;
      if (any) {
        std::memcpy(&largest, in + inside.pixel + c, sizeof(largest));
        Place channels[kLanes];
        for (int l = 0; l < kLanes; ++l) channels[l] = static_cast<Place>(l);
        std::memcpy(&best, channels, sizeof(best));
        best += static_cast<Place>(inside.pixel + c);
        const Places first = best;
        ForInside(w, inside, [&](int64_t x, int64_t) MR_INLINE_LAMBDA {
          Values pixel;
          std::memcpy(&pixel, in + x + c, sizeof(pixel));
          const Places here = first + static_cast<Place>(x - inside.pixel), more = largest < pixel;
          largest = more ? pixel : largest;
          best = more ? here : best;
        });
      }
      std::memcpy(value, &largest, sizeof(largest));
      std::memcpy(place, &best, sizeof(best));
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
      T* const sums = out->data<T>();
      const T* const from = grads.data<T>();
      std::fill_n(sums, out->num_elements(), T(0));
      return ForMaxima(w, in, argmax,
                       [=](int64_t i, int64_t offset) { sums[offset] = Plus(sums[offset], from[i]); });
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
    const auto move = [&]<typename T>(T) {  // elements of this size
      const T* const from = static_cast<const T*>(grads.raw_data());
      T* const to = static_cast<T*>(out->raw_data());
      return ForMaxima(w, in, argmax, [=](int64_t i, int64_t offset) { to[i] = from[offset]; });
    };
    switch (ElementSize(in.dtype())) {
      case 1:
        return move(uint8_t());
      case 2:
        return move(uint16_t());
      case 4:
        return move(uint32_t());
      default:
        return move(uint64_t());
    }
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
