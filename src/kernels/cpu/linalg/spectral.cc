// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// FFT, RFFT and their inverses in one, two and three dimensions. Numbers of 32 bits are transformed in single
// precision, except for lengths with large prime factors.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <type_traits>

#include "base/mutex.h"
#include "kernels/cpu/contract/scratch.h"
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/linalg/fft.h"
#include "kernels/cpu/loop.h"
#include "kernels/cpu/vector/transpose.h"

namespace millrace {
namespace {

// The plans of the lengths used last.
template <typename Plan>
class Plans {
 public:
  std::shared_ptr<const Plan> For(int64_t n) {
    MutexLock lock(mu_);
    for (const auto& [length, plan] : plans_) {
      if (length == n) return plan;
    }
    if (plans_.size() == kMost) plans_.erase(plans_.begin());
    return plans_.emplace_back(n, std::make_shared<const Plan>(n)).second;
  }

 private:
  static constexpr size_t kMost = 6;
  Mutex mu_;
  std::vector<std::pair<int64_t, std::shared_ptr<const Plan>>> plans_ MR_GUARDED_BY(mu_);
};

template <typename Number, typename T>
Number Load(T value) {
  if constexpr (kIsComplex<T>) {
    return Number(value);
  } else {
    return Number(static_cast<typename Number::value_type>(value));
  }
}
template <typename T, typename Number>
T Store(Number value) {
  if constexpr (kIsComplex<T>) {
    return T(value);
  } else {
    return static_cast<T>(value.real());
  }
}

// One transform of each line along an axis: `in` is [outer, in_length, inner], `out` the same with
// out_length.
struct Axis {
  int64_t outer, length, inner;
  int64_t in_length, out_length;
  bool inverse;
  double scale;
};

// The start of line i.
template <typename T>
T* LineOf(const Axis& a, T* data, int64_t length, int64_t i) {
  return data + i / a.inner * length * a.inner + i % a.inner;
}

template <typename T>
void Scale(T* x, int64_t n, T factor) {
  if (factor == T{1}) return;
  RunLoop([=]() MR_INLINE_LAMBDA {
    for (int64_t i = 0; i < n; ++i) x[i] *= factor;
  });
}

// Calls fn(start, first, count) for the lines from the i-th on whose starts are adjacent: `count` of them,
// the first of which is the `first` of all.
template <typename T, typename Fn>
void ForAdjacent(const Axis& a, T* data, int64_t length, int64_t i, int64_t lines, const Fn& fn) {
  for (int64_t l = 0; l < lines;) {
    const int64_t count = std::min(lines - l, a.inner - (i + l) % a.inner);
    fn(LineOf(a, data, length, i + l), l, count);
    l += count;
  }
}

// Transforms `lines` lines from the i-th on, side by side in kLanes lanes.
template <typename Plan, typename In, typename Out>
void RunLanes(const Plan& fft, const Axis& a, const In* in, Out* out, int64_t i, int64_t lines,
              typename Plan::Real* x, typename Plan::Real* scratch) {
  using Real = typename Plan::Real;
  using Number = typename Plan::Number;
  constexpr int64_t kLanes = Plan::kLanes;
  constexpr bool kSameIn = std::is_same_v<In, Number>, kSameOut = std::is_same_v<Out, Number>;
  if (lines < kLanes) std::fill_n(x, 2 * kLanes * a.length, Real{0});
  if constexpr (kSameIn) {
    if (a.inner == 1) {
      cpu::TransposePlane(LineOf(a, in, a.in_length, i), 2 * a.in_length, x, kLanes, lines, 2 * a.in_length,
                          sizeof(Real));
    } else {
      ForAdjacent(a, in, a.in_length, i, lines, [&](const In* from, int64_t first, int64_t count) {
        cpu::FftLines<Real>().spread(reinterpret_cast<const Real*>(from), a.in_length, a.inner, first, count,
                                     x);
      });
    }
  } else {
    for (int64_t l = 0; l < lines; ++l) {
      const In* const from = LineOf(a, in, a.in_length, i + l);
      for (int64_t j = 0; j < a.in_length; ++j) {
        const auto number = Load<Number>(from[j * a.inner]);
        x[2 * kLanes * j + l] = number.real();
        x[2 * kLanes * j + kLanes + l] = number.imag();
      }
    }
  }
  for (int64_t j = a.in_length; j < a.length; ++j) {
    const Real* const half = x + 2 * kLanes * (a.length - j);
    Real* const at = x + 2 * kLanes * j;
    for (int64_t l = 0; l < kLanes; ++l) {
      at[l] = half[l];
      at[kLanes + l] = -half[kLanes + l];
    }
  }
  fft.RunLanes(x, a.inverse, scratch);
  const auto scale = static_cast<Real>(a.scale);
  if constexpr (kSameOut) {
    if (a.inner == 1) {
      Scale(x, 2 * kLanes * a.out_length, scale);
      cpu::TransposePlane(x, kLanes, LineOf(a, out, a.out_length, i), 2 * a.out_length, 2 * a.out_length,
                          lines, sizeof(Real));
    } else {
      ForAdjacent(a, out, a.out_length, i, lines, [&](Out* to, int64_t first, int64_t count) {
        cpu::FftLines<Real>().collect(x, a.out_length, a.inner, first, count, scale,
                                      reinterpret_cast<Real*>(to));
      });
    }
  } else {
    for (int64_t l = 0; l < lines; ++l) {
      Out* const to = LineOf(a, out, a.out_length, i + l);
      for (int64_t j = 0; j < a.out_length; ++j) {
        const Real* const at = x + 2 * kLanes * j;
        to[j * a.inner] = Store<Out>(Number(at[l] * scale, at[kLanes + l] * scale));
      }
    }
  }
}

template <typename Plan, typename In, typename Out>
void RunLine(const Plan& fft, const Axis& a, const In* from, Out* to, typename Plan::Number* line,
             typename Plan::Number* scratch) {
  using Number = typename Plan::Number;
  for (int64_t j = 0; j < a.in_length; ++j) line[j] = Load<Number>(from[j * a.inner]);
  // The other half of a real signal's transform is the conjugate of this one.
  for (int64_t j = a.in_length; j < a.length; ++j) line[j] = std::conj(line[a.length - j]);
  fft.Run(line, a.inverse, scratch);
  const auto scale = static_cast<typename Plan::Real>(a.scale);
  for (int64_t j = 0; j < a.out_length; ++j) to[j * a.inner] = Store<Out>(line[j] * scale);
}

// Runs fn(begin, end) for the indices below n: without a context all of them on this thread.
template <typename Fn>
void ForIndices(const KernelContext* threads, int64_t n, int64_t cost, const Fn& fn) {
  if (threads != nullptr) {
    threads->ParallelFor(n, cost, fn);
  } else {
    fn(0, n);
  }
}

Status NoMemory() { return errors::ResourceExhausted("no memory for the lines of a transform"); }

// Lines whose starts are adjacent from which on those of a block are transformed without those of the next.
constexpr int64_t kLeastAdjacent = 5;

template <typename Plan, typename In, typename Out>
Status RunAxis(const KernelContext* threads, const Plan& fft, const Axis& a, const In* in, Out* out) {
  using Real = typename Plan::Real;
  using Number = typename Plan::Number;
  constexpr bool kSame = std::is_same_v<In, Number> && std::is_same_v<Out, Number>;
  const bool in_place = kSame && fft.has_line() && a.inner == 1;
  std::atomic<bool> ok{true};
  const auto run = [&](int64_t begin, int64_t end) {
    int64_t i = begin;
    if constexpr (kSame) {
      if (a.inner >= kLeastAdjacent && fft.has_lanes() && cpu::IsAdjacentFft(a.length)) {
        const cpu::Scratch room = cpu::Scratch::Of<Real>(2 * fft.lanes_size());
        if (!room.ok()) return ok.store(false);
        ForAdjacent(a, in, a.in_length, begin, end - begin,
                    [&](const In* from, int64_t first, int64_t count) {
                      cpu::FftLines<Real>().adjacent(
                          fft.line(), reinterpret_cast<const Real*>(from), a.inner, a.inverse,
                          static_cast<Real>(a.scale),
                          reinterpret_cast<Real*>(LineOf(a, out, a.out_length, begin + first)), a.inner,
                          count, room.data<Real>());
                    });
        return;
      }
    }
    if (!in_place && fft.has_lanes() && end - begin >= Plan::kLeastLanes) {
      const cpu::Scratch room = cpu::Scratch::Of<Real>(2 * fft.lanes_size());
      if (!room.ok()) return ok.store(false);
      Real* const x = room.data<Real>();
      while (end - i >= Plan::kLeastLanes) {
        const int64_t lines = std::min(end - i, Plan::kLanes);
        RunLanes(fft, a, in, out, i, lines, x, x + fft.lanes_size());
        i += lines;
      }
    }
    if (i == end) return;
    const cpu::Scratch room = cpu::Scratch::Of<Number>(fft.scratch_size() + a.length);
    if (!room.ok()) return ok.store(false);
    Number *const scratch = room.data<Number>(), *const line = scratch + fft.scratch_size();
    for (; i < end; ++i) {
      const In* const from = LineOf(a, in, a.in_length, i);
      Out* const to = LineOf(a, out, a.out_length, i);
      if constexpr (kSame) {
        if (in_place) {
          fft.RunLine(from, a.inverse, static_cast<Real>(a.scale), to, scratch);
          continue;
        }
      }
      RunLine(fft, a, from, to, line, scratch);
    }
  };
  ForIndices(threads, a.outer * a.inner, a.length * (fft.has_lanes() ? in_place ? 2 : 4 : 25), run);
  return ok.load() ? Status() : NoMemory();
}

// Transforms `lines` lines from the i-th on, in kLanes lanes, with real numbers in `in` or in `out`, and of
// an even length.
template <int kLanes, typename Plan, typename In, typename Out>
void RunRealLines(const Plan& fft, const Axis& a, const In* in, Out* out, int64_t i, int64_t lines,
                  typename Plan::Real* x, typename Plan::Real* scratch) {
  using Real = typename Plan::Real;
  using Number = typename Plan::Number;
  // The numbers of x in pairs: real and imaginary parts, or numbers at even and at odd indices.
  const auto for_pairs = [&](auto* data, int64_t length, auto&& fn) {
    for (int64_t l = 0; l < lines; ++l) {
      auto* const line = LineOf(a, data, length, i + l);
      Real* at = x + l;
      if constexpr (std::is_floating_point_v<std::remove_cvref_t<decltype(*data)>>) {
        for (int64_t j = 0; j < length; j += 2, at += 2 * kLanes)
          fn(line[j * a.inner], line[(j + 1) * a.inner], at[0], at[kLanes]);
      } else {
        for (int64_t j = 0; j < length; ++j, at += 2 * kLanes) fn(line[j * a.inner], at[0], at[kLanes]);
      }
    }
  };
  // Copies lines of contiguous numbers of T, with `length` of Reals, to x or from it.
  const auto is_plane = [&]<typename T>(const T*) {
    return kLanes > 1 && a.inner == 1 && (std::is_same_v<T, Real> || std::is_same_v<T, Number>);
  };
  const auto reals = []<typename T>(const T*, int64_t length) { return kIsComplex<T> ? 2 * length : length; };
  const bool plane_in = is_plane(in), plane_out = is_plane(out);
  const int64_t in_reals = reals(in, a.in_length), out_reals = reals(out, a.out_length);
  if (lines < kLanes) std::fill_n(x, fft.line_size(kLanes), Real{0});
  if (plane_in) cpu::TransposePlane(in + i * a.in_length, in_reals, x, kLanes, lines, in_reals, sizeof(Real));
  if constexpr (std::is_floating_point_v<In>) {
    if (!plane_in)
      for_pairs(in, a.in_length, [](In even, In odd, Real& re, Real& im) {
        re = static_cast<Real>(even);
        im = static_cast<Real>(odd);
      });
    fft.template Forward<kLanes>(x, scratch);
    if (!plane_out)
      for_pairs(out, a.out_length, [](Out& to, Real re, Real im) { to = Store<Out>(Number(re, im)); });
  } else {
    if (!plane_in)
      for_pairs(in, a.in_length, [](const In& from, Real& re, Real& im) {
        const Number value = Load<Number>(from);
        re = value.real();
        im = value.imag();
      });
    fft.template Inverse<kLanes>(x, scratch);
    if (plane_out)
      Scale(x, out_reals * kLanes, static_cast<Real>(a.scale));
    else
      for_pairs(out, a.out_length,
                [scale = static_cast<Real>(a.scale)](Out& even, Out& odd, Real re, Real im) {
                  even = static_cast<Out>(re * scale);
                  odd = static_cast<Out>(im * scale);
                });
  }
  if (plane_out)
    cpu::TransposePlane(x, kLanes, out + i * a.out_length, out_reals, out_reals, lines, sizeof(Real));
}

template <typename Plan, typename In, typename Out>
Status RunRealAxis(const KernelContext* threads, const Plan& fft, const Axis& a, const In* in, Out* out) {
  using Real = typename Plan::Real;
  using Number = typename Plan::Number;
  constexpr int kLanes = Plan::kLanes;
  constexpr bool kForward = std::is_same_v<In, Real> && std::is_same_v<Out, Number>,
                 kInverse = std::is_same_v<In, Number> && std::is_same_v<Out, Real>;
  const bool in_place = (kForward || kInverse) && fft.has_line() && a.inner == 1;
  std::atomic<bool> ok{true};
  const auto run = [&](int64_t begin, int64_t end) {
    const int64_t lanes = !in_place && fft.has_lanes() && end - begin >= Plan::kLeastLanes ? kLanes : 1;
    const cpu::Scratch room = cpu::Scratch::Of<Real>(fft.scratch_size(lanes) + fft.line_size(lanes));
    if (!room.ok()) return ok.store(false);
    Real *const scratch = room.data<Real>(), *const x = scratch + fft.scratch_size(lanes);
    for (int64_t i = begin; i < end; i += lanes) {
      if constexpr (kForward) {
        if (in_place) {
          fft.ForwardLine(in + i * a.in_length, out + i * a.out_length, scratch);
          continue;
        }
      }
      if constexpr (kInverse) {
        if (in_place) {
          fft.InverseLine(in + i * a.in_length, static_cast<Real>(a.scale), out + i * a.out_length, scratch);
          continue;
        }
      }
      if (lanes == kLanes) {
        RunRealLines<kLanes>(fft, a, in, out, i, std::min(end - i, lanes), x, scratch);
      } else {
        RunRealLines<1>(fft, a, in, out, i, 1, x, scratch);
      }
    }
  };
  ForIndices(threads, a.outer * a.inner, a.length * (fft.has_lanes() ? in_place ? 1 : 3 : 13), run);
  return ok.load() ? Status() : NoMemory();
}

class FftKernel final : public OpKernel {
 public:
  explicit FftKernel(KernelConstruction& c)
      : OpKernel(c),
        real_(num_inputs() == 2),
        inverse_(op_name().find("IFFT") != std::string::npos || op_name().starts_with("IRFFT")),
        rank_(op_name().ends_with("2D")   ? 2
              : op_name().ends_with("3D") ? 3
                                          : 1) {}

  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    if (in.rank() < rank_)
      return errors::InvalidArgument("Input must have rank of at least ", rank_, " but got: ", in.shape());
    const int first = in.rank() - rank_;
    Dims lengths;  // of the transforms
    for (int i = 0; i < rank_; ++i) lengths.push_back(in.dim(first + i));
    TensorShape in_shape = in.shape(), out_shape = in.shape();  // of the part of the input that is read
    if (real_) {
      MR_RETURN_IF_ERROR(ReadLengths(context.input(1), in, &lengths));
      in_shape = out_shape = BatchOf(in, first);
      for (int i = 0; i < rank_; ++i) {
        const int64_t n = lengths[static_cast<uint32_t>(i)];
        const int64_t half = i == rank_ - 1 && n > 0 ? n / 2 + 1 : n;
        MR_RETURN_IF_ERROR(in_shape.TryAddDim(inverse_ ? half : n));
        MR_RETURN_IF_ERROR(out_shape.TryAddDim(inverse_ ? n : half));
      }
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, out_shape));
    if (out->num_elements() == 0) return Status();
    if (in.num_elements() == 0) {
      std::memset(out->raw_data(), 0, static_cast<size_t>(out->num_elements()) * ElementSize(out->dtype()));
      return Status();
    }
    MR_ASSIGN_OR_RETURN(const Tensor cut, Cut(context, in, in_shape));
    if (!real_) {
      return in.dtype() == DataType::kComplex64
                 ? Transform<complex64, complex64>(context, cut, lengths, out)
                 : Transform<complex128, complex128>(context, cut, lengths, out);
    }
    return inverse_ ? Transform<complex64, float>(context, cut, lengths, out)
                    : Transform<float, complex64>(context, cut, lengths, out);
  }

