// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Batches of small matrices of floats and doubles beside plain loops in double precision: about the sizes of
// registers and where other methods begin, on each instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "kernel/testing.h"
#include "kernels/cpu/contract/isa.h"
#include "tensor/testing.h"

namespace millrace {
namespace {

using Values = std::vector<double>;

struct Case {
  cpu::Isa isa;
  int64_t n;
};

template <typename T>
class Batch {
 public:
  Batch(int64_t count, int64_t rows, int64_t columns, unsigned seed)
      : count_(count), rows_(rows), columns_(columns), values_(static_cast<size_t>(count * rows * columns)) {
    std::mt19937 random(seed);
    std::normal_distribution<double> value;
    for (T& v : values_) v = static_cast<T>(value(random));
  }

  T& At(int64_t m, int64_t i, int64_t j) {
    return values_[static_cast<size_t>((m * rows_ + i) * columns_ + j)];
  }
  void AddToDiagonal(double x) {
    for (int64_t m = 0; m < count_; ++m) {
      for (int64_t i = 0; i < std::min(rows_, columns_); ++i) At(m, i, i) += static_cast<T>(x);
    }
  }
  // The lower half counts.
  void MakeSymmetric() {
    for (int64_t m = 0; m < count_; ++m) {
      for (int64_t i = 0; i < rows_; ++i) {
        for (int64_t j = 0; j < i; ++j) At(m, j, i) = At(m, i, j);
      }
    }
  }
  Tensor AsTensor() const { return Tensor::From<T>(values_, TensorShape({count_, rows_, columns_})); }

 private:
  int64_t count_, rows_, columns_;
  std::vector<T> values_;
};

// Matrix m of a batch.
template <typename T>
Values MatrixOf(const Tensor& t, int64_t m) {
  const int64_t size = t.dim(1) * t.dim(2);
  const T* const from = t.data<T>() + m * size;
  return Values(from, from + size);
}
Values Transposed(const Values& a, int64_t rows, int64_t columns) {
  Values t(a.size());
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j)
      t[static_cast<size_t>(j * rows + i)] = a[static_cast<size_t>(i * columns + j)];
  }
  return t;
}
Values Product(const Values& a, const Values& b, int64_t rows, int64_t inner, int64_t columns) {
  Values c(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t k = 0; k < inner; ++k) {
      for (int64_t j = 0; j < columns; ++j)
        c[static_cast<size_t>(i * columns + j)] +=
            a[static_cast<size_t>(i * inner + k)] * b[static_cast<size_t>(k * columns + j)];
    }
  }
  return c;
}
Values Identity(int64_t n) {
  Values one(static_cast<size_t>(n * n));
  for (int64_t i = 0; i < n; ++i) one[static_cast<size_t>(i * n + i)] = 1;
  return one;
}
double Norm(const Values& a) {
  double sum = 0;
  for (const double x : a) sum += x * x;
  return std::sqrt(sum);
}
double Distance(const Values& a, const Values& b) {
  Values difference = a;
  for (size_t i = 0; i < a.size(); ++i) difference[i] -= b[i];
  return Norm(difference);
}

constexpr int64_t kBatch = 7;

class SmallMatricesTest : public testing::TestWithParam<Case> {
 protected:
  SmallMatricesTest() { cpu::SetActiveIsaForTest(GetParam().isa); }
  ~SmallMatricesTest() override { cpu::SetActiveIsaForTest(cpu::DetectedIsa()); }

  template <typename T>
  static double Bound(int64_t n) {
    return 8 * static_cast<double>(n + 4) * static_cast<double>(std::numeric_limits<T>::epsilon());
  }

