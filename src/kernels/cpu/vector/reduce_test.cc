// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/reduce.h"

#include <complex>

#include "kernels/cpu/vector/vector_testing.h"

namespace millrace::cpu {
namespace {

class ReduceTest : public VectorTest {};

// Lengths around the widths of registers and pieces.
const ReduceShape kShapes[] = {
    {1, 1, 1},    {1, 7, 1},     {3, 15, 1},    {2, 16, 1},   {2, 17, 1},     {5, 63, 1},
    {3, 64, 1},   {3, 65, 1},    {1, 130, 1},   {2, 8192, 1}, {2, 8193, 1},   {1, 100001, 1},
    {700, 10, 1}, {1, 100, 10},  {1, 2, 64},    {2, 33, 65},  {3, 5, 130},    {1, 1000, 3},
    {1, 5000, 2}, {2, 600, 515}, {1, 3, 40000}, {4, 1, 9},    {1, 129, 1030},
};

std::vector<float> Values(int64_t n) {
  std::minstd_rand random(5);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& x : values) x = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 999;
  return values;
}

template <typename T, typename Fold>
long double Folded(const std::vector<T>& in, const ReduceShape& s, int64_t o, int64_t j, long double start,
                   Fold fold) {
  for (int64_t r = 0; r < s.reduce; ++r) {
    start = fold(start, static_cast<long double>(in[static_cast<size_t>((o * s.reduce + r) * s.inner + j)]));
  }
  return start;
}

template <typename T>
void ExpectReal(DataType type) {
  using L = long double;
  for (const ReduceShape& s : kShapes) {
    const std::vector<float> source = Values(s.outer * s.reduce * s.inner);
    const std::vector<T> in(source.begin(), source.end());
    const auto results = static_cast<size_t>(s.outer * s.inner);
    std::vector<T> sum(results), mean(results), max(results), min(results);
    UnevenParallel parallel(9);
    Reduce(ReduceOp::kSum, type, s, in.data(), sum.data(), parallel);
    Reduce(ReduceOp::kMean, type, s, in.data(), mean.data(), parallel);
    Reduce(ReduceOp::kMax, type, s, in.data(), max.data(), parallel);
    Reduce(ReduceOp::kMin, type, s, in.data(), min.data(), parallel);
    for (int64_t o = 0; o < s.outer; ++o) {
      for (int64_t j = 0; j < s.inner; ++j) {
        const auto at = static_cast<size_t>(o * s.inner + j);
        const L total = Folded(in, s, o, j, 0, [](L a, L x) { return a + x; });
        const L magnitude = Folded(in, s, o, j, 0, [](L a, L x) { return a + std::fabs(x); });
        // A tree of depth log n with short runs at its leaves: far below the bound of a plain loop, n *
        // epsilon.
        const L bound = magnitude * 20 * std::numeric_limits<T>::epsilon();
        ASSERT_NEAR(static_cast<double>(sum[at]), static_cast<double>(total), static_cast<double>(bound));
        ASSERT_NEAR(static_cast<double>(mean[at]), static_cast<double>(total / s.reduce),
                    static_cast<double>(bound / s.reduce + std::fabs(total / s.reduce) * 1e-7));
        const auto larger = [](L a, L x) { return std::max(a, x); };
        const auto smaller = [](L a, L x) { return std::min(a, x); };
        ASSERT_EQ(static_cast<L>(max[at]), Folded(in, s, o, j, -2, larger));
        ASSERT_EQ(static_cast<L>(min[at]), Folded(in, s, o, j, 2, smaller));
      }
    }
  }
}

TEST_P(ReduceTest, Floats) { ExpectReal<float>(DataType::kFloat); }
TEST_P(ReduceTest, Doubles) { ExpectReal<double>(DataType::kDouble); }

TEST_P(ReduceTest, AnyNumberOfShardsGivesTheSameBits) {
  for (const ReduceShape& s : kShapes) {
    const std::vector<float> in = Values(s.outer * s.reduce * s.inner);
    std::vector<float> serial(static_cast<size_t>(s.outer * s.inner)), split = serial;
    SerialParallel one;
    UnevenParallel many(17);
    Reduce(ReduceOp::kSum, DataType::kFloat, s, in.data(), serial.data(), one);
    Reduce(ReduceOp::kSum, DataType::kFloat, s, in.data(), split.data(), many);
    ASSERT_EQ(serial, split);
  }
}

TEST_P(ReduceTest, ManySmallTermsKeepTheirPrecision) {
  const std::vector<float> in(10'000'000, 0.1f);
  float sum;
  SerialParallel parallel;
  Reduce(ReduceOp::kSum, DataType::kFloat, {1, 10'000'000, 1}, in.data(), &sum, parallel);
  EXPECT_NEAR(sum, 10'000'000 * static_cast<double>(0.1f), 1.0);
}

TEST_P(ReduceTest, ProductsOfFloats) {
  std::vector<float> in(100, 1.0f);
  in[3] = 2;
  in[98] = -3;
  float product;
  SerialParallel parallel;
  Reduce(ReduceOp::kProd, DataType::kFloat, {1, 100, 1}, in.data(), &product, parallel);
  EXPECT_EQ(product, -6);
}

TEST_P(ReduceTest, ANanAnywhereIsTheExtremum) {
  SerialParallel parallel;
  for (const int64_t n : {1, 5, 16, 64, 200, 9000}) {
    for (int64_t at = 0; at < n; at += std::max<int64_t>(1, n / 13)) {
      std::vector<float> in(static_cast<size_t>(n), 1.0f);
      in[static_cast<size_t>(at)] = NAN;
      for (const ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kSum}) {
        float row = 0;
        Reduce(op, DataType::kFloat, {1, n, 1}, in.data(), &row, parallel);
        ASSERT_TRUE(std::isnan(row)) << n << " " << at;
        std::vector<float> columns(static_cast<size_t>(n));
        Reduce(op, DataType::kFloat, {1, 1, n}, in.data(), columns.data(), parallel);
        ASSERT_TRUE(std::isnan(columns[static_cast<size_t>(at)]));
      }
    }
  }
}

