// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Pooling of volumes and its gradients. Only the part of a window inside the volume counts.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/cpu/loop.h"
#include "kernels/cpu/nn/util.h"
#include "kernels/cpu/nn/volume.h"
#include "kernels/cpu/vector/cast.h"
#include "kernels/cpu/vectors.h"

namespace millrace {
namespace {

// The types for which kernels are instantiated; other types are converted to one that has all their values.
// The maxima of a narrow type are those of the wider type.
DataType WorkType(DataType t) {
  switch (t) {
    case DataType::kInt32:
    case DataType::kUint32:
      return DataType::kDouble;
    case DataType::kDouble:
    case DataType::kInt64:
    case DataType::kUint64:
      return t;
    default:
      return DataType::kFloat;
  }
}
StatusOr<Tensor> ToWork(KernelContext& context, const Tensor& t) {
  const DataType type = WorkType(t.dtype());
  if (type == t.dtype()) return t;
  MR_ASSIGN_OR_RETURN(Tensor work, context.AllocateTemp(type, t.shape()));
  ContextParallel parallel(context);
  cpu::RunUnary(cpu::FindCast(t.dtype(), type), t.raw_data(), static_cast<int64_t>(ElementSize(t.dtype())),
                work.raw_data(), static_cast<int64_t>(ElementSize(type)), t.num_elements(), 0.5, parallel);
  return work;
}

// Calls fn with float or double.
template <typename Fn>
Status VisitFloats(DataType t, Fn&& fn) {
  return t == DataType::kDouble ? fn.template operator()<double>() : fn.template operator()<float>();
}

class VolumePoolKernel : public OpKernel {
 public:
  explicit VolumePoolKernel(KernelConstruction& c)
      : OpKernel(c),
        channels_first_(ReadChannelsFirst(c)),
        window_(ReadSides(c, "ksize", channels_first_)),
        strides_(ReadSides(c, "strides", channels_first_)),
        padding_(ReadVolumePadding(c)) {}

 protected:
  StatusOr<VolumeWindows> Windows(const TensorShape& volume) const {
    if (volume.rank() != 5) return errors::InvalidArgument("tensor_in must be 5-dimensional");
    return MakeVolumeWindows(volume, channels_first_, window_, strides_, {1, 1, 1}, padding_,
                             volume.dim(channels_first_ ? 1 : 4));
  }
  Status CheckShape(const char* what, const TensorShape& got, const TensorShape& ndhwc) const {
    const TensorShape want = InLayout(ndhwc, channels_first_);
    if (got == want) return Status();
    return errors::InvalidArgument("Expected ", what, " shape to be ", want, ", but got ", got);
  }

  // Runs fn on the output as NDHWC; with another `type`, it is converted to the output's afterwards.
  template <typename Fn>
  Status Produce(KernelContext& context, const TensorShape& shape, DataType type, Fn fn) const {
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, InLayout(shape, channels_first_)));
    if (out->num_elements() == 0) return Status();
    Tensor last = *out;
    if (channels_first_) {
      MR_ASSIGN_OR_RETURN(last, context.AllocateTemp(out->dtype(), shape));
    }
    if (type == last.dtype()) {
      MR_RETURN_IF_ERROR(fn(&last));
    } else {
      MR_ASSIGN_OR_RETURN(Tensor work, context.AllocateTemp(type, shape));
      MR_RETURN_IF_ERROR(fn(&work));
      FromFloat(context, work, &last);
    }
    if (channels_first_) FromChannelsLast(context, last, out);
    return Status();
  }
  // An input as NDHWC of its work type.
  StatusOr<Tensor> Input(KernelContext& context, int i) const {
    MR_ASSIGN_OR_RETURN(const Tensor last, ToChannelsLast(context, context.input(i), channels_first_));
    return ToWork(context, last);
  }

  const bool channels_first_;

 private:
  const Sides window_, strides_;
  const Padding padding_;
};

// The cost of a row of pixels of the output.
int64_t RowCost(const VolumeWindows& w) {
  double places = static_cast<double>(w.out[2]) * static_cast<double>(w.channels);
  for (size_t i = 0; i < 3; ++i) places *= static_cast<double>(std::min(w.window[i], w.in[i]));
  return static_cast<int64_t>(std::min(places, 1e9)) + 1;
}

