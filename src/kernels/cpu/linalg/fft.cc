// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/linalg/fft.h"

#include <algorithm>
#include <bit>
#include <numbers>

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/loop.h"

namespace millrace::cpu {
namespace {

// The product without the operator's handling of infinities.
template <typename T>
inline std::complex<T> Times(std::complex<T> a, std::complex<T> b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}
// exp(-2 pi i j / n), exact on the axes.
std::complex<double> Root(int64_t j, int64_t n) {
  const double angle = -2 * std::numbers::pi * static_cast<double>(j) / static_cast<double>(n);
  if (4 * j == n) return {0, -1};
  if (2 * j == n) return {-1, 0};
  if (4 * j == 3 * n) return {0, 1};
  return {std::cos(angle), std::sin(angle)};
}

// One stage of Stockham's algorithm: transforms of length p, m of them for each of `stride` positions, then
// rotations by w. `roots` has the roots of the whole length, every `step`-th of which is used in this stage.
template <typename T>
struct Stage {
  int64_t p, m, stride;
  const std::complex<T>* roots;
  int64_t n, step;
};

// Numbers side by side, in memory the real parts before the imaginary ones; a single one is a Number. Loops
// have a constant length so that the compiler keeps them in registers.
template <typename T, int kLanes>
struct Lanes {
  T re[kLanes], im[kLanes];
};

// Loads number j of the array at x.
template <int kLanes, typename T>
inline MR_INLINE_LAMBDA Lanes<T, kLanes> Load(const T* x, int64_t j) {
  Lanes<T, kLanes> a;
  ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA { a.re[l] = x[2 * kLanes * j + l]; });
  ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA { a.im[l] = x[2 * kLanes * j + kLanes + l]; });
  return a;
}
template <int kLanes, typename T>
inline MR_INLINE_LAMBDA void Store(const Lanes<T, kLanes>& a, T* x, int64_t j) {
  ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA { x[2 * kLanes * j + l] = a.re[l]; });
  ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA { x[2 * kLanes * j + kLanes + l] = a.im[l]; });
}
template <int kLanes, typename T>
inline MR_INLINE_LAMBDA Lanes<T, kLanes> Plus(const Lanes<T, kLanes>& a, const Lanes<T, kLanes>& b) {
  Lanes<T, kLanes> sum;
  ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA { sum.re[l] = a.re[l] + b.re[l]; });
  ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA { sum.im[l] = a.im[l] + b.im[l]; });
  return sum;
}
template <int kLanes, typename T>
inline MR_INLINE_LAMBDA Lanes<T, kLanes> Minus(const Lanes<T, kLanes>& a, const Lanes<T, kLanes>& b) {
  Lanes<T, kLanes> difference;
  ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA { difference.re[l] = a.re[l] - b.re[l]; });
  ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA { difference.im[l] = a.im[l] - b.im[l]; });
  return difference;
}
template <int kLanes, typename T>
inline MR_INLINE_LAMBDA Lanes<T, kLanes> TimesMinusI(const Lanes<T, kLanes>& a) {
  Lanes<T, kLanes> turned;
  ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA { turned.re[l] = a.im[l]; });
  ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA { turned.im[l] = -a.re[l]; });
  return turned;
}
// Sums with a negated factor, not differences: g++ 12 compiles a difference next to a sum to one contracted
// instruction, even if contraction is off.
template <int kLanes, typename T>
inline MR_INLINE_LAMBDA Lanes<T, kLanes> Times(const Lanes<T, kLanes>& a, const std::complex<T>& w) {
  const T re = w.real(), im = w.imag(), less = -im;
  Lanes<T, kLanes> product;
  ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA { product.re[l] = a.re[l] * re + a.im[l] * less; });
  ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA { product.im[l] = a.re[l] * im + a.im[l] * re; });
  return product;
}

// A stage with m = 1, the last one, has no rotations.
template <int kLanes, bool kLast, typename T>
inline MR_INLINE_LAMBDA Lanes<T, kLanes> Turn(const Lanes<T, kLanes>& a, const std::complex<T>& w) {
  if constexpr (kLast) {
    return a;
  } else {
    return Times(a, w);
  }
}