  template <typename T>
  static void Systems() {
    const int64_t n = GetParam().n, k = n % 3 == 0 ? 1 : 70;
    Batch<T> a(kBatch, n, n, 1), b(kBatch, n, k, 2);
    const Tensor at = a.AsTensor(), bt = b.AsTensor();
    const auto lu = *KernelRunner("Lu").Input(at).Run();
    const auto logs = *KernelRunner("LogMatrixDeterminant").Input(at).Run();
    for (int64_t m = 0; m < kBatch; ++m) {
      const Values in = MatrixOf<T>(at, m), factors = MatrixOf<T>(lu[0], m);
      Values lower = Identity(n), upper(in.size()), permuted(in.size());
      double log = 0;
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          const auto place = static_cast<size_t>(i * n + j);
          (i > j ? lower : upper)[place] = factors[place];
          EXPECT_LE(i > j ? std::abs(factors[place]) : 0, 1);
          permuted[place] = in[static_cast<size_t>(lu[1].data<int32_t>()[m * n + i] * n + j)];
        }
        log += std::log(std::abs(factors[static_cast<size_t>(i * n + i)]));
      }
      EXPECT_LE(Distance(Product(lower, upper, n, n, n), permuted), Bound<T>(n) * Norm(in));
      EXPECT_NEAR(logs[1].data<T>()[m], log, Bound<T>(n) * (1 + std::abs(log)));
    }
    for (const bool adjoint : {false, true}) {
      const Tensor x = *KernelRunner("MatrixSolve").Attr("adjoint", adjoint).Input(at).Input(bt).RunOne();
      const Tensor inverse = *KernelRunner("MatrixInverse").Attr("adjoint", adjoint).Input(at).RunOne();
      for (int64_t m = 0; m < kBatch; ++m) {
        Values in = MatrixOf<T>(at, m);
        if (adjoint) in = Transposed(in, n, n);
        const Values found = MatrixOf<T>(x, m), other = MatrixOf<T>(inverse, m);
        EXPECT_LE(Distance(Product(in, found, n, n, k), MatrixOf<T>(bt, m)),
                  Bound<T>(n) * Norm(in) * Norm(found));
        EXPECT_LE(Distance(Product(in, other, n, n, n), Identity(n)), Bound<T>(n) * Norm(in) * Norm(other));
      }
    }
  }

  template <typename T>
  static void Triangles() {
    const int64_t n = GetParam().n, k = 5;
    Batch<T> a(kBatch, n, n, 3), b(kBatch, n, k, 4);
    a.AddToDiagonal(2 * std::sqrt(static_cast<double>(n)) + 4);
    const Tensor at = a.AsTensor(), bt = b.AsTensor();
    for (int mode = 0; mode < 4; ++mode) {
      const bool lower = (mode & 1) != 0, adjoint = (mode & 2) != 0;
      const Tensor x = *KernelRunner("MatrixTriangularSolve")
                            .Attr("lower", lower)
                            .Attr("adjoint", adjoint)
                            .Input(at)
                            .Input(bt)
                            .RunOne();
      for (int64_t m = 0; m < kBatch; ++m) {
        Values triangle = MatrixOf<T>(at, m);
        for (int64_t i = 0; i < n; ++i) {
          for (int64_t j = 0; j < n; ++j) {
            if (lower ? j > i : j < i) triangle[static_cast<size_t>(i * n + j)] = 0;
          }
        }
        if (adjoint) triangle = Transposed(triangle, n, n);
        const Values found = MatrixOf<T>(x, m);
        EXPECT_LE(Distance(Product(triangle, found, n, n, k), MatrixOf<T>(bt, m)),
                  Bound<T>(n) * Norm(triangle) * Norm(found));
      }
    }
    Batch<T> symmetric(kBatch, n, n, 5);
    symmetric.AddToDiagonal(4 * static_cast<double>(n));
    symmetric.MakeSymmetric();
    const Tensor positive = symmetric.AsTensor();
    const Tensor l = *KernelRunner("Cholesky").Input(positive).RunOne();
    for (int64_t m = 0; m < kBatch; ++m) {
      const Values factor = MatrixOf<T>(l, m), in = MatrixOf<T>(positive, m);
      EXPECT_LE(Distance(Product(factor, Transposed(factor, n, n), n, n, n), in), Bound<T>(n) * Norm(in));
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = i + 1; j < n; ++j) EXPECT_EQ(factor[static_cast<size_t>(i * n + j)], 0);
      }
    }
  }

  // Q R and U S V of m x n matrices.
  template <typename T>
  static void Orthogonal(int64_t rows, int64_t columns) {
    const int64_t p = std::min(rows, columns);
    const Tensor in = Batch<T>(kBatch, rows, columns, 6).AsTensor();
    const auto qr = *KernelRunner("Qr").Input(in).Run();
    const auto svd = *KernelRunner("Svd").Input(in).Run();
    const auto values_only = *KernelRunner("Svd").Attr("compute_uv", false).Input(in).Run();
    for (int64_t m = 0; m < kBatch; ++m) {
      const Values a = MatrixOf<T>(in, m), q = MatrixOf<T>(qr[0], m), r = MatrixOf<T>(qr[1], m);
      EXPECT_LE(Distance(Product(q, r, rows, p, columns), a), Bound<T>(rows) * Norm(a));
      EXPECT_LE(Distance(Product(Transposed(q, rows, p), q, p, rows, p), Identity(p)), 4 * Bound<T>(rows));
      for (int64_t i = 0; i < p; ++i) {
        for (int64_t j = 0; j < std::min(i, columns); ++j)
          EXPECT_EQ(r[static_cast<size_t>(i * columns + j)], 0);
      }
      Values u = MatrixOf<T>(svd[1], m);
      const Values v = MatrixOf<T>(svd[2], m);
      EXPECT_LE(Distance(Product(Transposed(u, rows, p), u, p, rows, p), Identity(p)), 8 * Bound<T>(rows));
      EXPECT_LE(Distance(Product(Transposed(v, columns, p), v, p, columns, p), Identity(p)),
                8 * Bound<T>(rows));
      const T* const s = svd[0].data<T>() + m * p;
      for (int64_t j = 0; j < p; ++j) {
        EXPECT_GE(s[j], 0);
        EXPECT_LE(s[j], s[std::max<int64_t>(j - 1, 0)]);
        EXPECT_NEAR(values_only[0].data<T>()[m * p + j], s[j], 4 * Bound<T>(rows) * s[0]);
        for (int64_t i = 0; i < rows; ++i) u[static_cast<size_t>(i * p + j)] *= s[j];
      }
      EXPECT_LE(Distance(Product(u, Transposed(v, columns, p), rows, p, columns), a),
                4 * Bound<T>(rows) * Norm(a));
    }
  }

  template <typename T>
  static void Eigenvectors() {
    const int64_t n = GetParam().n;
    Batch<T> a(kBatch, n, n, 7);
    a.MakeSymmetric();
    const Tensor in = a.AsTensor();
    const auto eig = *KernelRunner("SelfAdjointEigV2").Input(in).Run();
    for (int64_t m = 0; m < kBatch; ++m) {
      const Values symmetric = MatrixOf<T>(in, m), v = MatrixOf<T>(eig[1], m);
      EXPECT_LE(Distance(Product(Transposed(v, n, n), v, n, n, n), Identity(n)), 8 * Bound<T>(n));
      Values scaled = v;
      const T* const e = eig[0].data<T>() + m * n;
      for (int64_t j = 0; j < n; ++j) {
        EXPECT_GE(e[j], e[std::max<int64_t>(j - 1, 0)]);
        for (int64_t i = 0; i < n; ++i) scaled[static_cast<size_t>(i * n + j)] *= e[j];
      }
      EXPECT_LE(Distance(Product(symmetric, v, n, n, n), scaled), 8 * Bound<T>(n) * Norm(symmetric));
    }
  }
};