template <typename T>
void ExpectIntegers(DataType type) {
  using U = std::make_unsigned_t<T>;
  for (const ReduceShape& s : kShapes) {
    std::vector<T> in(static_cast<size_t>(s.outer * s.reduce * s.inner));
    std::minstd_rand random(3);
    for (T& x : in) x = static_cast<T>(random());
    std::vector<T> sum(static_cast<size_t>(s.outer * s.inner)), product = sum, max = sum, min = sum;
    UnevenParallel parallel(4);
    Reduce(ReduceOp::kSum, type, s, in.data(), sum.data(), parallel);
    Reduce(ReduceOp::kProd, type, s, in.data(), product.data(), parallel);
    Reduce(ReduceOp::kMax, type, s, in.data(), max.data(), parallel);
    Reduce(ReduceOp::kMin, type, s, in.data(), min.data(), parallel);
    for (int64_t o = 0; o < s.outer; ++o) {
      for (int64_t j = 0; j < s.inner; ++j) {
        uint64_t total = 0, times = 1;
        T high = std::numeric_limits<T>::lowest(), low = std::numeric_limits<T>::max();
        for (int64_t r = 0; r < s.reduce; ++r) {
          const T x = in[static_cast<size_t>((o * s.reduce + r) * s.inner + j)];
          total += static_cast<uint64_t>(x);
          times *= static_cast<uint64_t>(x);
          high = std::max(high, x);
          low = std::min(low, x);
        }
        const auto at = static_cast<size_t>(o * s.inner + j);
        ASSERT_EQ(sum[at], static_cast<T>(static_cast<U>(total)));
        ASSERT_EQ(product[at], static_cast<T>(static_cast<U>(times)));
        ASSERT_EQ(max[at], high);
        ASSERT_EQ(min[at], low);
      }
    }
  }
}

TEST_P(ReduceTest, Integers) {
  ExpectIntegers<int8_t>(DataType::kInt8);
  ExpectIntegers<uint16_t>(DataType::kUint16);
  ExpectIntegers<int32_t>(DataType::kInt32);
  ExpectIntegers<int64_t>(DataType::kInt64);
  ExpectIntegers<uint64_t>(DataType::kUint64);
}

TEST_P(ReduceTest, MeansOfIntegersTruncate) {
  const int32_t in[] = {1, 2, -1, -2};
  int32_t out[2];
  SerialParallel parallel;
  Reduce(ReduceOp::kMean, DataType::kInt32, {2, 2, 1}, in, out, parallel);
  EXPECT_EQ(out[0], 1);
  EXPECT_EQ(out[1], -1);
}

