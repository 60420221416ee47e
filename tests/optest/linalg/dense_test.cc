// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Factorizations and solvers of real matrices with sizes near the width of vectors and near the limits of
// algorithms, and transforms of many lines, compared with their definitions.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <numbers>
#include <random>
#include <vector>

#include "kernel/testing.h"
#include "tensor/testing.h"

namespace millrace {
namespace {

// Row-major, n x n.
using Square = std::vector<double>;

Square Random(int64_t rows, int64_t columns, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> value(-1, 1);
  Square m(static_cast<size_t>(rows * columns));
  for (double& v : m) v = value(random);
  return m;
}
double At(const double* m, int64_t columns, int64_t i, int64_t j) { return m[i * columns + j]; }
Square Times(const double* a, const double* b, int64_t n, int64_t k, int64_t m, bool transposed = false) {
  Square c(static_cast<size_t>(n * m));
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < m; ++j) {
      for (int64_t l = 0; l < k; ++l)
        c[static_cast<size_t>(i * m + j)] += (transposed ? At(a, n, l, i) : At(a, k, i, l)) * At(b, m, l, j);
    }
  }
  return c;
}
void ExpectNear(const double* got, const Square& want, double tolerance) {
  double most = 0;
  for (size_t i = 0; i < want.size(); ++i) most = std::max(most, std::abs(got[i] - want[i]));
  EXPECT_LT(most, tolerance);
}
Tensor Matrices(const Square& values, int64_t batch, int64_t rows, int64_t columns) {
  return Tensor::From<double>(values, TensorShape({batch, rows, columns}));
}

class DenseTest : public testing::TestWithParam<int64_t> {};

TEST_P(DenseTest, FactorsAndSystemsFitTheirMatrices) {
  const int64_t n = GetParam(), batch = n > 100 ? 1 : 3, k = 3;
  const Square a = Random(batch * n, n, 1), b = Random(batch * n, k, 2);
  const double tolerance = 1e-9 * static_cast<double>(n * n);
  const auto lu = *KernelRunner("Lu").Input(Matrices(a, batch, n, n)).Run();
  const Tensor inverse = *KernelRunner("MatrixInverse").Input(Matrices(a, batch, n, n)).RunOne();
  const auto logs = *KernelRunner("LogMatrixDeterminant").Input(Matrices(a, batch, n, n)).Run();
  const Tensor determinants = *KernelRunner("MatrixDeterminant").Input(Matrices(a, batch, n, n)).RunOne();
  for (int64_t m = 0; m < batch; ++m) {
    const double* const in = a.data() + m * n * n;
    const double* const f = lu[0].data<double>() + m * n * n;
    Square lower(static_cast<size_t>(n * n)), upper = lower, permuted = lower, one = lower;
    double log = 0, sign = 1;
    std::vector<int32_t> rows(lu[1].data<int32_t>() + m * n, lu[1].data<int32_t>() + (m + 1) * n);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        const auto at = static_cast<size_t>(i * n + j);
        lower[at] = i > j ? f[at] : i == j ? 1 : 0;
        upper[at] = i <= j ? f[at] : 0;
        permuted[at] = in[rows[static_cast<size_t>(i)] * n + j];
        one[at] = i == j ? 1 : 0;
        EXPECT_LE(std::abs(lower[at]), 1 + 1e-12);
      }
      const double pivot = f[i * n + i];
      log += std::log(std::abs(pivot));
      sign *= pivot < 0 ? -1 : 1;
      for (int64_t j = 0; j < i; ++j)
        sign *= rows[static_cast<size_t>(j)] > rows[static_cast<size_t>(i)] ? -1 : 1;
    }
    ExpectNear(permuted.data(), Times(lower.data(), upper.data(), n, n, n), 1e-12 * static_cast<double>(n));
    ExpectNear(Times(inverse.data<double>() + m * n * n, in, n, n, n).data(), one, tolerance);
    EXPECT_EQ(logs[0].data<double>()[m], sign);
    EXPECT_NEAR(logs[1].data<double>()[m], log, 1e-9 * static_cast<double>(n));
    if (std::abs(log) < 100) {
      EXPECT_NEAR(determinants.data<double>()[m] / (sign * std::exp(log)), 1, 1e-9 * static_cast<double>(n));
    }
  }
  for (const bool adjoint : {false, true}) {
    const Tensor x = *KernelRunner("MatrixSolve")
                          .Attr("adjoint", adjoint)
                          .Input(Matrices(a, batch, n, n))
                          .Input(Matrices(b, batch, n, k))
                          .RunOne();
    const auto back = Times(a.data(), x.data<double>(), n, n, k, adjoint);
    ExpectNear(b.data(), back, tolerance);
    for (const bool lower : {false, true}) {
      Square triangle(a.begin(), a.begin() + n * n), both = triangle;
      for (int64_t i = 0; i < n; ++i) {
        both[static_cast<size_t>(i * n + i)] = triangle[static_cast<size_t>(i * n + i)] += 4 * std::sqrt(n);
        for (int64_t j = 0; j < n; ++j) {
          if (lower ? j > i : j < i) triangle[static_cast<size_t>(i * n + j)] = 0;
        }
      }
      const Tensor y = *KernelRunner("MatrixTriangularSolve")
                            .Attr("adjoint", adjoint)
                            .Attr("lower", lower)
                            .Input(Matrices(both, 1, n, n))
                            .Input(Matrices(Square(b.begin(), b.begin() + n * k), 1, n, k))
                            .RunOne();
      const auto product = Times(triangle.data(), y.data<double>(), n, n, k, adjoint);
      ExpectNear(b.data(), product, tolerance);
    }
  }
}