TEST_P(SmallMatricesTest, FactorsAndSystemsFit) {
  Systems<float>();
  Systems<double>();
}

TEST_P(SmallMatricesTest, TrianglesFit) {
  Triangles<float>();
  Triangles<double>();
}

TEST_P(SmallMatricesTest, OrthogonalFactorsFit) {
  const int64_t n = GetParam().n;
  for (const int64_t other : {n, (n + 1) / 2, std::min<int64_t>(n + 3, 64)}) {
    Orthogonal<float>(n, other);
    Orthogonal<double>(n, other);
  }
}

TEST_P(SmallMatricesTest, EigenvectorsFit) {
  Eigenvectors<float>();
  Eigenvectors<double>();
}

// The bits do not depend on the place in a batch.
TEST_P(SmallMatricesTest, PlacesDoNotMatter) {
  const int64_t n = GetParam().n, count = 33;
  Batch<float> all(count, n, n, 8);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) all.At(count - 1, i, j) = all.At(2, i, j);
  }
  for (const char* const op : {"Lu", "MatrixInverse", "Qr", "Svd", "SelfAdjointEigV2"}) {
    const auto out = *KernelRunner(op).Input(all.AsTensor()).Run();
    const int64_t size = out[0].num_elements() / count;
    const float* const at = out[0].data<float>();
    EXPECT_TRUE(std::equal(at + 2 * size, at + 3 * size, at + (count - 1) * size)) << op;
  }
}

