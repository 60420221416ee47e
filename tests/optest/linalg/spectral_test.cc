// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Lines of transforms have the bits that they have alone, whatever their number, place and instruction set,
// and the values of sums in double precision.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <numbers>
#include <random>
#include <vector>

#include "kernel/testing.h"
#include "kernels/cpu/contract/isa.h"
#include "tensor/testing.h"

namespace millrace {
namespace {

using Number = std::complex<double>;
using Numbers = std::vector<Number>;

template <typename T>
struct IsComplex : std::false_type {};
template <typename T>
struct IsComplex<std::complex<T>> : std::true_type {};

template <typename T>
Tensor RandomTensor(const TensorShape& shape, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> value;
  std::vector<T> values(static_cast<size_t>(shape.num_elements()));
  for (T& v : values) {
    if constexpr (IsComplex<T>::value) {
      const double re = value(random), im = value(random);
      v = T(static_cast<typename T::value_type>(re), static_cast<typename T::value_type>(im));
    } else {
      v = static_cast<T>(value(random));
    }
  }
  return Tensor::From<T>(values, shape);
}

// Elements [begin, begin + shape.num_elements()) of t.
template <typename T>
Tensor Part(const Tensor& t, int64_t begin, const TensorShape& shape) {
  const T* const from = t.data<T>() + begin;
  return Tensor::From<T>(std::vector<T>(from, from + shape.num_elements()), shape);
}

template <typename T>
Numbers NumbersOf(const Tensor& t) {
  Numbers numbers;
  for (int64_t i = 0; i < t.num_elements(); ++i) numbers.push_back(Number(t.data<T>()[i]));
  return numbers;
}

// sum of x[j] exp(sign 2 pi i j k / n), for k < count.
Numbers Sums(const Numbers& x, int sign, size_t count) {
  const size_t n = x.size();
  Numbers y(count);
  for (size_t k = 0; k < count; ++k) {
    for (size_t j = 0; j < n; ++j)
      y[k] += x[j] * std::polar(1.0, sign * 2 * std::numbers::pi * static_cast<double>(j * k % n) /
                                         static_cast<double>(n));
  }
  return y;
}

double Norm(const Numbers& a) {
  double sum = 0;
  for (const Number v : a) sum += std::norm(v);
  return std::sqrt(sum);
}
void ExpectNear(const Numbers& a, const Numbers& b, double limit) {
  ASSERT_EQ(a.size(), b.size());
  Numbers difference = a;
  for (size_t i = 0; i < a.size(); ++i) difference[i] -= b[i];
  EXPECT_LE(Norm(difference), limit * Norm(b));
}

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.raw_data(), b.raw_data(),
                     static_cast<size_t>(a.num_elements()) * ElementSize(a.dtype())) == 0;
}

Tensor Transform(const char* op, const Tensor& in, const std::vector<int32_t>& lengths = {}) {
  KernelRunner runner(op);
  runner.Input(in);
  if (!lengths.empty())
    runner.Input(Tensor::From<int32_t>(lengths, TensorShape({static_cast<int64_t>(lengths.size())})));
  return *runner.RunOne();
}

constexpr int64_t kLines[] = {1, 3, 7, 8, 9, 16, 17, 24};
constexpr int64_t kLengths[] = {2, 4, 8, 16, 32, 60, 64, 96, 128, 256, 512};

class FftTest : public testing::TestWithParam<cpu::Isa> {
 protected:
  FftTest() { cpu::SetActiveIsaForTest(GetParam()); }
  ~FftTest() override { cpu::SetActiveIsaForTest(cpu::DetectedIsa()); }

  // Of lines of `in` numbers, which become `out`. The values are those of `expected` for a line.
  template <typename In, typename Out, typename Fn>
  static void Lines(const char* op, int64_t n, int64_t in, int64_t out, const Fn& expected) {
    const std::vector<int32_t> lengths = IsComplex<In>::value && IsComplex<Out>::value
                                             ? std::vector<int32_t>()
                                             : std::vector<int32_t>{static_cast<int32_t>(n)};
    const double limit = (std::is_same_v<In, complex128> ? std::numeric_limits<double>::epsilon()
                                                         : std::numeric_limits<float>::epsilon()) *
                         4;
    const Tensor all = RandomTensor<In>(TensorShape({24, in}), static_cast<unsigned>(n));
    std::vector<Tensor> alone;
    for (int64_t l = 0; l < 24; ++l) {
      const Tensor line = Part<In>(all, l * in, TensorShape({1, in}));
      alone.push_back(Transform(op, line, lengths));
      if (l < 2) ExpectNear(NumbersOf<Out>(alone.back()), expected(NumbersOf<In>(line)), limit);
    }
    for (const int64_t lines : kLines) {
      const Tensor found = Transform(op, Part<In>(all, 0, TensorShape({lines, in})), lengths);
      ASSERT_EQ(found.shape(), TensorShape({lines, out}));
      for (int64_t l = 0; l < lines; ++l)
        EXPECT_TRUE(SameBits(Part<Out>(found, l * out, TensorShape({1, out})), alone[static_cast<size_t>(l)]))
            << op << " of " << n << ": line " << l << " of " << lines;
    }
  }

  template <typename T>
  static void ComplexLines() {
    for (const int64_t n : kLengths) {
      Lines<T, T>("FFT", n, n, n, [](const Numbers& x) { return Sums(x, -1, x.size()); });
      Lines<T, T>("IFFT", n, n, n, [](const Numbers& x) {
        Numbers y = Sums(x, 1, x.size());
        for (Number& v : y) v /= static_cast<double>(x.size());
        return y;
      });
    }
  }