 private:
  static TensorShape BatchOf(const Tensor& in, int dims) {
    return TensorShape(in.shape().dims().subspan(0, static_cast<size_t>(dims)));
  }

  Status ReadLengths(const Tensor& t, const Tensor& in, Dims* lengths) const {
    if (!t.shape().IsVector() || t.num_elements() != rank_)
      return errors::InvalidArgument("fft_length must have shape [", rank_, "]");
    for (int i = 0; i < rank_; ++i) {
      const int64_t n = IntValue(t, i);
      if (n < 0) return errors::InvalidArgument("fft_length must not be negative, got ", n);
      (*lengths)[static_cast<uint32_t>(i)] = n;
      const int axis = in.rank() - rank_ + i;
      const int64_t least = inverse_ && i == rank_ - 1 ? n / 2 + 1 : n;
      if (in.dim(axis) != 0 && in.dim(axis) < least) {
        return errors::InvalidArgument("Input dimension ", axis, " must have length of at least ", least,
                                       " but got: ", in.dim(axis));
      }
    }
    return Status();
  }

  // Cuts to the first elements along each axis.
  static StatusOr<Tensor> Cut(KernelContext& context, const Tensor& in, const TensorShape& shape) {
    if (in.shape() == shape) return in;
    MR_ASSIGN_OR_RETURN(Tensor out, context.AllocateTemp(in.dtype(), shape));
    ContextParallel parallel(context);
    cpu::CopyBox(in.raw_data(), RowMajorStrides(in.shape().dims()), out.raw_data(),
                 RowMajorStrides(shape.dims()), shape.dims(), static_cast<int64_t>(ElementSize(in.dtype())),
                 parallel);
    return out;
  }