template <int kLanes, bool kLast, typename T>
void RunTwo(const Stage<T>& s, const T* x, T* y) {
  RunLoop([=]() MR_INLINE_LAMBDA {
    for (int64_t q = 0; q < s.m; ++q) {
      const std::complex<T> w = s.roots[q * s.step];
      const int64_t a = s.stride * q, b = a + s.stride * s.m, to = s.stride * 2 * q, next = to + s.stride;
      for (int64_t r = 0; r < s.stride; ++r) {
        const Lanes<T, kLanes> u = Load<kLanes>(x, a + r), v = Load<kLanes>(x, b + r);
        Store(Plus(u, v), y, to + r);
        Store(Turn<kLanes, kLast>(Minus(u, v), w), y, next + r);
      }
    }
  });
}

template <int kLanes, bool kLast, typename T>
void RunFour(const Stage<T>& s, const T* x, T* y) {
  RunLoop([=]() MR_INLINE_LAMBDA {
    for (int64_t q = 0; q < s.m; ++q) {
      const std::complex<T> w1 = s.roots[q * s.step], w2 = s.roots[2 * q * s.step],
                            w3 = s.roots[3 * q * s.step];
      const int64_t from = s.stride * q, gap = s.stride * s.m, to = s.stride * 4 * q;
      for (int64_t r = 0; r < s.stride; ++r) {
        const Lanes<T, kLanes> a = Load<kLanes>(x, from + r), b = Load<kLanes>(x, from + gap + r),
                               c = Load<kLanes>(x, from + 2 * gap + r),
                               d = Load<kLanes>(x, from + 3 * gap + r);
        const Lanes<T, kLanes> even = Plus(a, c), odd = Plus(b, d), difference = Minus(a, c);
        const Lanes<T, kLanes> turned = TimesMinusI(Minus(b, d));
        Store(Plus(even, odd), y, to + r);
        Store(Turn<kLanes, kLast>(Plus(difference, turned), w1), y, to + s.stride + r);
        Store(Turn<kLanes, kLast>(Minus(even, odd), w2), y, to + 2 * s.stride + r);
        Store(Turn<kLanes, kLast>(Minus(difference, turned), w3), y, to + 3 * s.stride + r);
      }
    }
  });
}

template <int kLanes, bool kLast, typename T>
void RunAny(const Stage<T>& s, const T* x, T* y) {
  RunLoop([=]() MR_INLINE_LAMBDA {
    const int64_t turn = s.n / s.p;  // the distance between the roots of order p
    for (int64_t q = 0; q < s.m; ++q) {
      for (int64_t j = 0; j < s.p; ++j) {
        const std::complex<T> w = s.roots[j * q * s.step];
        const int64_t to = s.stride * (s.p * q + j);
        for (int64_t r = 0; r < s.stride; ++r) {
          const int64_t from = s.stride * q + r;
          Lanes<T, kLanes> sum = Load<kLanes>(x, from);
          for (int64_t k = 1; k < s.p; ++k) {
            sum = Plus(sum, Times(Load<kLanes>(x, from + k * s.stride * s.m), s.roots[j * k % s.p * turn]));
          }
          Store(Turn<kLanes, kLast>(sum, w), y, to + r);
        }
      }
    }
  });
}

template <int kLanes, bool kLast, typename T>
void RunStage(const Stage<T>& s, const T* x, T* y) {
  if (s.p == 4) {
    RunFour<kLanes, kLast>(s, x, y);
  } else if (s.p == 2) {
    RunTwo<kLanes, kLast>(s, x, y);
  } else {
    RunAny<kLanes, kLast>(s, x, y);
  }
}