TEST_P(ReduceTest, LogicTakesAnyByteForTrue) {
  std::vector<uint8_t> in(300, 2);
  uint8_t out;
  SerialParallel parallel;
  Reduce(ReduceOp::kAll, DataType::kBool, {1, 300, 1}, in.data(), &out, parallel);
  EXPECT_EQ(out, 1);
  in[299] = 0;
  Reduce(ReduceOp::kAll, DataType::kBool, {1, 300, 1}, in.data(), &out, parallel);
  EXPECT_EQ(out, 0);
  Reduce(ReduceOp::kAny, DataType::kBool, {1, 300, 1}, in.data(), &out, parallel);
  EXPECT_EQ(out, 1);
  EXPECT_FALSE(HasReduce(ReduceOp::kSum, DataType::kBool));
  EXPECT_FALSE(HasReduce(ReduceOp::kAll, DataType::kFloat));
}

TEST_P(ReduceTest, ReductionsOfNothing) {
  SerialParallel parallel;
  float out[2];
  const struct {
    ReduceOp op;
    float want;
  } cases[] = {{ReduceOp::kSum, 0},
               {ReduceOp::kProd, 1},
               {ReduceOp::kMax, -std::numeric_limits<float>::infinity()},
               {ReduceOp::kMin, std::numeric_limits<float>::infinity()},
               {ReduceOp::kMean, NAN}};
  for (const auto& c : cases) {
    Reduce(c.op, DataType::kFloat, {2, 0, 1}, nullptr, out, parallel);
    EXPECT_TRUE(Same(out[0], c.want) && Same(out[1], c.want)) << int(c.op);
  }
  int64_t integer;
  Reduce(ReduceOp::kMean, DataType::kInt64, {1, 0, 1}, nullptr, &integer, parallel);
  EXPECT_EQ(integer, 0);
  Reduce(ReduceOp::kMax, DataType::kInt64, {1, 0, 1}, nullptr, &integer, parallel);
  EXPECT_EQ(integer, std::numeric_limits<int64_t>::lowest());
  Reduce(ReduceOp::kSum, DataType::kFloat, {0, 5, 1}, nullptr, out, parallel);  // no results
}

TEST_P(ReduceTest, AnySetOfAxes) {
  std::minstd_rand random(23);
  UnevenParallel parallel(6);
  for (int round = 0; round < 200; ++round) {
    std::vector<int64_t> dims(random() % 6);
    std::vector<uint8_t> flags(dims.size());
    int64_t n = 1;
    for (size_t d = 0; d < dims.size(); ++d) {
      dims[d] = 1 + static_cast<int64_t>(random() % 5);
      flags[d] = random() % 2;
      n *= dims[d];
    }
    std::vector<int64_t> in(static_cast<size_t>(n)), want, got;
    int64_t kept = 1;
    for (size_t d = 0; d < dims.size(); ++d) kept *= flags[d] ? 1 : dims[d];
    want.resize(static_cast<size_t>(kept));
    got.resize(want.size());
    for (int64_t i = 0; i < n; ++i) {
      in[static_cast<size_t>(i)] = i * i + 1;
      int64_t rest = i, at = 0, stride = 1;
      for (size_t d = dims.size(); d-- > 0;) {
        if (!flags[d]) {
          at += rest % dims[d] * stride;
          stride *= dims[d];
        }
        rest /= dims[d];
      }
      want[static_cast<size_t>(at)] += i * i + 1;
    }
    const std::unique_ptr<bool[]> reduced(new bool[dims.size() + 1]);
    std::copy(flags.begin(), flags.end(), reduced.get());
    ReduceAxes(ReduceOp::kSum, DataType::kInt64, dims, {reduced.get(), dims.size()}, in.data(), got.data(),
               parallel);
    ASSERT_EQ(got, want);
  }
}

TEST_P(ReduceTest, HalfTypesAccumulateInFloat) {
  const std::vector<uint16_t> ones(4000, 0x3c00);  // in half itself the sum would stop at 2048
  uint16_t out;
  SerialParallel parallel;
  Reduce(ReduceOp::kSum, DataType::kHalf, {1, 4000, 1}, ones.data(), &out, parallel);
  EXPECT_EQ(out, 0x6bd0);  // 4000
  Reduce(ReduceOp::kMean, DataType::kHalf, {1, 4000, 1}, ones.data(), &out, parallel);
  EXPECT_EQ(out, 0x3c00);
}

TEST_P(ReduceTest, ComplexNumbers) {
  using C = std::complex<double>;
  const C in[] = {{1, 2}, {3, 4}, {5, 6}, {0, 1}};
  C out[2];
  SerialParallel parallel;
  Reduce(ReduceOp::kSum, DataType::kComplex128, {2, 2, 1}, in, out, parallel);
  EXPECT_EQ(out[0], C(4, 6));
  EXPECT_EQ(out[1], C(5, 7));
  Reduce(ReduceOp::kMean, DataType::kComplex128, {1, 2, 2}, in, out, parallel);
  EXPECT_EQ(out[0], C(3, 4));
  Reduce(ReduceOp::kProd, DataType::kComplex128, {2, 2, 1}, in, out, parallel);
  EXPECT_EQ(out[0], C(-5, 10));
  EXPECT_EQ(out[1], C(-6, 5));
  EXPECT_FALSE(HasReduce(ReduceOp::kMax, DataType::kComplex128));
}

