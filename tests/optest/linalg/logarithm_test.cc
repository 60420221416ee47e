// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Logarithms of complex matrices beside the exponential by its series, on each instruction set.
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

Numbers Product(const Numbers& a, const Numbers& b, int64_t n) {
  Numbers c(a.size());
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < n; ++k) {
      for (int64_t j = 0; j < n; ++j)
        c[static_cast<size_t>(i * n + j)] +=
            a[static_cast<size_t>(i * n + k)] * b[static_cast<size_t>(k * n + j)];
    }
  }
  return c;
}
double Norm(const Numbers& a) {
  double sum = 0;
  for (const Number x : a) sum += std::norm(x);
  return std::sqrt(sum);
}
double Distance(const Numbers& a, const Numbers& b) {
  Numbers difference = a;
  for (size_t i = 0; i < a.size(); ++i) difference[i] -= b[i];
  return Norm(difference);
}
// By its series for a part of it, squared again and again.
Numbers Exponential(Numbers a, int64_t n) {
  int squares = 0;
  for (double norm = Norm(a); norm > 0.25; norm /= 2) ++squares;
  for (Number& x : a) x = {std::ldexp(x.real(), -squares), std::ldexp(x.imag(), -squares)};
  Numbers sum(a.size()), term(a.size());
  for (int64_t i = 0; i < n; ++i)
    sum[static_cast<size_t>(i * n + i)] = term[static_cast<size_t>(i * n + i)] = 1;
  for (int k = 1; k < 16; ++k) {
    term = Product(term, a, n);
    for (size_t i = 0; i < a.size(); ++i) sum[i] += term[i] /= k;
  }
  for (; squares > 0; --squares) sum = Product(sum, sum, n);
  return sum;
}

struct Case {
  cpu::Isa isa;
  int64_t n;
};

class LogarithmTest : public testing::TestWithParam<Case> {
 protected:
  LogarithmTest() { cpu::SetActiveIsaForTest(GetParam().isa); }
  ~LogarithmTest() override { cpu::SetActiveIsaForTest(cpu::DetectedIsa()); }

  static Numbers Random(double diagonal, bool complex, unsigned seed) {
    const int64_t n = GetParam().n;
    std::mt19937 random(seed);
    std::normal_distribution<double> value;
    Numbers a(static_cast<size_t>(n * n));
    for (Number& x : a) {
      const double re = value(random), im = value(random);
      x = {re, complex ? im : 0};
    }
    for (int64_t i = 0; i < n; ++i) a[static_cast<size_t>(i * n + i)] += diagonal;
    return a;
  }
  template <typename T>
  static Tensor Log(const std::vector<Numbers>& batch) {
    std::vector<T> values;
    for (const Numbers& a : batch) {
      for (const Number x : a) values.push_back(T(x));
    }
    const int64_t n = GetParam().n;
    return *KernelRunner("MatrixLogarithm")
                .Input(Tensor::From<T>(values, TensorShape({static_cast<int64_t>(batch.size()), n, n})))
                .RunOne();
  }
  template <typename T>
  static Numbers MatrixOf(const Tensor& t, size_t m) {
    const size_t size = static_cast<size_t>(GetParam().n * GetParam().n);
    Numbers a(size);
    for (size_t i = 0; i < size; ++i) a[i] = Number(t.data<T>()[m * size + i]);
    return a;
  }
  static std::vector<Numbers> Batch() {
    const auto n = static_cast<double>(GetParam().n);
    return {Random(n, false, 1), Random(2 * std::sqrt(n) + 2, true, 2), Random(std::sqrt(n), true, 3),
            Random(0, true, 4)};
  }
};

TEST_P(LogarithmTest, ExponentialsAreTheMatrices) {
  const std::vector<Numbers> batch = Batch();
  const int64_t n = GetParam().n;
  const Tensor wide = Log<complex128>(batch), narrow = Log<complex64>(batch);
  for (size_t m = 0; m < batch.size(); ++m) {
    const Numbers log = MatrixOf<complex128>(wide, m);
    EXPECT_LE(Distance(Exponential(log, n), batch[m]), 1e-12 * Norm(batch[m])) << m;
    EXPECT_LE(Distance(MatrixOf<complex64>(narrow, m), log), 1e-4 * Norm(log)) << m;
    // Of the principal logarithm: the sum of the angles of the eigenvalues is that of the determinant.
    Number trace;
    for (int64_t i = 0; i < n; ++i) trace += log[static_cast<size_t>(i * n + i)];
    EXPECT_LE(std::abs(trace.imag()), std::numbers::pi * static_cast<double>(n));
  }
}

