// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Compares with plain loops in double. The factors are rounded first, so that their products are exact in
// float and the error of a sum of k of them is at most k * 2^-24 of the sum of their magnitudes; for a
// bfloat16 result plus 2^-8 of its value.
#include "kernels/cpu/contract/bf16.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "kernels/cpu/contract/contract_testing.h"

namespace millrace::cpu {
namespace {

uint16_t ToBits(float x) {
  const auto u = std::bit_cast<uint32_t>(x);
  return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
double Value(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
double Value(float x) { return x; }
double RoundedValue(uint16_t bits) { return Value(bits); }
double RoundedValue(float x) { return Value(ToBits(x)); }

template <typename T>
std::vector<T> Numbers(Random& random, int64_t count) {
  std::vector<float> values = random.Values<float>(count);
  if constexpr (std::is_same_v<T, float>) return values;
  std::vector<T> bits;
  for (const float x : values) bits.push_back(static_cast<T>(ToBits(x)));
  return bits;
}

// Calls fn for each unit of this processor, and restores the active one. False: none.
template <typename F>
bool ForEachUnit(const F& fn) {
  const Bf16Unit before = ActiveBf16Unit();
  for (Bf16Unit unit : {Bf16Unit::kVectors, Bf16Unit::kAmx}) {
    if (unit > DetectedBf16Unit()) continue;
    SetActiveBf16UnitForTest(unit);
    fn(unit);
  }
  SetActiveBf16UnitForTest(before);
  return DetectedBf16Unit() != Bf16Unit::kNone;
}

#define MR_FOR_EACH_UNIT(...) \
  if (!ForEachUnit(__VA_ARGS__)) GTEST_SKIP() << "this processor has no instructions for bfloat16"

// A result and the sum of the magnitudes of its terms.
struct Sum {
  double value = 0, magnitude = 0;
  int64_t terms = 0;
  void Add(double x, double y) {
    value += x * y;
    magnitude += std::abs(x * y);
    ++terms;
  }
};

// The largest error in units of the bound; `apply` is the epilogue, of at most two more roundings.
template <typename T>
double ErrorWithin(T got, const Sum& sum, double want) {
  double bound = (static_cast<double>(sum.terms) + 2) * 0x1p-24 * (sum.magnitude + std::abs(want) + 2);
  if (std::is_same_v<T, uint16_t>) bound += 0x1p-8 * (std::abs(want) + bound);
  const double error = std::abs(Value(got) - want) / (bound + 1e-30);
  return std::isnan(error) ? INFINITY : error;
}

template <typename In, typename Out>
void CheckGemm(int count) {
  MR_FOR_EACH_UNIT([&](Bf16Unit unit) {
    Random random(5);
    for (int i = 0; i < count; ++i) {
      const int64_t limit = i % 5 == 0 ? 200 : 70;
      GemmShape s{.m = random.Int(16, limit), .n = random.Int(8, limit), .k = random.Int(8, 2 * limit)};
      while (s.m * s.n * s.k < 1 << 14) s.k += 50;  // the caller would not use smaller ones
      s.trans_a = random.Coin(), s.trans_b = random.Coin();
      s.lda = (s.trans_a ? s.m : s.k) + random.Int(0, 3);
      s.ldb = (s.trans_b ? s.k : s.n) + random.Int(0, 3);
      s.ldc = s.n + random.Int(0, 3);
      const auto a = Numbers<In>(random, (s.trans_a ? s.k : s.m) * s.lda);
      const auto b = Numbers<In>(random, (s.trans_b ? s.n : s.k) * s.ldb);
      std::vector<Out> c(static_cast<size_t>(s.m * s.ldc), Out(77));
      auto epilogue = EpilogueData<float>::Make(random, s.n, s.m * s.ldc);
      if (std::is_same_v<Out, uint16_t>) epilogue.residual.clear(), epilogue.halve = false;
      ThreadedParallel parallel(2);
      ASSERT_TRUE(GemmBf16(s, a.data(), b.data(), c.data(), parallel, epilogue.Borrow()));
      double worst = 0;
      for (int64_t row = 0; row < s.m; ++row) {
        for (int64_t column = 0; column < s.n; ++column) {
          Sum sum;
          for (int64_t k = 0; k < s.k; ++k) {
            sum.Add(RoundedValue(s.trans_a ? a[k * s.lda + row] : a[row * s.lda + k]),
                    RoundedValue(s.trans_b ? b[column * s.ldb + k] : b[k * s.ldb + column]));
          }
          const int64_t at = row * s.ldc + column;
          worst = std::max(worst, ErrorWithin(c[at], sum, epilogue.Apply(sum.value, column, at)));
        }
        for (int64_t column = s.n; column < s.ldc; ++column) ASSERT_EQ(c[row * s.ldc + column], Out(77));
      }
      ASSERT_LE(worst, 1) << s.m << "x" << s.n << "x" << s.k << " " << s.trans_a << s.trans_b << " unit "
                          << static_cast<int>(unit);
    }
  });
}

TEST(GemmBf16, ProductsOfFloatsAreThoseOfTheRoundedFactors) { CheckGemm<float, float>(120); }
TEST(GemmBf16, ProductsOfBfloat16AreWithinTheRoundingOfSums) { CheckGemm<uint16_t, float>(60); }
TEST(GemmBf16, ResultsAreRoundedOnceToBfloat16) { CheckGemm<uint16_t, uint16_t>(120); }

TEST(GemmBf16, IntegersAreExact) {
  MR_FOR_EACH_UNIT([](Bf16Unit) {
    Random random(9);
    const GemmShape s{.m = 50, .n = 40, .k = 1000};
    std::vector<float> a(50 * 1000), b(1000 * 40), c(50 * 40), want(50 * 40);
    for (float& x : a) x = static_cast<float>(random.Int(-8, 8));
    for (float& x : b) x = static_cast<float>(random.Int(-8, 8));
    SerialParallel serial;
    Gemm(s, a.data(), b.data(), want.data(), serial);
    ASSERT_TRUE(GemmBf16(s, a.data(), b.data(), c.data(), serial));
    EXPECT_EQ(c, want);
  });
}

TEST(GemmBf16, ResultsAreTheSameBitsForEveryNumberOfThreadsAndPacked) {
  MR_FOR_EACH_UNIT([](Bf16Unit) {
    Random random(11);
    for (int i = 0; i < 10; ++i) {
      GemmShape s{.m = random.Int(16, 600), .n = random.Int(32, 500), .k = random.Int(32, 900)};
      s.trans_b = random.Coin();
      const auto a = Numbers<float>(random, s.m * s.k), b = Numbers<float>(random, s.k * s.n);
      std::vector<float> want(static_cast<size_t>(s.m * s.n)), got(want);
      SerialParallel serial;
      ASSERT_TRUE(GemmBf16(s, a.data(), b.data(), want.data(), serial));
      std::vector<uint16_t> packed(static_cast<size_t>(PackedBf16Elements(s.k, s.n)) + 32);
      auto* const at =
          reinterpret_cast<uint16_t*>((reinterpret_cast<uintptr_t>(packed.data()) + 63) / 64 * 64);
      PackBf16(s.k, s.n, b.data(), s.trans_b ? s.k : s.n, s.trans_b, at, serial);
      ThreadedParallel parallel(3);
      ASSERT_TRUE(GemmBf16(s, a.data(), b.data(), got.data(), parallel));
      ASSERT_TRUE(SameBits(got, want));
      const float* const none = nullptr;
      ASSERT_TRUE(GemmBf16(s, a.data(), none, got.data(), parallel, {}, at));
      ASSERT_TRUE(SameBits(got, want));
    }
  });
}

TEST(GemmBf16, NanAndInfinityComeThrough) {
  MR_FOR_EACH_UNIT([](Bf16Unit) {
    SerialParallel serial;
    std::vector<float> a(20 * 48, 1), b(48 * 20, 1), c(20 * 20);
    a[3 * 48 + 4] = std::numeric_limits<float>::quiet_NaN();
    b[5 * 20 + 6] = std::numeric_limits<float>::infinity();
    ASSERT_TRUE(GemmBf16({.m = 20, .n = 20, .k = 48}, a.data(), b.data(), c.data(), serial,
                         {.rectify = Rectify::kRelu}));
    EXPECT_TRUE(std::isnan(c[3 * 20 + 0]));
    EXPECT_EQ(c[2 * 20 + 6], std::numeric_limits<float>::infinity());
    EXPECT_EQ(c[2 * 20 + 5], 48);
  });
}

TEST(GemmBf16, ShapesThatDoNotGainAreLeftToTheCaller) {
  SerialParallel serial;
  const std::vector<float> a(64, 1), b(64, 1);
  std::vector<float> c(64);
  EXPECT_FALSE(GemmBf16({.m = 1, .n = 8, .k = 8}, a.data(), b.data(), c.data(), serial));
  EXPECT_FALSE(GemmBf16({.m = 8, .n = 8, .k = 8}, a.data(), b.data(), c.data(), serial));
  EXPECT_FALSE(GemmBf16({.m = 8, .n = 8, .k = 0}, a.data(), b.data(), c.data(), serial));
  const std::vector<float> large(64 * 64, 1);
  std::vector<float> sums(64 * 64);
  EXPECT_FALSE(GemmBf16({.m = 64, .n = 64, .k = 64, .accumulate = true}, large.data(), large.data(),
                        sums.data(), serial));
  const Bf16Unit before = ActiveBf16Unit();
  SetActiveBf16UnitForTest(Bf16Unit::kNone);
  EXPECT_FALSE(GemmBf16({.m = 64, .n = 64, .k = 64}, large.data(), large.data(), sums.data(), serial));
  SetActiveBf16UnitForTest(before);
}

// A convolution that is large enough to gain, otherwise random.
ConvParams RandomConv(Random& random) {
  ConvParams p{.batch = random.Int(1, 3), .in_h = random.Int(6, 20), .in_w = random.Int(6, 20)};
  const auto channels = [&] { return random.Coin() ? 32 * random.Int(1, 2) : random.Int(16, 70); };
  p.in_c = random.Int(0, 3) == 0 ? random.Int(2, 15) : channels();
  p.out_c = channels();
  p.filter_h = random.Int(1, 4), p.filter_w = random.Int(1, 4);
  p.stride_h = random.Int(1, 3), p.stride_w = random.Int(1, 3);
  p.dilation_h = random.Int(1, 2), p.dilation_w = random.Int(1, 2);
  const int64_t tall = (p.filter_h - 1) * p.dilation_h + 1, wide = (p.filter_w - 1) * p.dilation_w + 1;
  p.pad_top = random.Int(0, tall - 1), p.pad_left = random.Int(0, wide - 1);
  p.out_h = std::max<int64_t>((p.in_h + p.pad_top + random.Int(0, 2) - tall) / p.stride_h + 1, 1);
  p.out_w = std::max<int64_t>((p.in_w + p.pad_left + random.Int(0, 2) - wide) / p.stride_w + 1, 1);
  return p;
}

// Every product of the convolution: fn(input index, filter index, output index).
template <typename F>
void ForEachProduct(const ConvParams& p, const F& fn) {
  for (int64_t out = 0; out < p.batch * p.out_h * p.out_w; ++out) {
    const int64_t n = out / (p.out_h * p.out_w), y = out / p.out_w % p.out_h, x = out % p.out_w;
    for (int64_t tap = 0; tap < p.filter_h * p.filter_w; ++tap) {
      const int64_t row = y * p.stride_h + tap / p.filter_w * p.dilation_h - p.pad_top;
      const int64_t column = x * p.stride_w + tap % p.filter_w * p.dilation_w - p.pad_left;
      if (row < 0 || row >= p.in_h || column < 0 || column >= p.in_w) continue;
      for (int64_t i = 0; i < p.in_c; ++i) {
        for (int64_t o = 0; o < p.out_c; ++o) {
          fn(((n * p.in_h + row) * p.in_w + column) * p.in_c + i, (tap * p.in_c + i) * p.out_c + o,
             out * p.out_c + o);
        }
      }
    }
  }
}

template <typename T>
double WorstOf(const std::vector<T>& got, const std::vector<Sum>& want) {
  double worst = 0;
  for (size_t i = 0; i < want.size(); ++i)
    worst = std::max(worst, ErrorWithin(got[i], want[i], want[i].value));
  return worst;
}

// Forward and both gradients; which of them gain depends on the shape, and most do.
template <typename T>
void CheckConvs(int count) {
  int done = 0;
  MR_FOR_EACH_UNIT([&](Bf16Unit unit) {
    Random random(21);
    for (int i = 0; i < count; ++i) {
      const ConvParams p = RandomConv(random);
      const int64_t in = p.batch * p.in_h * p.in_w * p.in_c, out = p.batch * p.out_h * p.out_w * p.out_c;
      const int64_t weights = p.filter_h * p.filter_w * p.in_c * p.out_c;
      const auto image = Numbers<T>(random, in), filter = Numbers<T>(random, weights);
      const auto gradient = Numbers<T>(random, out);
      std::vector<T> y(static_cast<size_t>(out)), dx(static_cast<size_t>(in)),
          dw(static_cast<size_t>(weights));
      ThreadedParallel parallel(2);
      const bool forward = ConvBf16(p, image.data(), filter.data(), y.data(), parallel);
      const bool for_image = ConvBackpropInputBf16(p, filter.data(), gradient.data(), dx.data(), parallel);
      const bool for_filter = ConvBackpropFilterBf16(p, image.data(), gradient.data(), dw.data(), parallel);
      std::vector<Sum> want_y(y.size()), want_dx(dx.size()), want_dw(dw.size());
      ForEachProduct(p, [&](int64_t a, int64_t b, int64_t c) {
        const double x = RoundedValue(image[a]), w = RoundedValue(filter[b]), g = RoundedValue(gradient[c]);
        want_y[c].Add(x, w), want_dx[a].Add(w, g), want_dw[b].Add(x, g);
      });
      const std::string what = std::to_string(i) + " unit " + std::to_string(static_cast<int>(unit));
      ASSERT_LE(forward ? WorstOf(y, want_y) : 0, 1) << what;
      ASSERT_LE(for_image ? WorstOf(dx, want_dx) : 0, 1) << what;
      ASSERT_LE(for_filter ? WorstOf(dw, want_dw) : 0, 1) << what;
      done += forward + for_image + for_filter;
      SerialParallel serial;
      std::vector<T> again(y.size()), dx_again(dx.size()), dw_again(dw.size());
      ASSERT_EQ(ConvBf16(p, image.data(), filter.data(), again.data(), serial), forward);
      ASSERT_EQ(ConvBackpropInputBf16(p, filter.data(), gradient.data(), dx_again.data(), serial), for_image);
      ASSERT_EQ(ConvBackpropFilterBf16(p, image.data(), gradient.data(), dw_again.data(), serial),
                for_filter);
      ASSERT_TRUE(!forward || SameBits(again, y)) << what;
      ASSERT_TRUE(!for_image || SameBits(dx_again, dx)) << what;
      ASSERT_TRUE(!for_filter || SameBits(dw_again, dw)) << what;
    }
  });
  EXPECT_GE(done, 2 * count);
}

TEST(ConvBf16, FloatsEqualTheDefinitionOfTheRoundedFactors) { CheckConvs<float>(60); }
TEST(ConvBf16, Bfloat16EqualTheDefinition) { CheckConvs<uint16_t>(60); }

}  // namespace
}  // namespace millrace::cpu