template <typename T>
void ExpectArg(DataType type) {
  std::minstd_rand random(31);
  for (const ReduceShape& s : kShapes) {
    std::vector<T> in(static_cast<size_t>(s.outer * s.reduce * s.inner));
    for (T& x : in) {
      x = static_cast<T>(random() % 50);  // many ties
      if constexpr (std::is_floating_point_v<T>) {
        if (random() % 9 == 0) x = std::numeric_limits<T>::quiet_NaN();
      }
    }
    std::vector<int64_t> max(static_cast<size_t>(s.outer * s.inner));
    std::vector<int32_t> min(max.size());
    UnevenParallel parallel(12);
    ArgMax(type, s, in.data(), DataType::kInt64, max.data(), parallel);
    ArgMin(type, s, in.data(), DataType::kInt32, min.data(), parallel);
    for (int64_t o = 0; o < s.outer; ++o) {
      for (int64_t j = 0; j < s.inner; ++j) {
        const auto at = [&](int64_t r) { return in[static_cast<size_t>((o * s.reduce + r) * s.inner + j)]; };
        int64_t high = -1, low = -1;
        for (int64_t r = 0; r < s.reduce; ++r) {
          if (at(r) != at(r)) continue;
          if (high < 0 || at(r) > at(high)) high = r;
          if (low < 0 || at(r) < at(low)) low = r;
        }
        ASSERT_EQ(max[static_cast<size_t>(o * s.inner + j)], std::max<int64_t>(0, high));
        ASSERT_EQ(min[static_cast<size_t>(o * s.inner + j)], std::max<int64_t>(0, low));
      }
    }
  }
}

TEST_P(ReduceTest, ArgMaxAndArgMinTakeTheFirstAndPassOverNans) {
  ExpectArg<float>(DataType::kFloat);
  ExpectArg<double>(DataType::kDouble);
  ExpectArg<int32_t>(DataType::kInt32);
  ExpectArg<uint8_t>(DataType::kUint8);
}

TEST_P(ReduceTest, ArgMaxOfInfinitiesAndHalfs) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> in(100, -inf);
  int64_t index = -1;
  SerialParallel parallel;
  ArgMax(DataType::kFloat, {1, 100, 1}, in.data(), DataType::kInt64, &index, parallel);
  EXPECT_EQ(index, 0);
  in[71] = std::numeric_limits<float>::lowest();
  ArgMax(DataType::kFloat, {1, 100, 1}, in.data(), DataType::kInt64, &index, parallel);
  EXPECT_EQ(index, 71);
  const uint16_t halfs[] = {0x3c00, 0x4000, 0xc000};
  ArgMin(DataType::kHalf, {1, 3, 1}, halfs, DataType::kInt64, &index, parallel);
  EXPECT_EQ(index, 2);
}

template <typename T>
void ExpectArgMaxRows() {
  std::minstd_rand random(32);
  constexpr int64_t kRows = 5;
  for (int64_t n = 1; n <= 200; ++n) {
    std::vector<T> in(static_cast<size_t>(kRows * n));
    for (T& x : in)
      x = random() % 9 == 0 ? std::numeric_limits<T>::quiet_NaN() : static_cast<T>(random() % 30) - 20;
    std::fill_n(in.begin(), n, std::numeric_limits<T>::quiet_NaN());
    std::vector<int64_t> found(kRows);
    ArgMaxRows(in.data(), kRows, n, found.data());
    for (int64_t r = 0; r < kRows; ++r) {
      const T* row = in.data() + r * n;
      int64_t expected = -1;
      for (int64_t i = 0; i < n; ++i) {
        if (row[i] == row[i] && (expected < 0 || row[i] > row[expected])) expected = i;
      }
      ASSERT_EQ(found[static_cast<size_t>(r)], std::max<int64_t>(0, expected)) << n;
    }
  }
}

TEST_P(ReduceTest, ArgMaxRowsOfEveryLength) {
  ExpectArgMaxRows<float>();
  ExpectArgMaxRows<double>();
}

INSTANTIATE_TEST_SUITE_P(Isa, ReduceTest, EachIsa(), IsaName);

}  // namespace
}  // namespace millrace::cpu