TEST_P(DenseTest, CholeskyFactorsAndTheirGradientsFit) {
  const int64_t n = GetParam();
  const Square a = Random(n, n, 3), weights = Random(n, n, 4);
  Square positive = Times(a.data(), a.data(), n, n, n, true);
  for (int64_t i = 0; i < n; ++i) positive[static_cast<size_t>(i * n + i)] += 1;
  const auto factor = [&](const Square& m) {
    return *KernelRunner("Cholesky").Input(Matrices(m, 1, n, n)).RunOne();
  };
  const Tensor l = factor(positive);
  Square transposed(static_cast<size_t>(n * n));
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      transposed[static_cast<size_t>(j * n + i)] = l.data<double>()[i * n + j];
      EXPECT_TRUE(j <= i || l.data<double>()[i * n + j] == 0);
    }
  }
  ExpectNear(positive.data(), Times(l.data<double>(), transposed.data(), n, n, n), 1e-10);
  // Only the lower half is used; a matrix that is not positive definite is an error.
  Square other = positive;
  if (n > 1) other[1] = 1e9;
  ExpectTensorEqual(l, factor(other));
  other = positive;
  other.back() = -1;
  EXPECT_FALSE(KernelRunner("Cholesky").Input(Matrices(other, 1, n, n)).RunOne().ok());
  if (n > 40) return;
  const Tensor gradient = *KernelRunner("CholeskyGrad")
                               .Input(Matrices(Square(l.data<double>(), l.data<double>() + n * n), 1, n, n))
                               .Input(Matrices(weights, 1, n, n))
                               .RunOne();
  const Square direction = Random(n, n, 5);
  const auto loss = [&](double h) {
    Square moved = positive;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j)
        moved[static_cast<size_t>(i * n + j)] +=
            h * (direction[static_cast<size_t>(i * n + j)] + direction[static_cast<size_t>(j * n + i)]);
    }
    const Tensor moved_factor = factor(moved);
    double sum = 0;
    for (int64_t i = 0; i < n * n; ++i)
      sum += weights[static_cast<size_t>(i)] * moved_factor.data<double>()[i];
    return sum;
  };
  double slope = 0;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j)
      slope += gradient.data<double>()[i * n + j] *
               (direction[static_cast<size_t>(i * n + j)] + direction[static_cast<size_t>(j * n + i)]);
  }
  EXPECT_NEAR((loss(1e-5) - loss(-1e-5)) / 2e-5, slope, 1e-5 * (1 + std::abs(slope)));
}

TEST_P(DenseTest, SingularMatricesAreErrors) {
  const int64_t n = GetParam();
  Square a = Random(n, n, 6);
  for (int64_t i = 0; i < n; ++i) a[static_cast<size_t>(i * n + n / 2)] = 0;
  for (const char* op : {"MatrixInverse", "Lu"}) {
    const auto status = KernelRunner(op).Input(Matrices(a, 1, n, n)).Run().status();
    EXPECT_NE(status.message().find("Input is not invertible."), std::string_view::npos) << status;
  }
  const Tensor zero = *KernelRunner("MatrixDeterminant").Input(Matrices(a, 1, n, n)).RunOne();
  EXPECT_EQ(zero.data<double>()[0], 0);
  a[0] = std::numeric_limits<double>::quiet_NaN();
  const Tensor none = *KernelRunner("MatrixDeterminant").Input(Matrices(a, 1, n, n)).RunOne();
  EXPECT_TRUE(n == 1 || std::isnan(none.data<double>()[0]) || none.data<double>()[0] == 0);
}

INSTANTIATE_TEST_SUITE_P(Sizes, DenseTest, testing::Values(1, 2, 7, 8, 9, 31, 33, 64, 255, 257));