// The stages of a transform of n numbers in x, with `scratch` as the second buffer.
template <int kLanes, typename T>
void RunStages(const std::vector<int64_t>& factors, const std::complex<T>* roots, int64_t n, T* x,
               T* scratch) {
  T *from = x, *to = scratch;
  int64_t length = n, stride = 1;
  for (const int64_t p : factors) {
    const Stage<T> stage{p, length / p, stride, roots, n, stride};
    if (stage.m > 1) {
      RunStage<kLanes, false>(stage, from, to);
    } else {
      RunStage<kLanes, true>(stage, from, to);
    }
    std::swap(from, to);
    length /= p;
    stride *= p;
  }
  if (from != x) std::copy_n(from, 2 * kLanes * n, x);
}

// Divides the length by its prime factors up to 13, which are appended to `factors`.
int64_t TakeSmallFactors(int64_t n, std::vector<int64_t>* factors) {
  int64_t rest = n;
  for (const int64_t p : {4, 2, 3, 5, 7, 11, 13}) {
    for (; rest > 1 && rest % p == 0; rest /= p) factors->push_back(p);
  }
  return rest;
}

template <typename T>
std::vector<T> TurnsOf(const std::vector<std::complex<T>>& roots) {
  const size_t quarter = roots.size() / 4;
  std::vector<T> turns;
  for (const size_t stride : {1, 4}) {
    for (size_t j = 1; j < 4; ++j) {
      for (size_t t = 0; t < quarter; ++t) turns.push_back(roots[t / stride * stride * j].real());
      for (size_t t = 0; t < quarter; ++t) turns.push_back(roots[t / stride * stride * j].imag());
    }
  }
  return turns;
}

}  // namespace

bool HasSmallFactors(int64_t n) {
  std::vector<int64_t> factors;
  return TakeSmallFactors(n, &factors) <= 1;
}

template <typename T>
BasicFft<T>::BasicFft(int64_t n) : n_(n) {
  const int64_t rest = TakeSmallFactors(n, &factors_);
  roots_.resize(static_cast<size_t>(std::max<int64_t>(n, 0)));
  if (rest <= 1) {
    for (int64_t j = 0; j < n; ++j) roots_[static_cast<size_t>(j)] = Number(Root(j, n));
    if (IsFftLine(n)) turns_ = TurnsOf(roots_);
    return;
  }
  factors_.clear();
  // j * j modulo 2 n, computed from differences, as it would overflow.
  int64_t square = 0;
  for (int64_t j = 0; j < n; ++j) {
    roots_[static_cast<size_t>(j)] = Number(Root(square, 2 * n));
    square = (square + 2 * j + 1) % (2 * n);
  }
  const auto m = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * n - 1)));
  longer_ = std::make_unique<BasicFft>(m);
  kernel_.assign(static_cast<size_t>(m), Number(0));
  for (int64_t j = 0; j < n; ++j) {
    const Number value = std::conj(roots_[static_cast<size_t>(j)]) / static_cast<T>(m);
    kernel_[static_cast<size_t>(j)] = value;
    if (j > 0) kernel_[static_cast<size_t>(m - j)] = value;
  }
  std::vector<Number> scratch(static_cast<size_t>(longer_->scratch_size()));
  longer_->Run(kernel_.data(), /*inverse=*/false, scratch.data());
}

template <typename T>
BasicFft<T>::~BasicFft() = default;

template <typename T>
int64_t BasicFft<T>::scratch_size() const {
  if (has_line()) return 2 * n_;
  return longer_ == nullptr ? n_ : longer_->size() + longer_->scratch_size();
}

template <typename T>
void BasicFft<T>::RunLine(const Number* in, bool inverse, T scale, Number* out, Number* scratch) const {
  FftLines<T>().run(line(), reinterpret_cast<const T*>(in), inverse, scale, reinterpret_cast<T*>(out),
                    reinterpret_cast<T*>(scratch));
}

template <typename T>
void BasicFft<T>::Run(Number* x, bool inverse, Number* scratch) const {
  if (n_ <= 1) return;
  if (has_line()) return RunLine(x, inverse, T{1}, x, scratch);
  if (!inverse) return RunForward(x, scratch);
  for (int64_t j = 0; j < n_; ++j) x[j] = std::conj(x[j]);
  RunForward(x, scratch);
  for (int64_t j = 0; j < n_; ++j) x[j] = std::conj(x[j]);
}

