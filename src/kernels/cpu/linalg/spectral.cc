// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// FFT, RFFT and their inverses in one, two and three dimensions. All compute in double precision.
#include <algorithm>
#include <cstring>
#include <memory>

#include "base/mutex.h"
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/linalg/fft.h"
#include "kernels/cpu/vector/transpose.h"

namespace millrace {
namespace {

using Number = cpu::Fft::Number;

// The plans of the lengths seen last.
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

template <typename T>
Number Load(T value) {
  if constexpr (kIsComplex<T>) {
    return Number(value);
  } else {
    return Number(static_cast<double>(value));
  }
}
template <typename T>
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

// Where line i begins.
template <typename T>
T* LineOf(const Axis& a, T* data, int64_t length, int64_t i) {
  return data + i / a.inner * length * a.inner + i % a.inner;
}

// kLanes lines, from the i-th on, side by side.
template <typename In, typename Out>
void RunLanes(const cpu::Fft& fft, const Axis& a, const In* in, Out* out, int64_t i, double* x,
              double* scratch) {
  constexpr int64_t kLanes = cpu::Fft::kLanes;
  const In* from[kLanes];
  Out* to[kLanes];
  for (int64_t l = 0; l < kLanes; ++l) {
    from[l] = LineOf(a, in, a.in_length, i + l);
    to[l] = LineOf(a, out, a.out_length, i + l);
  }
  for (int64_t j = 0; j < a.in_length; ++j) {
    double* const at = x + 2 * kLanes * j;
    for (int64_t l = 0; l < kLanes; ++l) {
      const Number value = Load(from[l][j * a.inner]);
      at[l] = value.real();
      at[kLanes + l] = value.imag();
    }
  }
  for (int64_t j = a.in_length; j < a.length; ++j) {
    const double* const half = x + 2 * kLanes * (a.length - j);
    double* const at = x + 2 * kLanes * j;
    for (int64_t l = 0; l < kLanes; ++l) {
      at[l] = half[l];
      at[kLanes + l] = -half[kLanes + l];
    }
  }
  fft.RunLanes(x, a.inverse, scratch);
  for (int64_t j = 0; j < a.out_length; ++j) {
    const double* const at = x + 2 * kLanes * j;
    for (int64_t l = 0; l < kLanes; ++l)
      to[l][j * a.inner] = Store<Out>(Number(at[l] * a.scale, at[kLanes + l] * a.scale));
  }
}

template <typename In, typename Out>
void RunLine(const cpu::Fft& fft, const Axis& a, const In* from, Out* to, Number* line, Number* scratch) {
  for (int64_t j = 0; j < a.in_length; ++j) line[j] = Load(from[j * a.inner]);
  // The other half of a real signal's transform is the conjugate of this one.
  for (int64_t j = a.in_length; j < a.length; ++j) line[j] = std::conj(line[a.length - j]);
  fft.Run(line, a.inverse, scratch);
  for (int64_t j = 0; j < a.out_length; ++j) to[j * a.inner] = Store<Out>(line[j] * a.scale);
}

template <typename In, typename Out>
void RunAxis(const KernelContext& context, const cpu::Fft& fft, const Axis& a, const In* in, Out* out) {
  context.ParallelFor(a.outer * a.inner, a.length * (fft.has_lanes() ? 6 : 25),
                      [&](int64_t begin, int64_t end) {
                        int64_t i = begin;
                        if (fft.has_lanes() && end - begin >= cpu::Fft::kLanes) {
                          std::vector<double> room(static_cast<size_t>(2 * fft.lanes_size()));
                          for (; i + cpu::Fft::kLanes <= end; i += cpu::Fft::kLanes)
                            RunLanes(fft, a, in, out, i, room.data(), room.data() + fft.lanes_size());
                        }
                        if (i == end) return;
                        std::vector<Number> line(static_cast<size_t>(a.length));
                        std::vector<Number> scratch(static_cast<size_t>(fft.scratch_size()));
                        for (; i < end; ++i) {
                          RunLine(fft, a, LineOf(a, in, a.in_length, i), LineOf(a, out, a.out_length, i),
                                  line.data(), scratch.data());
                        }
                      });
}

// `lines` lines from the i-th on, in places for kLanes: of real numbers in `in` or in `out`, and of an even
// length.
template <int kLanes, typename In, typename Out>
void RunRealLines(const cpu::RealFft& fft, const Axis& a, const In* in, Out* out, int64_t i, int64_t lines,
                  double* x, double* scratch) {
  // The places of x by twos: real and imaginary parts, or numbers at even and at odd places.
  const auto for_pairs = [&](auto* data, int64_t length, auto&& fn) {
    for (int64_t l = 0; l < lines; ++l) {
      auto* const line = LineOf(a, data, length, i + l);
      double* at = x + l;
      if constexpr (std::is_floating_point_v<std::remove_cvref_t<decltype(*data)>>) {
        for (int64_t j = 0; j < length; j += 2, at += 2 * kLanes)
          fn(line[j * a.inner], line[(j + 1) * a.inner], at[0], at[kLanes]);
      } else {
        for (int64_t j = 0; j < length; ++j, at += 2 * kLanes) fn(line[j * a.inner], at[0], at[kLanes]);
      }
    }
  };
  if constexpr (std::is_floating_point_v<In>) {
    for_pairs(in, a.in_length, [](In even, In odd, double& re, double& im) {
      re = static_cast<double>(even);
      im = static_cast<double>(odd);
    });
    fft.Forward<kLanes>(x, scratch);
    for_pairs(out, a.out_length, [](Out& to, double re, double im) { to = Store<Out>(Number(re, im)); });
  } else {
    for_pairs(in, a.in_length, [](const In& from, double& re, double& im) {
      const Number value = Load(from);
      re = value.real();
      im = value.imag();
    });
    fft.Inverse<kLanes>(x, scratch);
    for_pairs(out, a.out_length, [&a](Out& even, Out& odd, double re, double im) {
      even = static_cast<Out>(re * a.scale);
      odd = static_cast<Out>(im * a.scale);
    });
  }
}

template <typename In, typename Out>
void RunRealAxis(const KernelContext& context, const cpu::RealFft& fft, const Axis& a, const In* in,
                 Out* out) {
  context.ParallelFor(
      a.outer * a.inner, a.length * (fft.has_lanes() ? 3 : 13), [&](int64_t begin, int64_t end) {
        constexpr int kLanes = cpu::Fft::kLanes;
        int64_t i = begin;
        const int64_t lanes = fft.has_lanes() && end - begin >= cpu::RealFft::kLeastLanes ? kLanes : 1;
        std::vector<double> x(static_cast<size_t>(fft.line_size(lanes)));
        std::vector<double> scratch(static_cast<size_t>(fft.scratch_size(lanes)));
        for (; i < end; i += lanes) {
          if (lanes == kLanes) {
            RunRealLines<kLanes>(fft, a, in, out, i, std::min(end - i, lanes), x.data(), scratch.data());
          } else {
            RunRealLines<1>(fft, a, in, out, i, 1, x.data(), scratch.data());
          }
        }
      });
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
    TensorShape in_shape = in.shape(), out_shape = in.shape();  // of what is read of the input
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

  // The first elements along each axis.
  static StatusOr<Tensor> Cut(KernelContext& context, const Tensor& in, const TensorShape& shape) {
    if (in.shape() == shape) return in;
    MR_ASSIGN_OR_RETURN(Tensor out, context.AllocateTemp(in.dtype(), shape));
    ContextParallel parallel(context);
    cpu::CopyBox(in.raw_data(), RowMajorStrides(in.shape().dims()), out.raw_data(),
                 RowMajorStrides(shape.dims()), shape.dims(), static_cast<int64_t>(ElementSize(in.dtype())),
                 parallel);
    return out;
  }

  // One axis after the other. A real signal has its last axis transformed first, when it becomes complex, or
  // last, when it is real again.
  template <typename In, typename Out>
  Status Transform(KernelContext& context, const Tensor& in, const Dims& lengths, Tensor* out) {
    const int first = in.rank() - rank_;
    const auto pass = [&](int i, const TensorShape& from, const TensorShape& to) {
      const int axis = first + i;
      const int64_t n = lengths[static_cast<uint32_t>(i)];
      return Axis{ProductOf(from.dims(), 0, axis),
                  n,
                  ProductOf(from.dims(), axis + 1, from.rank()),
                  from.dim(axis),
                  to.dim(axis),
                  inverse_,
                  inverse_ ? 1 / static_cast<double>(n) : 1.0};
    };
    const auto run = [&]<typename From, typename To>(int i, const Axis& axis, const From* from, To* to) {
      const int64_t n = lengths[static_cast<uint32_t>(i)];
      if constexpr (!kIsComplex<From> || !kIsComplex<To>) {
        if (n % 2 == 0) return RunRealAxis(context, *real_plans_.For(n), axis, from, to);
      }
      RunAxis(context, *plans_.For(n), axis, from, to);
    };
    if (rank_ == 1) {
      run(0, pass(0, in.shape(), out->shape()), in.data<In>(), out->data<Out>());
      return Status();
    }
    const bool real_last = real_ && inverse_;
    const TensorShape& middle = real_last ? in.shape() : out->shape();
    MR_ASSIGN_OR_RETURN(Tensor work, context.AllocateTemp(DataType::kComplex128, middle));
    Number* w = work.data<complex128>();
    const int start = real_last ? 0 : rank_ - 1, end = real_last ? rank_ - 1 : 0;
    run(start, pass(start, in.shape(), middle), in.data<In>(), w);
    for (int i = 1; i < rank_ - 1; ++i) run(i, pass(i, middle, middle), w, w);
    run(end, pass(end, middle, out->shape()), w, out->data<Out>());
    return Status();
  }

  const bool real_, inverse_;
  const int rank_;
  Plans<cpu::Fft> plans_;
  Plans<cpu::RealFft> real_plans_;
};

}  // namespace

void RegisterSpectralKernels(KernelRegistry& registry) {
  for (const char* dims : {"", "2D", "3D"}) {
    for (const char* op : {"FFT", "IFFT", "BatchFFT", "BatchIFFT", "RFFT", "IRFFT"})
      registry.Register<FftKernel>(KernelDef(StrCat(op, dims)));
  }
}

}  // namespace millrace