// Along a side, for each output: the first input index in its window, and their number. Or, for each input
// index: the first output that contains it, and their number.
struct Reach {
  int64_t first, count;
};
using Reaches = std::array<std::vector<Reach>, 3>;

Reaches CoveredBy(const VolumeWindows& w) {
  Reaches reaches;
  for (int side = 0; side < 3; ++side) {
    for (int64_t o = 0; o < w.out[static_cast<size_t>(side)]; ++o) {
      const int64_t first = w.First(side, o);
      reaches[static_cast<size_t>(side)].push_back({first, std::max<int64_t>(w.End(side, o) - first, 0)});
    }
  }
  return reaches;
}
Reaches Covering(const VolumeWindows& w) {
  Reaches reaches;
  for (size_t side = 0; side < 3; ++side) {
    const int64_t window = w.window[side], stride = w.stride[side];
    for (int64_t place = 0; place < w.in[side]; ++place) {
      const int64_t padded = place + w.pad[side];
      const int64_t first = padded < window ? 0 : (padded - window) / stride + 1;
      const int64_t end = std::min(padded / stride + 1, w.out[side]);
      reaches[side].push_back({first, std::max<int64_t>(end - first, 0)});
    }
  }
  return reaches;
}

// Whether no pixel is in two windows.
bool AreApart(const VolumeWindows& w) {
  bool apart = true;
  for (size_t side = 0; side < 3; ++side)
    apart = apart && (w.window[side] <= w.stride[side] || w.out[side] <= 1);
  return apart;
}
// Sets the values of n pixels to 0.
template <typename T>
void ClearPixels(const KernelContext& context, int64_t n, int64_t channels, T* to) {
  context.ParallelFor(n, channels / 8 + 1, [=](int64_t begin, int64_t end) {
    std::fill_n(to + begin * channels, (end - begin) * channels, T(0));
  });
}

// The pixels in the reach of one pixel: rows of `count` pixels from `rows[i] + first` on.
struct Reached {
  int64_t number;  // of the pixel itself
  const int64_t* rows;
  int64_t row_count, first, count;
};

// Calls fn(lanes, reached, first channel) for all pixels of volumes of sides `sides` and blocks of channels,
// whose number of lanes is a constant. `reaches` are indices in volumes of sides `others`. Rows run in
// parallel, unless the step is cancelled: each may take as long as windows are large.
template <typename T, typename Fn>
Status ForPixels(const KernelContext& context, const VolumeWindows& w, const Sides& sides,
                 const Sides& others, const Reaches& reaches, int64_t cost, Fn fn) {
  const CancellationManager& step = context.cancellation();
  const bool slow = cost / std::max<int64_t>(sides[2], 1) > 1 << 16;  // so that pixels check, too
  const auto most = [&](size_t side) {
    int64_t count = 0;
    for (const Reach& reach : reaches[side]) count = std::max(count, reach.count);
    return count;
  };
  const auto room = static_cast<size_t>(most(0) * most(1));
  context.ParallelFor(w.batch * sides[0] * sides[1], cost, [&](int64_t begin, int64_t end) {
    std::vector<int64_t> memory(room);
    RunChannels<T>([=, &step, zs = reaches[0].data(), ys = reaches[1].data(), xs = reaches[2].data(),
                    channels = w.channels, rows = memory.data()](auto bytes) MR_INLINE_LAMBDA {
      int64_t y = begin % sides[1], z = begin / sides[1] % sides[0], n = begin / sides[1] / sides[0];
      for (int64_t r = begin; r < end && !step.IsCancelled(); ++r) {
        int64_t count = 0;
        for (int64_t d = zs[z].first; d < zs[z].first + zs[z].count; ++d) {
          const int64_t first = ((n * others[0] + d) * others[1] + ys[y].first) * others[2];
          for (int64_t h = 0; h < ys[y].count; ++h) rows[count++] = first + h * others[2];
        }
        for (int64_t x = 0; x < sides[2]; ++x) {
          if (slow && step.IsCancelled()) return;
          const Reached reached{r * sides[2] + x, rows, count, xs[x].first, xs[x].count};
          ForChannels<T, decltype(bytes)::value>(
              0, channels, [&](auto lanes, int64_t c) MR_INLINE_LAMBDA { fn(lanes, reached, c); });
        }
        if (++y < sides[1]) continue;
        y = 0;
        if (++z < sides[0]) continue;
        z = 0;
        ++n;
      }
    });
  });
  return step.IsCancelled() ? errors::Cancelled("The step was cancelled while volumes were pooled")
                            : Status();
}