template <typename T>
void BasicFft<T>::RunForward(Number* x, Number* scratch) const {
  if (longer_ == nullptr) {
    RunStages<1>(factors_, roots_.data(), n_, reinterpret_cast<T*>(x), reinterpret_cast<T*>(scratch));
  } else {
    RunChirp(x, scratch);
  }
}

template <typename T>
void BasicFft<T>::RunLanes(T* x, bool inverse, T* scratch) const {
  if (n_ <= 1) return;
  const auto conjugate = [=, n = inverse ? n_ : 0]() MR_INLINE_LAMBDA {
    for (int64_t j = 0; j < n; ++j) {
      T* const imaginary = x + 2 * kLanes * j + kLanes;
      ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA { imaginary[l] = -imaginary[l]; });
    }
  };
  RunLoop(conjugate);
  RunStages<kLanes>(factors_, roots_.data(), n_, x, scratch);
  RunLoop(conjugate);
}

// The transform becomes a convolution by j k = (j j + k k - (k - j)(k - j)) / 2.
template <typename T>
void BasicFft<T>::RunChirp(Number* x, Number* scratch) const {
  const int64_t m = longer_->size();
  Number *a = scratch, *rest = scratch + m;
  for (int64_t j = 0; j < n_; ++j) a[j] = Times(x[j], roots_[static_cast<size_t>(j)]);
  std::fill(a + n_, a + m, Number(0));
  longer_->Run(a, /*inverse=*/false, rest);
  for (int64_t j = 0; j < m; ++j) a[j] = Times(a[j], kernel_[static_cast<size_t>(j)]);
  longer_->Run(a, /*inverse=*/true, rest);
  for (int64_t j = 0; j < n_; ++j) x[j] = Times(a[j], roots_[static_cast<size_t>(j)]);
}

template <typename T>
BasicRealFft<T>::BasicRealFft(int64_t n) : half_(n / 2) {
  for (int64_t k = 0; 4 * k <= n; ++k) roots_.push_back(Number(Root(k, n)));
}

template <typename T>
void BasicRealFft<T>::ForwardLine(const T* in, Number* out, T* scratch) const {
  FftLines<T>().forward(half_.line(), reinterpret_cast<const T*>(roots_.data()), in,
                        reinterpret_cast<T*>(out), scratch);
}
template <typename T>
void BasicRealFft<T>::InverseLine(const Number* in, T scale, T* out, T* scratch) const {
  FftLines<T>().inverse(half_.line(), reinterpret_cast<const T*>(roots_.data()),
                        reinterpret_cast<const T*>(in), scale, out, scratch);
}

template <typename T>
template <int kLanes>
void BasicRealFft<T>::Run(T* x, bool inverse, T* scratch) const {
  if constexpr (kLanes == 1) {
    half_.Run(reinterpret_cast<Number*>(x), inverse, reinterpret_cast<Number*>(scratch));
  } else {
    half_.RunLanes(x, inverse, scratch);
  }
}

