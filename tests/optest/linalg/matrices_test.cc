// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0 Factors that are not unique, tested by their properties: eigenvectors,
// singular vectors, QR of complex matrices.
#include <gtest/gtest.h>

#include <complex>
#include <random>

#include "kernel/testing.h"

namespace millrace {
namespace {

using Number = std::complex<double>;

// A plain matrix, whose products do not use the library under test.
struct Dense {
  int64_t rows, columns;
  std::vector<Number> values;
  Number& at(int64_t i, int64_t j) { return values[static_cast<size_t>(i * columns + j)]; }
  Number at(int64_t i, int64_t j) const { return values[static_cast<size_t>(i * columns + j)]; }
};
Dense Zeros(int64_t rows, int64_t columns) {
  return {rows, columns, std::vector<Number>(static_cast<size_t>(rows * columns))};
}
Dense operator*(const Dense& a, const Dense& b) {
  Dense c = Zeros(a.rows, b.columns);
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < b.columns; ++j) {
      for (int64_t k = 0; k < a.columns; ++k) c.at(i, j) += a.at(i, k) * b.at(k, j);
    }
  }
  return c;
}
Dense Adjoint(const Dense& a) {
  Dense c = Zeros(a.columns, a.rows);
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < a.columns; ++j) c.at(j, i) = std::conj(a.at(i, j));
  }
  return c;
}
double Distance(const Dense& a, const Dense& b) {
  EXPECT_EQ(a.values.size(), b.values.size());
  double most = 0;
  for (size_t i = 0; i < a.values.size(); ++i) most = std::max(most, std::abs(a.values[i] - b.values[i]));
  return most;
}
Dense Diagonal(int64_t rows, int64_t columns, const std::vector<Number>& values) {
  Dense d = Zeros(rows, columns);
  for (size_t i = 0; i < values.size(); ++i)
    d.at(static_cast<int64_t>(i), static_cast<int64_t>(i)) = values[i];
  return d;
}
void ExpectOrthonormal(const Dense& q) {
  EXPECT_LT(Distance(Adjoint(q) * q, Diagonal(q.columns, q.columns,
                                              std::vector<Number>(static_cast<size_t>(q.columns), 1.0))),
            1e-12);
}

Dense Random(int64_t rows, int64_t columns, bool complex, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> value(-2, 2);
  Dense m = Zeros(rows, columns);
  for (Number& v : m.values) v = {value(random), complex ? value(random) : 0.0};
  return m;
}

Tensor ToTensor(const Dense& m, bool complex) {
  if (complex) return Tensor::From<complex128>(m.values, TensorShape({m.rows, m.columns}));
  std::vector<double> real;
  for (const Number v : m.values) real.push_back(v.real());
  return Tensor::From<double>(real, TensorShape({m.rows, m.columns}));
}
Dense FromTensor(const Tensor& t) {
  Dense m{t.dim(0), t.rank() > 1 ? t.dim(1) : 1, {}};
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    m.values.push_back(t.dtype() == DataType::kDouble ? Number(t.data<double>()[i])
                                                      : t.data<complex128>()[i]);
  }
  return m;
}

std::vector<Dense> RunOp(const char* op, const Dense& in, bool complex, const AttrMap& attrs = {}) {
  KernelRunner runner(op);
  for (const auto& [name, value] : attrs) runner.Attr(name, value);
  const auto outputs = runner.Input(ToTensor(in, complex)).Run();
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  std::vector<Dense> out;
  if (outputs.ok()) {
    for (const Tensor& t : *outputs) out.push_back(FromTensor(t));
  }
  return out;
}

class MatricesTest : public testing::TestWithParam<bool> {};