// Calls fn(index of the pixel) for the pixels in `reached`. One and two pixels in a row, which are common,
// have separate loops.
template <typename Fn>
inline MR_INLINE_LAMBDA void ForReached(const Reached& reached, const Fn& fn) {
  const int64_t *const rows = reached.rows, row_count = reached.row_count, left = reached.first;
  if (reached.count == 1) {
    for (int64_t i = 0; i < row_count; ++i) fn(rows[i] + left);
  } else if (reached.count == 2) {
    for (int64_t i = 0; i < row_count; ++i) {
      fn(rows[i] + left);
      fn(rows[i] + left + 1);
    }
  } else {
    for (int64_t i = 0; i < row_count; ++i) {
      const int64_t first = rows[i] + left;
      for (int64_t k = first; k < first + reached.count; ++k) fn(k);
    }
  }
}

// kLanes channels of a pixel; a single lane is a number.
template <typename T, int kLanes>
using Channels = typename std::conditional_t<kLanes == 1, std::type_identity<T>,
                                             std::type_identity<typename LanesOf<T, kLanes>::Values>>::type;
// The positions for channels, as wide as these.
template <typename T, int kLanes>
using Places =
    typename std::conditional_t<kLanes == 1,
                                std::type_identity<std::conditional_t<sizeof(T) == 4, int32_t, int64_t>>,
                                std::type_identity<typename LanesOf<T, kLanes>::Places>>::type;
template <typename V, typename T>
inline MR_INLINE_LAMBDA void Read(const T* from, V* to) {
  std::memcpy(to, from, sizeof(V));
}
template <typename V, typename T>
inline MR_INLINE_LAMBDA void Write(const V& from, T* to) {
  std::memcpy(to, &from, sizeof(V));
}

class MaxPool3DKernel final : public VolumePoolKernel {
 public:
  using VolumePoolKernel::VolumePoolKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const VolumeWindows w, Windows(context.input(0).shape()));
    MR_ASSIGN_OR_RETURN(const Tensor in, Input(context, 0));
    return Produce(context, w.OutShape(), in.dtype(), [&](Tensor* out) {
      return VisitFloats(in.dtype(), [&]<typename T>() {
        return ForPixels<T>(context, w, w.out, w.in, CoveredBy(w), RowCost(w),
                            [from = in.data<T>(), to = out->data<T>(), channels = w.channels](
                                auto lanes, const Reached& reached, int64_t c) MR_INLINE_LAMBDA {
                              using V = Channels<T, decltype(lanes)::value>;
                              // NaN is larger than any number. It is found independently of the maximum,
                              // which shortens the chain of operations.
                              V largest = V{} + std::numeric_limits<T>::lowest(), nan{};
                              ForReached(reached, [&](int64_t pixel) MR_INLINE_LAMBDA {
                                V x;
                                Read(from + pixel * channels + c, &x);
                                largest = x > largest ? x : largest;
                                nan = x != x ? x : nan;
                              });
                              largest = nan != nan ? nan : largest;
                              Write(largest, to + reached.number * channels + c);
                            });
      });
    });
  }
};