TEST(SquareRootTest, PrincipalOrNotANumber) {
  for (const int64_t n : {8, 12, 33}) {
    Square a = Random(n, n, 7);
    for (int64_t i = 0; i < n; ++i)
      a[static_cast<size_t>(i * n + i)] += 2 * std::sqrt(static_cast<double>(n));
    const Tensor root = *KernelRunner("MatrixSquareRoot").Input(Matrices(a, 1, n, n)).RunOne();
    ExpectNear(a.data(), Times(root.data<double>(), root.data<double>(), n, n, n), 1e-11);
    double trace = 0;
    for (int64_t i = 0; i < n; ++i) trace += root.data<double>()[i * n + i];
    EXPECT_GT(trace, 0);
    // A negative eigenvalue: the root is not real. Zero: it is, as for a diagonal matrix.
    Square diagonal(static_cast<size_t>(n * n));
    for (int64_t i = 0; i < n; ++i) diagonal[static_cast<size_t>(i * n + i)] = static_cast<double>(i * i);
    const Tensor zero = *KernelRunner("MatrixSquareRoot").Input(Matrices(diagonal, 1, n, n)).RunOne();
    for (int64_t i = 0; i < n; ++i)
      EXPECT_NEAR(zero.data<double>()[i * n + i], static_cast<double>(i), 1e-12);
    diagonal[0] = -1;
    const Tensor none = *KernelRunner("MatrixSquareRoot").Input(Matrices(diagonal, 1, n, n)).RunOne();
    EXPECT_TRUE(std::isnan(none.data<double>()[0]));
  }
}

TEST(LeastSquaresTest, TheGradientOfTheSquaresIsZero) {
  constexpr double kWeight = 0.25;
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>(1, 1), {9, 4}, {4, 9}, {33, 33}, {300, 5}}) {
    const Square a = Random(m, n, 8), b = Random(m, 2, 9);
    const Tensor x = *KernelRunner("MatrixSolveLs")
                          .Attr("fast", true)
                          .Input(Matrices(a, 1, m, n))
                          .Input(Matrices(b, 1, m, 2))
                          .Input(Tensor::Scalar(kWeight))
                          .RunOne();
    Square rest = Times(a.data(), x.data<double>(), m, n, 2);
    for (size_t i = 0; i < rest.size(); ++i) rest[i] -= b[i];
    const Square slope = Times(a.data(), rest.data(), n, m, 2, true);
    Square pull(static_cast<size_t>(2 * n));
    for (size_t i = 0; i < pull.size(); ++i) pull[i] = -kWeight * x.data<double>()[i];
    ExpectNear(slope.data(), pull, 1e-10 * static_cast<double>(m));
  }
}

// Lines side by side and remaining ones, of lengths with small and with large factors.
TEST(TransformsTest, ManyLinesAreTheirSums) {
  using Number = std::complex<double>;
  for (const int64_t lines : {1, 7, 8, 19}) {
    for (const int64_t n : {1, 2, 3, 8, 12, 26, 34, 60}) {
      SCOPED_TRACE(testing::Message() << lines << " lines of " << n);
      const Square parts = Random(lines * n, 2, 10);
      std::vector<complex128> in;
      for (size_t i = 0; i < parts.size(); i += 2) in.emplace_back(parts[i], parts[i + 1]);
      for (const bool inverse : {false, true}) {
        const Tensor out = *KernelRunner(inverse ? "IFFT" : "FFT")
                                .Input(Tensor::From<complex128>(in, TensorShape({lines, n})))
                                .RunOne();
        double most = 0;
        for (int64_t l = 0; l < lines; ++l) {
          for (int64_t k = 0; k < n; ++k) {
            Number sum = 0;
            for (int64_t j = 0; j < n; ++j) {
              const double turn = (inverse ? 2 : -2) * std::numbers::pi * static_cast<double>(j * k % n) /
                                  static_cast<double>(n);
              sum += in[static_cast<size_t>(l * n + j)] * std::polar(1.0, turn);
            }
            if (inverse) sum /= static_cast<double>(n);
            most = std::max(most, std::abs(sum - Number(out.data<complex128>()[l * n + k])));
          }
        }
        EXPECT_LT(most, 1e-12);
      }
    }
  }
}

TEST(TransformsTest, SpectrogramsAreTheirSums) {
  for (const int64_t window : {2, 6, 16, 25}) {
    const int64_t samples = 16 * window + 3, channels = 2, stride = window / 2;
    const Square values = Random(samples, channels, 11);
    const Tensor out = *KernelRunner("AudioSpectrogram")
                            .Attr("window_size", window)
                            .Attr("stride", stride)
                            .Attr("magnitude_squared", true)
                            .Input(Tensor::From<float>(std::vector<float>(values.begin(), values.end()),
                                                       TensorShape({samples, channels})))
                            .RunOne();
    int64_t length = 1;
    while (length < window) length *= 2;
    const int64_t slices = 1 + (samples - window) / stride, bins = length / 2 + 1;
    ASSERT_EQ(out.shape(), TensorShape({channels, slices, bins}));
    for (int64_t i = 0; i < channels * slices * bins; ++i) {
      const int64_t k = i % bins, slice = i / bins % slices, channel = i / bins / slices;
      std::complex<double> sum = 0;
      for (int64_t j = 0; j < window; ++j) {
        const double hann =
            0.5 - 0.5 * std::cos(2 * std::numbers::pi * static_cast<double>(j) / static_cast<double>(window));
        const double sample = static_cast<double>(
            static_cast<float>(values[static_cast<size_t>((slice * stride + j) * channels + channel)]));
        sum +=
            hann * sample *
            std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(j * k) / static_cast<double>(length));
      }
      EXPECT_NEAR(out.data<float>()[i], std::norm(sum), 1e-5);
    }
  }
}

}  // namespace
}  // namespace millrace