TEST_P(MatricesTest, EigenvectorsDiagonalise) {
  for (const int64_t n : {1, 2, 5, 20}) {
    const Dense a = Random(n, n, GetParam(), 3), h = a * Adjoint(a);
    const auto out = RunOp("SelfAdjointEigV2", h, GetParam());
    ASSERT_EQ(out.size(), 2u);
    ExpectOrthonormal(out[1]);
    EXPECT_LT(Distance(h * out[1], out[1] * Diagonal(n, n, out[0].values)), 1e-11);
    for (size_t i = 1; i < out[0].values.size(); ++i)
      EXPECT_LE(out[0].values[i - 1].real(), out[0].values[i].real());
  }
}

TEST_P(MatricesTest, SingularVectorsDiagonalise) {
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>(1, 1), {4, 3}, {3, 4}, {30, 20}, {20, 45}}) {
    const Dense a = Random(m, n, GetParam(), 4);
    for (const bool full : {false, true}) {
      const auto out = RunOp("Svd", a, GetParam(), {{"full_matrices", full}});
      ASSERT_EQ(out.size(), 3u);
      ExpectOrthonormal(out[1]);
      ExpectOrthonormal(out[2]);
      EXPECT_EQ(out[1].columns, full ? m : std::min(m, n));
      EXPECT_EQ(out[2].columns, full ? n : std::min(m, n));
      const Dense s = Diagonal(out[1].columns, out[2].columns, out[0].values);
      EXPECT_LT(Distance(out[1] * s * Adjoint(out[2]), a), 1e-11);
      for (size_t i = 1; i < out[0].values.size(); ++i)
        EXPECT_GE(out[0].values[i - 1].real(), out[0].values[i].real());
    }
  }
}

TEST_P(MatricesTest, OrthogonalTimesTriangular) {
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>(1, 1), {4, 3}, {3, 4}, {40, 10}}) {
    const Dense a = Random(m, n, GetParam(), 5);
    for (const bool full : {false, true}) {
      const auto out = RunOp("Qr", a, GetParam(), {{"full_matrices", full}});
      ASSERT_EQ(out.size(), 2u);
      ExpectOrthonormal(out[0]);
      EXPECT_EQ(out[0].columns, full ? m : std::min(m, n));
      EXPECT_LT(Distance(out[0] * out[1], a), 1e-12);
      for (int64_t i = 0; i < out[1].rows; ++i) {
        for (int64_t j = 0; j < std::min(i, n); ++j) EXPECT_EQ(out[1].at(i, j), Number(0));
      }
    }
  }
}

TEST_P(MatricesTest, SquareRootsSquared) {
  const Dense a = Random(6, 6, GetParam(), 6), h = a * Adjoint(a);
  const auto out = RunOp("MatrixSquareRoot", h, GetParam());
  ASSERT_EQ(out.size(), 1u);
  EXPECT_LT(Distance(out[0] * out[0], h), 1e-10);
}

INSTANTIATE_TEST_SUITE_P(RealAndComplex, MatricesTest, testing::Bool());

TEST(MatrixLogarithmTest, UndoesTheExponential) {
  for (const int64_t n : {1, 2, 3, 7}) {
    Dense a = Random(n, n, true, 7);
    for (Number& v : a.values) v *= 0.2;
    const auto grown = RunOp("MatrixExponential", a, true);
    ASSERT_EQ(grown.size(), 1u);
    const auto log = RunOp("MatrixLogarithm", grown[0], true);
    ASSERT_EQ(log.size(), 1u);
    EXPECT_LT(Distance(log[0], a), 1e-11) << n;
  }
}

// Roots of these never converge to the identity.
TEST(MatrixLogarithmTest, OfSingularMatricesEndsInNan) {
  for (const Dense& m :
       {Zeros(3, 3), Diagonal(4, 4, {1, 1, 1, 0}), Diagonal(3, 3, {{-1, 0.0}, {-1, -0.0}, 1e300})}) {
    const auto log = RunOp("MatrixLogarithm", m, true);
    ASSERT_EQ(log.size(), 1u);
    if (m.at(m.rows - 1, m.rows - 1) == Number(0)) {
      for (const Number v : log[0].values) EXPECT_TRUE(std::isnan(v.real()));
    }
  }
}

}  // namespace
}  // namespace millrace