// The pixels of the input with the first maximum of each window, per channel; -1 if there is none. NaN is
// larger than any number. Place: as wide as the elements of the input, or wider.
template <typename T, typename Place>
Status FindMaxima(KernelContext& context, const VolumeWindows& w, const T* from, Place* to) {
  return ForPixels<T>(context, w, w.out, w.in, CoveredBy(w), 2 * RowCost(w),
                      [=, channels = w.channels](auto lanes, const Reached& reached, int64_t c)
                          MR_INLINE_LAMBDA {
                            const bool any = reached.row_count > 0 && reached.count > 0;
                            const int64_t first = any ? reached.rows[0] + reached.first : -1;
                            constexpr int kLanes = decltype(lanes)::value;
                            if constexpr (kLanes > 1 && sizeof(T) == sizeof(Place)) {
                              using V = Channels<T, kLanes>;
                              V largest{};
                              Places<T, kLanes> best = Places<T, kLanes>{} + static_cast<Place>(first);
                              if (any) Read(from + first * channels + c, &largest);
                              ForReached(reached, [&](int64_t pixel) MR_INLINE_LAMBDA {
                                V x;
                                Read(from + pixel * channels + c, &x);
                                const auto take = (x > largest) | ((x != x) & (largest == largest));
                                largest = take ? x : largest;
                                best = take ? Places<T, kLanes>{} + static_cast<Place>(pixel) : best;
                              });
                              Write(best, to + reached.number * channels + c);
                            } else {
                              for (int l = 0; l < kLanes; ++l) {
                                T largest = any ? from[first * channels + c + l] : T(0);
                                Place best = static_cast<Place>(first);
                                ForReached(reached, [&](int64_t pixel) MR_INLINE_LAMBDA {
                                  const T x = from[pixel * channels + c + l];
                                  const bool take = (x > largest) | ((x != x) & (largest == largest));
                                  largest = take ? x : largest;
                                  best = take ? static_cast<Place>(pixel) : best;
                                });
                                to[reached.number * channels + c + l] = best;
                              }
                            }
                          });
}

// Inputs: the forward input, its output, and the tensor that is pooled or spread.
template <bool kSecond>
class MaxPool3DGradKernel final : public VolumePoolKernel {
 public:
  using VolumePoolKernel::VolumePoolKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const VolumeWindows w, Windows(context.input(0).shape()));
    MR_RETURN_IF_ERROR(CheckShape("orig_output", context.input(1).shape(), w.OutShape()));
    MR_RETURN_IF_ERROR(CheckShape("grad", context.input(2).shape(), kSecond ? w.InShape() : w.OutShape()));
    MR_ASSIGN_OR_RETURN(const Tensor in, Input(context, 0));
    switch (in.dtype()) {
      case DataType::kFloat:
        // Positions as wide as floats are selected by the same vector instructions.
        if (in.num_elements() <= std::numeric_limits<int32_t>::max())
          return Run<float, int32_t>(context, w, in);
        return Run<float, int64_t>(context, w, in);
      case DataType::kDouble:
        return Run<double, int64_t>(context, w, in);
      case DataType::kInt64:
        return Run<int64_t, int64_t>(context, w, in);
      default:
        return Run<uint64_t, int64_t>(context, w, in);
    }
  }

 private:
  template <typename T, typename Place>
  Status Run(KernelContext& context, const VolumeWindows& w, const Tensor& in) const {
    MR_ASSIGN_OR_RETURN(const Tensor grad, ToChannelsLast(context, context.input(2), channels_first_));
    MR_ASSIGN_OR_RETURN(
        Tensor maxima,
        context.AllocateTemp(sizeof(Place) == 4 ? DataType::kInt32 : DataType::kInt64, w.OutShape()));
    const DataType type = kSecond ? grad.dtype() : WorkType(grad.dtype());
    return Produce(context, kSecond ? w.OutShape() : w.InShape(), type, [&](Tensor* out) -> Status {
      MR_RETURN_IF_ERROR(FindMaxima(context, w, in.data<T>(), maxima.data<Place>()));
      if constexpr (kSecond) {
        Take(context, w, maxima.data<Place>(), grad, out);
        return Status();
      } else if constexpr (std::is_floating_point_v<T>) {
        MR_ASSIGN_OR_RETURN(const Tensor work, ToWork(context, grad));
        return VisitFloats(work.dtype(), [&]<typename G>() {
          const auto spread = AreApart(w) ? Scatter<G, Place> : Spread<G, Place>;
          return spread(context, w, maxima.data<Place>(), work.data<G>(), out->data<G>());
        });
      } else {
        return NoSuchType(context, in.dtype());
      }
    });
  }

  // Elements of any type are copied as integers of their size.
  template <typename Place>
  static void Take(KernelContext& context, const VolumeWindows& w, const Place* best, const Tensor& grad,
                   Tensor* out) {
    const auto move = [&]<typename T>(T) {
      const T* const from = static_cast<const T*>(grad.raw_data());
      T* const to = static_cast<T*>(out->raw_data());
      const int64_t channels = w.channels;
      context.ParallelFor(out->num_elements() / channels, 4 * channels, [=](int64_t begin, int64_t end) {
        for (int64_t i = begin * channels; i < end * channels; i += channels) {
          for (int64_t c = 0; c < channels; ++c)
            to[i + c] = best[i + c] < 0 ? T(0) : from[int64_t{best[i + c]} * channels + c];
        }
      });
    };
    switch (ElementSize(grad.dtype())) {
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

  // Of windows that are apart.
  template <typename T, typename Place>
  static Status Scatter(KernelContext& context, const VolumeWindows& w, const Place* best, const T* from,
                        T* to) {
    const int64_t channels = w.channels;
    ClearPixels(context, w.InShape().num_elements() / channels, channels, to);
    context.ParallelFor(w.OutShape().num_elements() / channels, channels, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin * channels; i < end * channels; i += channels) {
        for (int64_t c = 0; c < channels; ++c) {
          if (best[i + c] >= 0) to[int64_t{best[i + c]} * channels + c] = from[i + c] + T(0);  // -0 becomes 0
        }
      }
    });
    return Status();
  }

  template <typename T, typename Place>
  static Status Spread(KernelContext& context, const VolumeWindows& w, const Place* best, const T* from,
                       T* to) {
    return ForPixels<T>(context, w, w.in, w.out, Covering(w), RowCost(w),
                        [=, channels = w.channels](auto lanes, const Reached& reached, int64_t c)
                            MR_INLINE_LAMBDA {
                              constexpr int kLanes = decltype(lanes)::value;
                              const auto here = static_cast<Place>(reached.number);
                              if constexpr (kLanes > 1 && sizeof(T) == sizeof(Place)) {
                                Channels<T, kLanes> sums{};
                                ForReached(reached, [&](int64_t window) MR_INLINE_LAMBDA {
                                  Channels<T, kLanes> x;
                                  Places<T, kLanes> place;
                                  Read(from + window * channels + c, &x);
                                  Read(best + window * channels + c, &place);
                                  sums = place == here ? sums + x : sums;
                                });
                                Write(sums, to + reached.number * channels + c);
                              } else {
                                for (int l = 0; l < kLanes; ++l) {
                                  T sum = 0;
                                  ForReached(reached, [&](int64_t window) MR_INLINE_LAMBDA {
                                    const int64_t at = window * channels + c + l;
                                    sum = best[at] == here ? sum + from[at] : sum;
                                  });
                                  to[reached.number * channels + c + l] = sum;
                                }
                              }
                            });
  }
};