TEST_P(LogarithmTest, BitsDoNotDependOnOtherMatrices) {
  const std::vector<Numbers> batch = Batch();
  const Tensor all = Log<complex128>(batch);
  for (size_t m = 0; m < batch.size(); ++m) {
    const Numbers alone = MatrixOf<complex128>(Log<complex128>({batch[m]}), 0),
                  together = MatrixOf<complex128>(all, m);
    EXPECT_EQ(std::memcmp(alone.data(), together.data(), alone.size() * sizeof(Number)), 0) << m;
  }
}

TEST_P(LogarithmTest, OfMultiples) {
  const int64_t n = GetParam().n;
  const Numbers a = Random(2 * std::sqrt(static_cast<double>(n)) + 2, true, 5);
  const Numbers log = MatrixOf<complex128>(Log<complex128>({a}), 0);
  for (const double factor : {1e-150, 1e-30, 1e30, 1e150}) {
    Numbers scaled = a, expected = log;
    for (Number& x : scaled) x *= factor;
    for (int64_t i = 0; i < n; ++i) expected[static_cast<size_t>(i * n + i)] += std::log(factor);
    const Numbers found = MatrixOf<complex128>(Log<complex128>({scaled}), 0);
    EXPECT_LE(Distance(found, expected), 1e-12 * Norm(expected)) << factor;
  }
}

TEST_P(LogarithmTest, OfKnownMatrices) {
  const int64_t n = GetParam().n;
  const auto at = [n](int64_t i, int64_t j) { return static_cast<size_t>(i * n + j); };
  // A turn of each plane of two coordinates, stretched; one of a diagonal with all angles; one plus a step.
  Numbers turn(static_cast<size_t>(n * n)), turn_log = turn, diagonal = turn, diagonal_log = turn,
                                            step = turn, step_log = turn;
  for (int64_t i = 0; i < n; ++i) {
    turn[at(i, i)] = 3;
    turn_log[at(i, i)] = std::log(3.0);
    const double angle = 3 * std::sin(static_cast<double>(i)),
                 size = std::exp(std::cos(static_cast<double>(i)));
    diagonal[at(i, i)] = std::polar(size, angle);
    diagonal_log[at(i, i)] = {std::log(size), angle};
    step[at(i, i)] = 1;
  }
  for (int64_t i = 0; i + 1 < n; i += 2) {
    const double angle = 0.4 + 2.5 * static_cast<double>(i) / static_cast<double>(n);
    turn[at(i, i)] = turn[at(i + 1, i + 1)] = 3 * std::cos(angle);
    turn[at(i, i + 1)] = -3 * std::sin(angle);
    turn[at(i + 1, i)] = 3 * std::sin(angle);
    turn_log[at(i, i + 1)] = -angle;
    turn_log[at(i + 1, i)] = angle;
  }
  step[at(0, n - 1)] += Number(1e5, -2e5);
  step_log[at(0, n - 1)] += Number(1e5, -2e5);
  const std::vector<Numbers> expected = {turn_log, diagonal_log, step_log};
  const Tensor found = Log<complex128>({turn, diagonal, step});
  for (size_t m = 0; m < expected.size(); ++m)
    EXPECT_LE(Distance(MatrixOf<complex128>(found, m), expected[m]), 1e-12 * Norm(expected[m])) << m;
}

TEST_P(LogarithmTest, NanStaysInItsMatrix) {
  std::vector<Numbers> batch = Batch();
  const Tensor expected = Log<complex128>(batch);
  batch[1][1] = std::numeric_limits<double>::quiet_NaN();
  batch[2].assign(batch[2].size(), 0);
  const Tensor found = Log<complex128>(batch);
  for (const size_t m : {0, 3}) {
    const Numbers a = MatrixOf<complex128>(found, m), b = MatrixOf<complex128>(expected, m);
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(Number)), 0);
  }
  for (const size_t m : {1, 2}) {
    for (const Number x : MatrixOf<complex128>(found, m)) EXPECT_TRUE(std::isnan(x.real()));
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const cpu::Isa isa : {cpu::Isa::kBaseline, cpu::Isa::kAvx2, cpu::Isa::kAvx512}) {
    for (const int64_t n : {2, 3, 7, 8, 9, 17, 33, 64}) cases.push_back({isa, n});
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Sizes, LogarithmTest, testing::ValuesIn(Cases()));

}  // namespace
}  // namespace millrace