// With Z, the transform of the pairs, E = (Z[k] + conj(Z[h - k])) / 2 is that of the even samples, O that of
// the odd ones, and X[k] = E + w O.
template <typename T>
template <int kLanes>
void BasicRealFft<T>::Forward(T* x, T* scratch) const {
  if constexpr (kLanes == 1) {
    if (has_line()) return ForwardLine(x, reinterpret_cast<Number*>(x), scratch);
  }
  Run<kLanes>(x, /*inverse=*/false, scratch);
  RunLoop([=, h = half(), roots = roots_.data()]() MR_INLINE_LAMBDA {
    const Lanes<T, kLanes> z = Load<kLanes>(x, 0);
    Lanes<T, kLanes> first, last;
    ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA {
      first.re[l] = z.re[l] + z.im[l];
      last.re[l] = z.re[l] - z.im[l];
      first.im[l] = last.im[l] = 0;
    });
    Store(first, x, 0);
    Store(last, x, h);
    for (int64_t k = 1; 2 * k <= h; ++k) {
      const Lanes<T, kLanes> a = Load<kLanes>(x, k), b = Load<kLanes>(x, h - k);
      const T re = T{0.5} * roots[k].real(), im = T{0.5} * roots[k].imag();
      Lanes<T, kLanes> own, other;
      ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA {
        const T even = T{0.5} * (a.re[l] + b.re[l]), less = a.re[l] - b.re[l], more = a.im[l] + b.im[l];
        const T turned = more * re + less * im;
        own.re[l] = even + turned;
        other.re[l] = even - turned;
      });
      ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA {
        const T even = T{0.5} * (a.im[l] - b.im[l]), less = a.re[l] - b.re[l], more = a.im[l] + b.im[l];
        const T turned = more * im - less * re;
        own.im[l] = even + turned;
        other.im[l] = turned - even;
      });
      Store(own, x, k);
      Store(other, x, h - k);
    }
  });
}

template <typename T>
template <int kLanes>
void BasicRealFft<T>::Inverse(T* x, T* scratch) const {
  if constexpr (kLanes == 1) {
    if (has_line()) return InverseLine(reinterpret_cast<const Number*>(x), T{1}, x, scratch);
  }
  RunLoop([=, h = half(), roots = roots_.data()]() MR_INLINE_LAMBDA {
    const Lanes<T, kLanes> first = Load<kLanes>(x, 0), last = Load<kLanes>(x, h);
    Lanes<T, kLanes> z;
    ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA {
      z.re[l] = first.re[l] + last.re[l];
      z.im[l] = first.re[l] - last.re[l];
    });
    Store(z, x, 0);
    for (int64_t k = 1; 2 * k <= h; ++k) {
      const Lanes<T, kLanes> a = Load<kLanes>(x, k), b = Load<kLanes>(x, h - k);
      const T re = roots[k].real(), im = roots[k].imag(), minus = -im;  // see Times
      Lanes<T, kLanes> own, other;
      ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA {
        const T sum = a.re[l] + b.re[l], less = a.re[l] - b.re[l], more = a.im[l] + b.im[l];
        const T turned = more * re + less * minus;
        own.re[l] = sum - turned;
        other.re[l] = sum + turned;
      });
      ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA {
        const T sum = a.im[l] - b.im[l], less = a.re[l] - b.re[l], more = a.im[l] + b.im[l];
        const T turned = less * re + more * im;
        own.im[l] = sum + turned;
        other.im[l] = turned - sum;
      });
      Store(own, x, k);
      Store(other, x, h - k);
    }
  });
  Run<kLanes>(x, /*inverse=*/true, scratch);
}

template <>
const FftLineTable<float>& FftLines<float>() {
  switch (ActiveIsa()) {
    case Isa::kAvx512:
      return avx512::kFftLineFloat;
    case Isa::kAvx2:
      return avx2::kFftLineFloat;
    case Isa::kBaseline:
      break;
  }
  return baseline::kFftLineFloat;
}
template <>
const FftLineTable<double>& FftLines<double>() {
  switch (ActiveIsa()) {
    case Isa::kAvx512:
      return avx512::kFftLineDouble;
    case Isa::kAvx2:
      return avx2::kFftLineDouble;
    case Isa::kBaseline:
      break;
  }
  return baseline::kFftLineDouble;
}

template class BasicFft<float>;
template class BasicFft<double>;
template class BasicRealFft<float>;
template class BasicRealFft<double>;
#define MR_REAL_FFT(T, kLanes)                                              \
  template void BasicRealFft<T>::Forward<kLanes>(T * x, T * scratch) const; \
  template void BasicRealFft<T>::Inverse<kLanes>(T * x, T * scratch) const
MR_REAL_FFT(float, 1);
MR_REAL_FFT(float, BasicFft<float>::kLanes);
MR_REAL_FFT(double, 1);
MR_REAL_FFT(double, BasicFft<double>::kLanes);
#undef MR_REAL_FFT

}  // namespace millrace::cpu