  // Of `count` items of these shapes without the dimensions before `first`.
  Axis AxisOf(int i, int64_t n, int64_t count, int first, const TensorShape& from,
              const TensorShape& to) const {
    const int axis = first + i;
    return Axis{count * ProductOf(from.dims(), first, axis),
                n,
                ProductOf(from.dims(), axis + 1, from.rank()),
                from.dim(axis),
                to.dim(axis),
                inverse_,
                inverse_ ? 1 / static_cast<double>(n) : 1.0};
  }

  template <typename From, typename To>
  Status RunOne(const KernelContext* threads, const Axis& axis, const From* from, To* to) {
    const int64_t n = axis.length;
    if constexpr (!kIsComplex<From> || !kIsComplex<To>) {
      if (n % 2 == 0 && cpu::HasSmallFactors(n))
        return RunRealAxis(threads, *single_real_plans_.For(n), axis, from, to);
      if (n % 2 == 0) return RunRealAxis(threads, *real_plans_.For(n), axis, from, to);
    }
    if constexpr (!std::is_same_v<From, complex128>) {
      if (cpu::HasSmallFactors(n)) return RunAxis(threads, *single_plans_.For(n), axis, from, to);
    }
    return RunAxis(threads, *plans_.For(n), axis, from, to);
  }

