// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contract/gemm.h"

#include <gtest/gtest.h>

#include <complex>
#include <limits>
#include <string>

#include "kernels/cpu/contract/contract_testing.h"

namespace millrace::cpu {
namespace {

constexpr double kUntouched = 77;

int64_t Leading(int64_t given, int64_t dense) { return given == 0 ? dense : given; }

// One product with its operands; rows may be further apart than their length.
template <typename T>
struct Problem {
  GemmShape shape;
  std::vector<T> a, b, c;
  EpilogueData<T> epilogue;

  int64_t lda() const { return Leading(shape.lda, shape.trans_a ? shape.m : shape.k); }
  int64_t ldb() const { return Leading(shape.ldb, shape.trans_b ? shape.k : shape.n); }
  int64_t ldc() const { return Leading(shape.ldc, shape.n); }

  static Problem Make(Random& random, GemmShape shape) {
    Problem p{.shape = shape, .a = {}, .b = {}, .c = {}, .epilogue = {}};
    p.a = random.Values<T>((shape.trans_a ? shape.k : shape.m) * p.lda());
    p.b = random.Values<T>((shape.trans_b ? shape.n : shape.k) * p.ldb());
    p.c = shape.accumulate ? random.Values<T>(shape.m * p.ldc()) : Filled<T>(shape.m * p.ldc(), kUntouched);
    p.epilogue = EpilogueData<T>::Make(random, shape.n, shape.m * p.ldc());
    return p;
  }

  std::vector<double> Expected() const {
    std::vector<double> result(c.begin(), c.end());
    for (int64_t i = 0; i < shape.m; ++i) {
      for (int64_t j = 0; j < shape.n; ++j) {
        double sum = shape.accumulate ? static_cast<double>(c[i * ldc() + j]) : 0;
        for (int64_t k = 0; k < shape.k; ++k) {
          const T x = shape.trans_a ? a[k * lda() + i] : a[i * lda() + k];
          const T y = shape.trans_b ? b[j * ldb() + k] : b[k * ldb() + j];
          sum += static_cast<double>(x) * static_cast<double>(y);
        }
        result[i * ldc() + j] = epilogue.Apply(sum, j, i * ldc() + j);
      }
    }
    return result;
  }