TEST_P(SmallMatricesTest, SingularAndUnusualMatrices) {
  const int64_t n = GetParam().n;
  if (n < 2) return;
  Batch<float> a(kBatch, n, n, 9);
  for (int64_t i = 0; i < n; ++i) a.At(4, i, n - 1) = 0;
  EXPECT_FALSE(KernelRunner("MatrixInverse").Input(a.AsTensor()).Run().ok());
  EXPECT_FALSE(KernelRunner("Lu").Input(a.AsTensor()).Run().ok());
  EXPECT_FALSE(KernelRunner("Cholesky").Input(a.AsTensor()).Run().ok());
  const Tensor determinants = *KernelRunner("MatrixDeterminant").Input(a.AsTensor()).RunOne();
  EXPECT_EQ(determinants.data<float>()[4], 0);
  EXPECT_NE(determinants.data<float>()[3], 0);
  // Of less than full rank: both bases are still complete.
  const auto svd = *KernelRunner("Svd").Input(a.AsTensor()).Run();
  const Values u = MatrixOf<float>(svd[1], 4);
  EXPECT_LE(Distance(Product(Transposed(u, n, n), u, n, n, n), Identity(n)), 8 * Bound<float>(n));
  EXPECT_LE(svd[0].data<float>()[4 * n + n - 1], Bound<float>(n) * svd[0].data<float>()[4 * n]);
  a.At(4, n - 1, n - 1) = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(KernelRunner("MatrixInverse").Input(a.AsTensor()).Run().ok());
  EXPECT_TRUE(std::isnan((*KernelRunner("Svd").Input(a.AsTensor()).Run())[0].data<float>()[4 * n]));
  EXPECT_FALSE(KernelRunner("SelfAdjointEigV2").Input(a.AsTensor()).Run().ok());
}

// Numbers whose squares leave the range of floats.
TEST_P(SmallMatricesTest, WideRange) {
  const int64_t n = GetParam().n;
  for (const float scale : {1e-30F, 1e30F}) {
    Batch<float> a(1, n, n, 10);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) a.At(0, i, j) *= scale;
    }
    const Tensor in = a.AsTensor();
    const auto qr = *KernelRunner("Qr").Input(in).Run();
    const Values q = MatrixOf<float>(qr[0], 0), want = MatrixOf<float>(in, 0);
    EXPECT_LE(Distance(Product(q, MatrixOf<float>(qr[1], 0), n, n, n), want), Bound<float>(n) * Norm(want));
    const auto svd = *KernelRunner("Svd").Input(in).Run();
    double squares = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double s = svd[0].data<float>()[i];
      squares += s * s;
    }
    EXPECT_NEAR(std::sqrt(squares) / Norm(want), 1, Bound<float>(n));
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const cpu::Isa isa : {cpu::Isa::kBaseline, cpu::Isa::kAvx2, cpu::Isa::kAvx512}) {
    for (const int64_t n : {1, 2, 3, 4, 5, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65})
      cases.push_back({isa, n});
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Sizes, SmallMatricesTest, testing::ValuesIn(Cases()));

}  // namespace
}  // namespace millrace