  // The columns of planes have the bits of lines.
  template <typename T>
  static void Columns() {
    for (const int64_t n : {4, 8, 16, 32, 64, 128, 12}) {
      for (const int64_t inner : {1, 2, 4, 5, 8, 9, 16, 17, 33}) {
        constexpr int64_t kPlanes = 3;
        const Tensor in = RandomTensor<T>(TensorShape({kPlanes, n, inner}), static_cast<unsigned>(n + inner));
        for (const bool inverse : {false, true}) {
          const Tensor found = Transform(inverse ? "IFFT2D" : "FFT2D", in);
          const Tensor rows = Transform(inverse ? "IFFT" : "FFT", in);
          std::vector<T> turned(static_cast<size_t>(in.num_elements())), back = turned;
          const auto at = [&](int64_t p, int64_t r, int64_t c) {
            return static_cast<size_t>((p * n + r) * inner + c);
          };
          const auto turned_at = [&](int64_t p, int64_t r, int64_t c) {
            return static_cast<size_t>((p * inner + c) * n + r);
          };
          const auto for_all = [&](const auto& fn) {
            for (int64_t p = 0; p < kPlanes; ++p) {
              for (int64_t r = 0; r < n; ++r) {
                for (int64_t c = 0; c < inner; ++c) fn(at(p, r, c), turned_at(p, r, c));
              }
            }
          };
          for_all([&](size_t from, size_t to) { turned[to] = rows.data<T>()[from]; });
          const Tensor columns =
              Transform(inverse ? "IFFT" : "FFT", Tensor::From<T>(turned, TensorShape({kPlanes, inner, n})));
          for_all([&](size_t to, size_t from) { back[to] = columns.data<T>()[from]; });
          EXPECT_TRUE(SameBits(found, Tensor::From<T>(back, in.shape())))
              << n << " x " << inner << (inverse ? " inverse" : "");
        }
      }
    }
  }
};

TEST_P(FftTest, ComplexLines) {
  ComplexLines<complex64>();
  ComplexLines<complex128>();
}

TEST_P(FftTest, RealLines) {
  for (const int64_t n : kLengths) {
    const auto half = static_cast<size_t>(n / 2 + 1);
    Lines<float, complex64>("RFFT", n, n, n / 2 + 1, [half](const Numbers& x) { return Sums(x, -1, half); });
    Lines<complex64, float>("IRFFT", n, n / 2 + 1, n, [n](Numbers x) {
      // The other half is the conjugate of this one; the first and the last number count as real.
      x.front() = x.front().real();
      x.back() = x.back().real();
      for (size_t k = static_cast<size_t>(n / 2); k-- > 1;) x.push_back(std::conj(x[k]));
      Numbers y = Sums(x, 1, x.size());
      for (Number& v : y) v /= static_cast<double>(n);
      return y;
    });
  }
}

TEST_P(FftTest, ColumnsHaveTheBitsOfLines) {
  Columns<complex64>();
  Columns<complex128>();
}

TEST_P(FftTest, NanStaysInItsLine) {
  for (const int64_t n : {16, 32, 256}) {
    constexpr int64_t kCount = 19;
    const Tensor in = RandomTensor<complex64>(TensorShape({kCount, n}), 5);
    std::vector<complex64> values(in.data<complex64>(), in.data<complex64>() + kCount * n);
    values[static_cast<size_t>(4 * n + 3)] = {std::numeric_limits<float>::quiet_NaN(), 0};
    values[static_cast<size_t>(6 * n + 1)] = {std::numeric_limits<float>::infinity(), 0};
    const Tensor found = Transform("FFT", Tensor::From<complex64>(values, in.shape()));
    const Tensor expected = Transform("FFT", in);
    for (int64_t l = 0; l < kCount; ++l) {
      const Tensor a = Part<complex64>(found, l * n, TensorShape({n})),
                   b = Part<complex64>(expected, l * n, TensorShape({n}));
      if (l != 4 && l != 6) {
        EXPECT_TRUE(SameBits(a, b)) << l;
      } else {
        EXPECT_FALSE(std::isfinite(a.data<complex64>()[n / 2].real())) << l;
      }
    }
  }
}

TEST(FftBitsTest, BitsDoNotDependOnTheInstructionSet) {
  for (const int64_t n : {16, 64, 256, 2048}) {
    const Tensor in = RandomTensor<complex64>(TensorShape({9, n}), 6),
                 real = RandomTensor<float>(TensorShape({9, n}), 7);
    std::vector<Tensor> found[2];
    for (const cpu::Isa isa : {cpu::Isa::kBaseline, cpu::Isa::kAvx2, cpu::Isa::kAvx512}) {
      cpu::SetActiveIsaForTest(isa);
      found[0].push_back(Transform("IFFT2D", in));
      found[1].push_back(Transform("RFFT", real, {static_cast<int32_t>(n)}));
    }
    cpu::SetActiveIsaForTest(cpu::DetectedIsa());
    for (const auto& results : found) {
      EXPECT_TRUE(SameBits(results[0], results[1])) << n;
      EXPECT_TRUE(SameBits(results[0], results[2])) << n;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, FftTest,
                         testing::Values(cpu::Isa::kBaseline, cpu::Isa::kAvx2, cpu::Isa::kAvx512));

}  // namespace
}  // namespace millrace