class AvgPool3DKernel final : public VolumePoolKernel {
 public:
  using VolumePoolKernel::VolumePoolKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const VolumeWindows w, Windows(context.input(0).shape()));
    MR_ASSIGN_OR_RETURN(const Tensor in, Input(context, 0));
    return Produce(context, w.OutShape(), in.dtype(), [&](Tensor* out) {
      return VisitFloats(in.dtype(), [&]<typename T>() {
        return ForPixels<T>(context, w, w.out, w.in, CoveredBy(w), RowCost(w),
                            [from = in.data<T>(), to = out->data<T>(), channels = w.channels](
                                auto lanes, const Reached& reached, int64_t c) MR_INLINE_LAMBDA {
                              using V = Channels<T, decltype(lanes)::value>;
                              V sum{};
                              ForReached(reached, [&](int64_t pixel) MR_INLINE_LAMBDA {
                                V x;
                                Read(from + pixel * channels + c, &x);
                                sum += x;
                              });
                              const auto count =
                                  static_cast<T>(std::max<int64_t>(reached.row_count * reached.count, 1));
                              Write<V>(sum / count, to + reached.number * channels + c);
                            });
      });
    });
  }
};

class AvgPool3DGradKernel final : public VolumePoolKernel {
 public:
  using VolumePoolKernel::VolumePoolKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& sizes = context.input(0);
    if (sizes.rank() != 1 || sizes.num_elements() != 5) {
      return errors::InvalidArgument("orig_input_shape must be 1-dimensional and 5 elements, got shape ",
                                     sizes.shape());
    }
    MR_ASSIGN_OR_RETURN(const TensorShape volume, ShapeFromTensor(sizes, "orig_input_shape"));
    MR_ASSIGN_OR_RETURN(const VolumeWindows w, Windows(volume));
    MR_RETURN_IF_ERROR(CheckShape("grad", context.input(1).shape(), w.OutShape()));
    MR_ASSIGN_OR_RETURN(const Tensor grad, Input(context, 1));
    return Produce(context, w.InShape(), grad.dtype(), [&](Tensor* out) -> Status {
      if (AreApart(w)) {
        return VisitFloats(grad.dtype(),
                           [&]<typename T>() { return Fill(context, w, grad.data<T>(), out->data<T>()); });
      }
      MR_ASSIGN_OR_RETURN(Tensor shares, context.AllocateTemp(grad.dtype(), grad.shape()));
      return VisitFloats(grad.dtype(), [&]<typename T>() {
        return Run(context, w, grad.data<T>(), shares.data<T>(), out->data<T>());
      });
    });
  }

 private:
  // Of windows that are apart.
  template <typename T>
  static Status Fill(KernelContext& context, const VolumeWindows& w, const T* grad, T* to) {
    const int64_t channels = w.channels;
    const Reaches reaches = CoveredBy(w);
    bool all = true;  // pixels are in a window
    for (size_t side = 0; side < 3; ++side) {
      int64_t covered = 0;
      for (const Reach& reach : reaches[side]) covered += reach.count;
      all = all && covered == w.in[side];
    }
    if (!all) ClearPixels(context, w.InShape().num_elements() / channels, channels, to);
    return ForPixels<T>(
        context, w, w.out, w.in, reaches, RowCost(w),
        [=](auto lanes, const Reached& reached, int64_t c) MR_INLINE_LAMBDA {
          Channels<T, decltype(lanes)::value> x;
          Read(grad + reached.number * channels + c, &x);
          const auto count = static_cast<T>(std::max<int64_t>(reached.row_count * reached.count, 1));
          x = x / count + T(0);  // as a sum, in which -0 becomes 0
          ForReached(reached, [&](int64_t pixel) MR_INLINE_LAMBDA { Write(x, to + pixel * channels + c); });
        });
  }

  // `shares`: the contribution of each window to each of its pixels.
  template <typename T>
  static Status Run(KernelContext& context, const VolumeWindows& w, const T* grad, T* shares, T* to) {
    const int64_t channels = w.channels;
    MR_RETURN_IF_ERROR(ForPixels<T>(context, w, w.out, w.in, CoveredBy(w), w.out[2] * channels,
                                    [=](auto lanes, const Reached& reached, int64_t c) MR_INLINE_LAMBDA {
                                      Channels<T, decltype(lanes)::value> x;
                                      Read(grad + reached.number * channels + c, &x);
                                      const auto count = static_cast<T>(
                                          std::max<int64_t>(reached.row_count * reached.count, 1));
                                      Write<decltype(x)>(x / count, shares + reached.number * channels + c);
                                    }));
    return ForPixels<T>(context, w, w.in, w.out, Covering(w), RowCost(w),
                        [=](auto lanes, const Reached& reached, int64_t c) MR_INLINE_LAMBDA {
                          Channels<T, decltype(lanes)::value> sum{};
                          ForReached(reached, [&](int64_t window) MR_INLINE_LAMBDA {
                            decltype(sum) share;
                            Read(shares + window * channels + c, &share);
                            sum += share;
                          });
                          Write(sum, to + reached.number * channels + c);
                        });
  }
};

}  // namespace

void RegisterVolumePoolKernels(KernelRegistry& registry) {
  const TypeList max = {DataType::kHalf, DataType::kBfloat16, DataType::kFloat};
  registry.Register<AvgPool3DKernel>(KernelDef("AvgPool3D").Types("T", FloatTypes()));
  registry.Register<AvgPool3DGradKernel>(KernelDef("AvgPool3DGrad").Types("T", FloatTypes()));
  registry.Register<MaxPool3DKernel>(KernelDef("MaxPool3D").Types("T", max));
  registry.Register<MaxPool3DGradKernel<false>>(
      KernelDef("MaxPool3DGrad").Types("T", max).Types("TInput", max));
  registry.Register<MaxPool3DGradKernel<true>>(KernelDef("MaxPool3DGradGrad").Types("T", RealTypes()));
}

}  // namespace millrace