  // Transforms one axis after the other: of items that fit the cache a few together, so that memory is read
  // and written once. The last axis of a real signal is transformed first, when it becomes complex, or last,
  // when it becomes real again.
  template <typename In, typename Out>
  Status Transform(KernelContext& context, const Tensor& in, const Dims& lengths, Tensor* out) {
    constexpr int64_t kMostBytes = int64_t{128} << 10;
    const int first = in.rank() - rank_;
    const bool real_last = real_ && inverse_;
    const TensorShape &before = in.shape(), &after = out->shape(), &middle = real_last ? before : after;
    using Number = std::conditional_t<std::is_same_v<In, complex128>, complex128, complex64>;
    const auto run = [&](const KernelContext* threads, int64_t count, const In* from, Number* w,
                         Out* to) -> Status {
      const auto axis = [&](int i, const TensorShape& a, const TensorShape& b) {
        return AxisOf(i, lengths[static_cast<uint32_t>(i)], count, first, a, b);
      };
      if (rank_ == 1) return RunOne(threads, axis(0, before, after), from, to);
      const int start = real_last ? 0 : rank_ - 1, end = real_last ? rank_ - 1 : 0;
      MR_RETURN_IF_ERROR(RunOne(threads, axis(start, before, middle), from, w));
      for (int i = 1; i < rank_ - 1; ++i) MR_RETURN_IF_ERROR(RunOne(threads, axis(i, middle, middle), w, w));
      return RunOne(threads, axis(end, middle, after), w, to);
    };
    const int64_t batch = ProductOf(before.dims(), 0, first);
    if (rank_ == 1) return run(&context, batch, in.data<In>(), nullptr, out->data<Out>());
    const int64_t item = middle.num_elements() / batch, bytes = item * static_cast<int64_t>(sizeof(Number));
    if (batch == 1 || bytes > kMostBytes) {
      const DataType dtype = std::is_same_v<In, complex128> ? DataType::kComplex128 : DataType::kComplex64;
      MR_ASSIGN_OR_RETURN(Tensor work, context.AllocateTemp(dtype, middle));
      return run(&context, batch, in.data<In>(), work.data<Number>(), out->data<Out>());
    }
    const int64_t in_item = before.num_elements() / batch, out_item = after.num_elements() / batch;
    std::atomic<bool> ok{true};
    context.ParallelFor(batch, item * 2 * rank_, [&](int64_t begin, int64_t end) {
      const int64_t together = std::min(end - begin, kMostBytes / bytes);
      const cpu::Scratch work = cpu::Scratch::Of<Number>(together * item);
      if (!work.ok()) return ok.store(false);
      for (int64_t i = begin; i < end; i += together) {
        const Status status = run(nullptr, std::min(together, end - i), in.data<In>() + i * in_item,
                                  work.data<Number>(), out->data<Out>() + i * out_item);
        if (!status.ok()) return ok.store(false);  // of memory alone
      }
    });
    return ok.load() ? Status() : NoMemory();
  }

  const bool real_, inverse_;
  const int rank_;
  Plans<cpu::BasicFft<double>> plans_;
  Plans<cpu::BasicRealFft<double>> real_plans_;
  Plans<cpu::BasicFft<float>> single_plans_;
  Plans<cpu::BasicRealFft<float>> single_real_plans_;
};

}  // namespace

void RegisterSpectralKernels(KernelRegistry& registry) {
  for (const char* dims : {"", "2D", "3D"}) {
    for (const char* op : {"FFT", "IFFT", "BatchFFT", "BatchIFFT", "RFFT", "IRFFT"})
      registry.Register<FftKernel>(KernelDef(StrCat(op, dims)));
  }
}

}  // namespace millrace