  std::vector<T> Run(Parallel& parallel) const {
    std::vector<T> result = c;
    Gemm(shape, a.data(), b.data(), result.data(), parallel, epilogue.Borrow());
    return result;
  }
};

std::string Describe(const GemmShape& s) {
  return std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k) +
         (s.trans_a ? " T" : " N") + (s.trans_b ? "T" : "N") + (s.accumulate ? " +=" : " =") + " isa " +
         std::to_string(static_cast<int>(ActiveIsa()));
}

template <typename T>
void CheckRandomShapes(int count, int64_t limit) {
  ForEachIsa([&](Isa isa) {
    Random random(7 + static_cast<uint32_t>(isa));
    for (int i = 0; i < count; ++i) {
      GemmShape s{.m = random.Int(0, limit), .n = random.Int(0, limit), .k = random.Int(0, limit)};
      s.trans_a = random.Coin(), s.trans_b = random.Coin(), s.accumulate = random.Coin();
      if (random.Int(0, 3) == 0) {
        s.lda = (s.trans_a ? s.m : s.k) + random.Int(1, 5);
        s.ldb = (s.trans_b ? s.k : s.n) + random.Int(1, 5);
        s.ldc = s.n + random.Int(1, 5);
      }
      const auto problem = Problem<T>::Make(random, s);
      SerialParallel serial;
      ASSERT_LE(ErrorOf(problem.Run(serial), problem.Expected(), s.k + 2), 1.0) << Describe(s);
    }
  });
}

TEST(Gemm, FloatEqualsTheDefinitionForRandomShapes) { CheckRandomShapes<float>(300, 70); }
TEST(Gemm, DoubleEqualsTheDefinitionForRandomShapes) { CheckRandomShapes<double>(300, 40); }

TEST(Gemm, LayersOfTheDigitModelsEqualTheDefinition) {
  ForEachIsa([](Isa) {
    Random random(3);
    for (auto [n, k] : {std::pair{10, 784}, {200, 784}, {100, 200}, {60, 100}, {30, 60}, {10, 30}}) {
      for (const GemmShape& s :
           {GemmShape{.m = 100, .n = n, .k = k}, GemmShape{.m = k, .n = n, .k = 100, .trans_a = true},
            GemmShape{.m = 100, .n = k, .k = n, .trans_b = true}}) {
        const auto problem = Problem<float>::Make(random, s);
        SerialParallel serial;
        ASSERT_LE(ErrorOf(problem.Run(serial), problem.Expected(), s.k + 2), 1.0) << Describe(s);
      }
    }
  });
}

TEST(Gemm, ARowTimesAMatrixEqualsTheDefinition) {
  ForEachIsa([](Isa) {
    Random random(6);
    for (int64_t n : {1, 127, 128, 129, 400}) {
      for (const GemmShape& s : {GemmShape{.m = 1, .n = n, .k = 700}, GemmShape{.m = 1, .n = n, .k = 1},
                                 GemmShape{.m = 1, .n = n, .k = 60, .trans_a = true, .lda = 3},
                                 GemmShape{.m = 1, .n = n, .k = 60, .trans_b = true, .accumulate = true}}) {
        const auto problem = Problem<float>::Make(random, s);
        SerialParallel serial;
        ASSERT_LE(ErrorOf(problem.Run(serial), problem.Expected(), s.k + 4), 1.0) << Describe(s);
      }
    }
  });
}

TEST(Gemm, DeepProductsThatAreDoneInPartsEqualTheDefinition) {
  ForEachIsa([](Isa) {
    Random random(5);
    for (bool accumulate : {false, true}) {
      const GemmShape s{.m = 9, .n = 35, .k = 1300, .trans_b = true, .accumulate = accumulate};
      const auto problem = Problem<float>::Make(random, s);
      SerialParallel serial;
      ASSERT_LE(ErrorOf(problem.Run(serial), problem.Expected(), s.k), 1.0) << Describe(s);
    }
  });
}

// The first tile copies the panel for the others: heights, panels and parts of the depth around those that
// do.
TEST(Gemm, RowsAndColumnsAroundTheSizesOfTilesEqualTheDefinition) {
  ForEachIsa([](Isa) {
    Random random(31);
    SerialParallel serial;
    for (const int64_t m : {4, 5, 8, 9, 11, 12, 13, 15, 16, 17, 23, 25, 33}) {
      for (const int64_t n : {32, 47, 48, 49, 64, 95, 96}) {
        for (const int64_t k : {1, 7, 60}) {
          GemmShape s{.m = m, .n = n, .k = k, .trans_a = random.Coin(), .accumulate = random.Coin()};
          if (random.Coin()) s.ldb = 1024;
          const auto floats = Problem<float>::Make(random, s);
          ASSERT_LE(ErrorOf(floats.Run(serial), floats.Expected(), k + 2), 1.0) << Describe(s);
          const auto doubles = Problem<double>::Make(random, s);
          ASSERT_LE(ErrorOf(doubles.Run(serial), doubles.Expected(), k + 2), 1.0) << Describe(s);
        }
      }
    }
    for (const GemmShape& s :
         {GemmShape{.m = 24, .n = 200, .k = 1100}, GemmShape{.m = 40, .n = 150, .k = 1030},
          GemmShape{.m = 17, .n = 96, .k = 700, .accumulate = true}}) {
      const auto problem = Problem<float>::Make(random, s);
      ASSERT_LE(ErrorOf(problem.Run(serial), problem.Expected(), s.k + 2), 1.0) << Describe(s);
    }
  });
}

TEST(Gemm, ResultsAreTheSameBitsForEveryNumberOfThreads) {
  ForEachIsa([](Isa) {
    Random random(11);
    for (int i = 0; i < 12; ++i) {
      GemmShape s{.m = random.Int(1, 500), .n = random.Int(1, 300), .k = random.Int(1, 700)};
      s.trans_a = random.Coin(), s.trans_b = random.Coin();
      const auto problem = Problem<float>::Make(random, s);
      SerialParallel serial;
      const std::vector<float> expected = problem.Run(serial);
      for (int threads = 1; threads <= 3; ++threads) {
        ThreadedParallel parallel(threads);
        ASSERT_TRUE(SameBits(problem.Run(parallel), expected)) << Describe(s) << " threads " << threads;
      }
    }
  });
}

TEST(Gemm, APackedMatrixGivesTheSameBits) {
  ForEachIsa([](Isa) {
    Random random(13);
    for (int i = 0; i < 40; ++i) {
      GemmShape s{
          .m = random.Int(2, 90), .n = random.Int(1, 250), .k = random.Int(1, i % 4 == 0 ? 1500 : 200)};
      s.trans_a = random.Coin(), s.trans_b = random.Coin();
      const auto problem = Problem<float>::Make(random, s);
      std::vector<float> packed(static_cast<size_t>(PackedElements<float>({s.k, 1, s.n})));
      PackMatrix({s.k, 1, s.n}, problem.b.data(), problem.ldb(), s.trans_b, packed.data());
      ThreadedParallel parallel(2);
      std::vector<float> got = problem.c;
      Gemm(s, problem.a.data(), nullptr, got.data(), parallel, problem.epilogue.Borrow(), packed.data());
      ASSERT_TRUE(SameBits(got, problem.Run(parallel))) << Describe(s);
    }
  });
}

// Operands are packed first: columns of B, and rows of A at distances of a power of two are
// copied.
TEST(Gemm, LargeProductsEqualTheDefinitionWithTheSameBitsForEveryNumberOfThreads) {
  ForEachIsa([](Isa) {
    Random random(17);
    for (GemmShape s :
         {GemmShape{.m = 257, .n = 290, .k = 512}, GemmShape{.m = 300, .n = 1042, .k = 131, .trans_a = true},
          GemmShape{.m = 259, .n = 336, .k = 523, .trans_b = true, .ldb = 530},
          GemmShape{.m = 256, .n = 353, .k = 420, .trans_a = true, .trans_b = true, .lda = 256, .ldc = 400},
          // With little depth, done by whole rows; the first leaves a last block of one row.
          GemmShape{.m = 257, .n = 1042, .k = 16}, GemmShape{.m = 300, .n = 1030, .k = 64, .trans_a = true},
          GemmShape{.m = 259, .n = 1050, .k = 33, .trans_b = true, .ldb = 40},
          // Rows of B, then of A, are 4 KB apart.
          GemmShape{.m = 40, .n = 1024, .k = 100}, GemmShape{.m = 30, .n = 10, .k = 1024}}) {
      const auto problem = Problem<float>::Make(random, s);
      SerialParallel serial;
      ThreadedParallel threads(3);
      const std::vector<float> got = problem.Run(serial);
      ASSERT_LE(ErrorOf(got, problem.Expected(), s.k + 2), 1.0) << Describe(s);
      ASSERT_TRUE(SameBits(problem.Run(threads), got)) << Describe(s);
      std::vector<float> packed(static_cast<size_t>(PackedElements<float>({s.k, 1, s.n})));
      PackMatrix({s.k, 1, s.n}, problem.b.data(), problem.ldb(), s.trans_b, packed.data());
      std::vector<float> again = problem.c;
      Gemm(s, problem.a.data(), nullptr, again.data(), threads, problem.epilogue.Borrow(), packed.data());
      ASSERT_TRUE(SameBits(again, got)) << Describe(s);
    }
  });
}

// Blocks of several panels, the last of which has one more vector than the others, for each vector width.
TEST(Gemm, LargeProductsWithAWiderLastBlockEqualTheDefinition) {
  ForEachIsa([](Isa) {
    Random random(23);
    SerialParallel serial;
    for (const auto& [n, k] : {std::pair{1035, 128}, {2069, 64}}) {
      const GemmShape s{.m = 256, .n = n, .k = k};
      const auto floats = Problem<float>::Make(random, s);
      ASSERT_LE(ErrorOf(floats.Run(serial), floats.Expected(), k + 2), 1.0) << Describe(s);
      const auto doubles = Problem<double>::Make(random, s);
      ASSERT_LE(ErrorOf(doubles.Run(serial), doubles.Expected(), k + 2), 1.0) << Describe(s);
    }
  });
}

// Threads share the depth of these; a single thread does not cut it.
TEST(Gemm, DeepProductsOfFewRowsGiveTheSameBitsForEveryNumberOfThreads) {
  ForEachIsa([](Isa) {
    Random random(29);
    for (const GemmShape& s :
         {GemmShape{.m = 100, .n = 200, .k = 784}, GemmShape{.m = 9, .n = 135, .k = 513, .trans_a = true},
          GemmShape{.m = 33, .n = 61, .k = 1100, .trans_b = true, .lda = 1103, .ldb = 1107, .ldc = 64},
          GemmShape{.m = 192, .n = 193, .k = 1537, .trans_a = true, .trans_b = true}}) {
      for (int epilogues = 0; epilogues < 6; ++epilogues) {
        const auto problem = Problem<float>::Make(random, s);
        SerialParallel serial;
        const std::vector<float> expected = problem.Run(serial);
        ASSERT_LE(ErrorOf(expected, problem.Expected(), s.k + 2), 1.0) << Describe(s);
        for (int threads = 2; threads <= 3; ++threads) {
          ThreadedParallel parallel(threads);
          ASSERT_TRUE(SameBits(problem.Run(parallel), expected)) << Describe(s) << " threads " << threads;
        }
      }
    }
  });
}

// Kernels add in place of the sum, or elsewhere.
TEST(Gemm, AddingToAnUncutSumGivesTheBitsOfAResidual) {
  ForEachIsa([](Isa) {
    Random random(19);
    for (const int64_t k : {1, 32, 511, 512}) {
      for (const bool trans : {false, true}) {
        GemmShape s{.m = 37, .n = 113, .k = k, .trans_a = trans, .trans_b = !trans};
        ASSERT_TRUE(AddsOnce(s));
        const std::vector<float> a = random.Values<float>(s.m * k), b = random.Values<float>(k * s.n);
        const std::vector<float> before = random.Values<float>(s.m * s.n);
        SerialParallel serial;
        std::vector<float> sum = before, beside(before.size());
        Gemm(s, a.data(), b.data(), beside.data(), serial, {.residual = before.data()});
        s.accumulate = true;
        Gemm(s, a.data(), b.data(), sum.data(), serial);
        ASSERT_TRUE(SameBits(sum, beside)) << Describe(s);
      }
    }
    EXPECT_FALSE(AddsOnce({.m = 1, .n = 5, .k = 5}));
    EXPECT_FALSE(AddsOnce({.m = 5, .n = 5, .k = 513}));
  });
}

TEST(Gemm, NothingToSumGivesTheEpilogueOfZero) {
  SerialParallel serial;
  const std::vector<float> bias{1, -2, 3};
  std::vector<float> c(6, 5);
  Gemm({.m = 2, .n = 3, .k = 0}, nullptr, nullptr, c.data(), serial,
       {.bias = bias.data(), .rectify = Rectify::kRelu});
  EXPECT_EQ(c, (std::vector<float>{1, 0, 3, 1, 0, 3}));
  Gemm({.m = 2, .n = 3, .k = 0, .accumulate = true}, nullptr, nullptr, c.data(), serial);
  EXPECT_EQ(c, (std::vector<float>{1, 0, 3, 1, 0, 3}));
  Gemm({.m = 0, .n = 3, .k = 4}, bias.data(), bias.data(), c.data(), serial);
  EXPECT_EQ(c[0], 1);
}

TEST(Gemm, NanAndInfinityComeThroughAndReluKeepsNan) {
  ForEachIsa([](Isa) {
    SerialParallel serial;
    std::vector<float> a(20 * 20, 1), b(20 * 20, 1), c(20 * 20);
    a[3 * 20 + 4] = std::numeric_limits<float>::quiet_NaN();
    b[5 * 20 + 6] = std::numeric_limits<float>::infinity();
    Gemm({.m = 20, .n = 20, .k = 20}, a.data(), b.data(), c.data(), serial,
         {.bias = nullptr, .rectify = Rectify::kRelu});
    EXPECT_TRUE(std::isnan(c[3 * 20 + 0]));
    EXPECT_EQ(c[2 * 20 + 6], std::numeric_limits<float>::infinity());
    EXPECT_EQ(c[2 * 20 + 5], 20);
  });
}

TEST(GemmGeneric, IntegersWrapAndTransposesAreRead) {
  ThreadedParallel parallel(2);
  const std::vector<int32_t> a{1, 2, 3, 4, 5, 6};   // [3,2], read as its transpose
  const std::vector<int32_t> b{1, 0, 2, -1, 3, 1};  // [2,3], read as its transpose
  std::vector<int32_t> c(4, -1);
  GemmGeneric({.m = 2, .n = 2, .k = 3, .trans_a = true, .trans_b = true}, a.data(), b.data(), c.data(),
              parallel);
  EXPECT_EQ(c, (std::vector<int32_t>{11, 13, 14, 16}));
  const std::vector<int32_t> big{std::numeric_limits<int32_t>::max()}, two{2};
  GemmGeneric({.m = 1, .n = 1, .k = 1}, big.data(), two.data(), c.data(), parallel);
  EXPECT_EQ(c[0], -2);
}

TEST(GemmGeneric, ComplexNumbersMultiply) {
  SerialParallel serial;
  using C = std::complex<float>;
  const std::vector<C> a{C(1, 2), C(0, 1)}, b{C(3, -1), C(2, 2)};
  std::vector<C> c{C(100, 0)};
  GemmGeneric({.m = 1, .n = 1, .k = 2, .accumulate = true}, a.data(), b.data(), c.data(), serial);
  EXPECT_EQ(c[0], C(103, 7));
}

}  // namespace
}  // namespace millrace::cpu
