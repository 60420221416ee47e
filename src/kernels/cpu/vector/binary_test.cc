// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/binary.h"

#include <complex>
#include <functional>

#include "kernels/cpu/vector/vector_testing.h"

namespace millrace::cpu {
namespace {

class BinaryTest : public VectorTest {};

template <typename T>
using Function = std::function<T(T, T)>;

template <typename T>
std::vector<T> Arguments(uint32_t seed) {
  std::minstd_rand random(seed);
  std::vector<T> values(140);
  for (T& x : values) {
    if constexpr (std::is_floating_point_v<T>) {
      x = static_cast<T>(static_cast<int>(random() % 4001) - 2000) / 257;
    } else {
      x = static_cast<T>(random() % 97 + 1);
      if (random() % 2 == 0) x = static_cast<T>(0u - static_cast<std::make_unsigned_t<T>>(x));
    }
  }
  if constexpr (std::is_floating_point_v<T>) {
    values[5] = std::numeric_limits<T>::infinity();
    values[64] = std::numeric_limits<T>::quiet_NaN();
    values[seed % 7 + 70] = 0;
    values[90] = -T(0);
  }
  return values;
}

// Tests all forms, lengths 0 to 130, any alignment, and that nothing is written outside; want(a, b) is exact
// or within max_ulps.
template <typename In, typename Out>
void ExpectFunction(BinaryOp op, DataType type, const std::function<Out(In, In)>& want, double max_ulps = 0) {
  const BinaryFns* fns = FindBinary(op, type);
  ASSERT_NE(fns, nullptr) << int(op);
  const std::vector<In> a = Arguments<In>(1), b = Arguments<In>(2);
  for (int form = 0; form < 3; ++form) {
    const BinaryFn function = form == 0 ? fns->same : (form == 1 ? fns->scalar_left : fns->scalar_right);
    if (function == nullptr) continue;
    for (int64_t n = 0; n <= 130; ++n) {
      const int64_t offset = n % 5;
      const In* x = a.data() + offset;
      const In* y = b.data() + offset;
      std::vector<Out> out(140, Out(99));
      ASSERT_TRUE(function(x, y, out.data() + 1, n));
      for (int64_t i = 0; i < 139; ++i) {
        const Out got = out[static_cast<size_t>(i + 1)];
        if (i >= n) {
          ASSERT_EQ(got, Out(99)) << "written past the end";
          continue;
        }
        const In left = x[form == 1 ? 0 : i], right = y[form == 2 ? 0 : i];
        const Out expected = want(left, right);
        bool good = Same(got, expected);
        if constexpr (std::is_floating_point_v<Out>) good = good || Ulps(got, expected) <= max_ulps;
        ASSERT_TRUE(good) << "op " << int(op) << " form " << form << " n " << n << ": " << +left << ", "
                          << +right << " gives " << +got << ", not " << +expected;
      }
    }
  }
}

template <typename T>
void ExpectReal(DataType type) {
  const T scale = static_cast<T>(1.0507009873554805), scale_alpha = static_cast<T>(1.7580993408473769);
  const auto expect = [type](BinaryOp op, Function<T> want, double ulps = 0) {
    ExpectFunction<T, T>(op, type, want, ulps);
  };
  expect(BinaryOp::kAdd, [](T a, T b) { return a + b; });
  expect(BinaryOp::kSub, [](T a, T b) { return a - b; });
  expect(BinaryOp::kMul, [](T a, T b) { return a * b; });
  expect(BinaryOp::kDiv, [](T a, T b) { return a / b; });
  expect(BinaryOp::kFloorDiv, [](T a, T b) { return std::floor(a / b); });
  expect(BinaryOp::kMod, [](T a, T b) { return std::fmod(a, b); });
  expect(BinaryOp::kFloorMod, [](T a, T b) {
    const T r = std::fmod(a, b);
    return (a < 0) == (b < 0) ? r : std::fmod(r + b, b);
  });
  expect(
      BinaryOp::kPow, [](T a, T b) { return std::pow(a, b); }, 1);
  expect(BinaryOp::kMaximum, [](T a, T b) { return a < b ? b : a; });
  expect(BinaryOp::kMinimum, [](T a, T b) { return b < a ? b : a; });
  expect(BinaryOp::kSquaredDifference, [](T a, T b) { return (a - b) * (a - b); });
  expect(
      BinaryOp::kAtan2, [](T a, T b) { return std::atan2(a, b); }, sizeof(T) == 4 ? 3 : 0);
  expect(BinaryOp::kDivNoNan, [](T a, T b) { return b == 0 ? 0 : a / b; });
  expect(BinaryOp::kXdivy, [](T a, T b) { return a == 0 ? 0 : a / b; });
  expect(
      BinaryOp::kXlogy, [](T a, T b) { return a == 0 ? 0 : a * std::log(b); }, 3);
  // Gradients: one or two products, whose rounding depends on the order and on fused operations. 1 - y * y
  // may cancel, so the bound is loose there.
  expect(
      BinaryOp::kSigmoidGrad, [](T y, T dy) { return dy * y * (1 - y); }, 4);
  expect(
      BinaryOp::kTanhGrad, [](T y, T dy) { return dy * std::fma(-y, y, T(1)); }, 256);
  expect(
      BinaryOp::kSqrtGrad, [](T y, T dy) { return dy * T(0.5) / y; }, 1);
  expect(
      BinaryOp::kRsqrtGrad, [](T y, T dy) { return dy * T(-0.5) * y * y * y; }, 3);
  expect(
      BinaryOp::kReciprocalGrad, [](T y, T dy) { return -dy * y * y; }, 2);
  expect(BinaryOp::kReluGrad, [](T g, T f) { return f > 0 ? g : 0 * g; });
  expect(BinaryOp::kRelu6Grad, [](T g, T f) { return f > 0 && f < 6 ? g : 0 * g; });
  expect(BinaryOp::kEluGrad, [](T g, T out) { return out < 0 ? (out + 1) * g : g; });
  expect(BinaryOp::kSeluGrad, [=](T g, T out) { return out < 0 ? (out + scale_alpha) * g : scale * g; });
  expect(
      BinaryOp::kSoftplusGrad, [](T g, T f) { return g / (std::exp(-f) + 1); }, 4);
  expect(
      BinaryOp::kSoftsignGrad, [](T g, T f) { return g / ((1 + std::fabs(f)) * (1 + std::fabs(f))); }, 2);
}

TEST_P(BinaryTest, FloatFunctions) { ExpectReal<float>(DataType::kFloat); }
TEST_P(BinaryTest, DoubleFunctions) { ExpectReal<double>(DataType::kDouble); }

template <typename T>
void ExpectComparisons(DataType type) {
  const auto expect = [type](BinaryOp op, std::function<bool(T, T)> want) {
    ExpectFunction<T, uint8_t>(op, type, want);
    EXPECT_TRUE(BinaryResultType(op, type) == DataType::kBool);
  };
  expect(BinaryOp::kEqual, [](T a, T b) { return a == b; });
  expect(BinaryOp::kNotEqual, [](T a, T b) { return a != b; });
  expect(BinaryOp::kLess, [](T a, T b) { return a < b; });
  expect(BinaryOp::kLessEqual, [](T a, T b) { return a <= b; });
  expect(BinaryOp::kGreater, [](T a, T b) { return a > b; });
  expect(BinaryOp::kGreaterEqual, [](T a, T b) { return a >= b; });
}

template <typename T>
void ExpectInteger(DataType type) {
  using U = std::make_unsigned_t<T>;
  using Wide = __int128;  // in which operations on T can't overflow
  const auto expect = [type](BinaryOp op, std::function<Wide(Wide, Wide)> want) {
    ExpectFunction<T, T>(op, type, [want](T a, T b) { return static_cast<T>(static_cast<U>(want(a, b))); });
  };
  expect(BinaryOp::kAdd, [](Wide a, Wide b) { return a + b; });
  expect(BinaryOp::kSub, [](Wide a, Wide b) { return a - b; });
  // Only a product of uint64 can overflow it, and its low bits are correct nevertheless.
  expect(BinaryOp::kMul, [](Wide a, Wide b) {
    return static_cast<Wide>(static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b));
  });
  expect(BinaryOp::kDiv, [](Wide a, Wide b) { return a / b; });
  expect(BinaryOp::kMod, [](Wide a, Wide b) { return a % b; });
  const auto floor_div = [](Wide a, Wide b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); };
  expect(BinaryOp::kFloorDiv, floor_div);
  expect(BinaryOp::kFloorMod, [=](Wide a, Wide b) { return a - floor_div(a, b) * b; });
  expect(BinaryOp::kMaximum, [](Wide a, Wide b) { return a < b ? b : a; });
  expect(BinaryOp::kMinimum, [](Wide a, Wide b) { return b < a ? b : a; });
  ExpectFunction<T, T>(BinaryOp::kSquaredDifference, type, [](T a, T b) {
    const auto d = static_cast<U>(static_cast<U>(a) - static_cast<U>(b));
    return static_cast<T>(static_cast<U>((d | 0u) * d));
  });
  ExpectComparisons<T>(type);
}

TEST_P(BinaryTest, ComparesFloats) {
  ExpectComparisons<float>(DataType::kFloat);
  ExpectComparisons<double>(DataType::kDouble);
}
TEST_P(BinaryTest, SignedIntegers) {
  ExpectInteger<int8_t>(DataType::kInt8);
  ExpectInteger<int16_t>(DataType::kInt16);
  ExpectInteger<int32_t>(DataType::kInt32);
  ExpectInteger<int64_t>(DataType::kInt64);
}
TEST_P(BinaryTest, UnsignedIntegers) {
  ExpectInteger<uint8_t>(DataType::kUint8);
  ExpectInteger<uint16_t>(DataType::kUint16);
  ExpectInteger<uint32_t>(DataType::kUint32);
  ExpectInteger<uint64_t>(DataType::kUint64);
}

TEST_P(BinaryTest, DivisionByZeroIsReportedAndTheRestIsDone) {
  for (const BinaryOp op : {BinaryOp::kDiv, BinaryOp::kFloorDiv, BinaryOp::kMod, BinaryOp::kFloorMod}) {
    const int32_t a[] = {7, 8, 9}, b[] = {1, 0, 3};
    int32_t out[3] = {-1, -1, -1};
    const BinaryFns* fns = FindBinary(op, DataType::kInt32);
    EXPECT_FALSE(fns->same(a, b, out, 3));
    EXPECT_EQ(out[1], 0);
    EXPECT_EQ(out[2], op == BinaryOp::kDiv || op == BinaryOp::kFloorDiv ? 3 : 0);
    EXPECT_FALSE(fns->scalar_right(a, b + 1, out, 3));
    EXPECT_TRUE(fns->scalar_right(a, b + 1, out, 0));
  }
}

template <typename T>
void ExpectLowestByMinusOne(DataType type) {
  const T lowest = std::numeric_limits<T>::lowest(), minus_one = -1;
  T out;
  EXPECT_TRUE(FindBinary(BinaryOp::kDiv, type)->same(&lowest, &minus_one, &out, 1));
  EXPECT_EQ(out, lowest);
  EXPECT_TRUE(FindBinary(BinaryOp::kFloorDiv, type)->same(&lowest, &minus_one, &out, 1));
  EXPECT_EQ(out, lowest);
  EXPECT_TRUE(FindBinary(BinaryOp::kMod, type)->same(&lowest, &minus_one, &out, 1));
  EXPECT_EQ(out, 0);
  EXPECT_TRUE(FindBinary(BinaryOp::kFloorMod, type)->same(&lowest, &minus_one, &out, 1));
  EXPECT_EQ(out, 0);
}

// Quotients from far below 1 to beyond every integer, exact ones and their neighbours.
TEST_P(BinaryTest, RemaindersOfFloatsAreExact) {
  std::minstd_rand random(11);
  std::vector<float> a, b;
  const float inf = std::numeric_limits<float>::infinity();
  for (const float x : {0.0f, -0.0f, 1.0f, -7.0f, inf, -inf, std::nanf(""), 1e-45f, 3e38f}) {
    for (const float y : {0.0f, -0.0f, 1.0f, -2.0f, inf, -inf, std::nanf(""), 1e-45f, 3e38f}) {
      a.push_back(x);
      b.push_back(y);
    }
  }
  for (int i = 0; i < 20000; ++i) {
    const float y =
        std::ldexp(static_cast<float>(random() % 0xffffff + 1), static_cast<int>(random() % 60) - 50);
    float x = y * static_cast<float>(random() % 100000);
    if (i % 3 == 0) x = std::nextafter(x, 0.0f);
    if (i % 5 == 0) x = std::ldexp(x, static_cast<int>(random() % 50) - 25);
    a.push_back(i % 2 == 0 ? x : -x);
    b.push_back(i % 7 < 4 ? y : -y);
  }
  std::vector<float> out(a.size());
  const auto n = static_cast<int64_t>(a.size());
  FindBinary(BinaryOp::kMod, DataType::kFloat)->same(a.data(), b.data(), out.data(), n);
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_TRUE(Same(out[i], std::fmod(a[i], b[i]))) << a[i] << " mod " << b[i] << ": " << out[i];
  std::vector<float> in_place = a;
  FindBinary(BinaryOp::kFloorMod, DataType::kFloat)->same(in_place.data(), b.data(), in_place.data(), n);
  for (size_t i = 0; i < a.size(); ++i) {
    const float r = std::fmod(a[i], b[i]);
    const float want = (a[i] < 0) == (b[i] < 0) ? r : std::fmod(r + b[i], b[i]);
    ASSERT_TRUE(Same(in_place[i], want)) << a[i] << " floor mod " << b[i] << ": " << in_place[i];
  }
}

TEST_P(BinaryTest, NextFloatsAreThoseOfTheLibrary) {
  const float inf = std::numeric_limits<float>::infinity(), most = std::numeric_limits<float>::max();
  const float values[] = {0.0f, -0.0f, 1e-45f, -1e-45f, 1.0f, -1.0f,
                          2.5f, most,  -most,  inf,     -inf, std::nanf("")};
  for (const float x : values) {
    for (const float y : values) {
      float out;
      FindBinary(BinaryOp::kNextAfter, DataType::kFloat)->same(&x, &y, &out, 1);
      EXPECT_TRUE(Same(out, std::nextafter(x, y))) << x << " to " << y << ": " << out;
      const double a = x, b = y;
      double wide;
      FindBinary(BinaryOp::kNextAfter, DataType::kDouble)->same(&a, &b, &wide, 1);
      EXPECT_TRUE(Same(wide, std::nextafter(a, b))) << a << " to " << b << ": " << wide;
    }
  }
}

TEST_P(BinaryTest, LowestByMinusOneWraps) {
  ExpectLowestByMinusOne<int8_t>(DataType::kInt8);
  ExpectLowestByMinusOne<int32_t>(DataType::kInt32);
  ExpectLowestByMinusOne<int64_t>(DataType::kInt64);
}

TEST_P(BinaryTest, IntegerPowersWrapAndRefuseNegativeExponents) {
  const int64_t a[] = {3, -2, 0, 10, 5}, b[] = {4, 63, 0, 19, -1};
  int64_t out[5];
  EXPECT_TRUE(FindBinary(BinaryOp::kPow, DataType::kInt64)->same(a, b, out, 4));
  EXPECT_EQ(out[0], 81);
  EXPECT_EQ(out[1], std::numeric_limits<int64_t>::lowest());
  EXPECT_EQ(out[2], 1);
  EXPECT_EQ(out[3], static_cast<int64_t>(10000000000000000000u));
  EXPECT_FALSE(FindBinary(BinaryOp::kPow, DataType::kInt64)->same(a, b, out, 5));
}

TEST_P(BinaryTest, LogicTakesAnyByteForTrue) {
  const uint8_t a[] = {0, 0, 1, 2}, b[] = {0, 4, 0, 1};
  uint8_t out[4];
  FindBinary(BinaryOp::kLogicalAnd, DataType::kBool)->same(a, b, out, 4);
  EXPECT_EQ(std::vector<uint8_t>(out, out + 4), (std::vector<uint8_t>{0, 0, 0, 1}));
  FindBinary(BinaryOp::kLogicalOr, DataType::kBool)->same(a, b, out, 4);
  EXPECT_EQ(std::vector<uint8_t>(out, out + 4), (std::vector<uint8_t>{0, 1, 1, 1}));
}

TEST_P(BinaryTest, HalfTypesAreRoundedFromFloat) {
  const std::vector<uint16_t> a(1100, 0x3c00), b(1100, 0x1000);  // 1 and 2^-11: the sum rounds to even
  std::vector<uint16_t> out(1100);
  FindBinary(BinaryOp::kAdd, DataType::kHalf)->same(a.data(), b.data(), out.data(), 1100);
  EXPECT_EQ(out, a);
  FindBinary(BinaryOp::kMul, DataType::kHalf)->scalar_left(b.data(), a.data(), out.data(), 1100);
  EXPECT_EQ(out, b);
  std::vector<uint8_t> less(1100);
  FindBinary(BinaryOp::kLess, DataType::kHalf)->scalar_right(b.data(), a.data(), less.data(), 1100);
  EXPECT_EQ(std::count(less.begin(), less.end(), 1), 1100);
  const uint16_t x = 0x3fc0, y = 0x4000;  // 1.5 and 2
  FindBinary(BinaryOp::kSub, DataType::kBfloat16)->same(&x, &y, out.data(), 1);
  EXPECT_EQ(out[0], 0xbf00);
}

TEST_P(BinaryTest, ComplexNumbers) {
  using C = std::complex<float>;
  const C a[] = {{1, 2}, {0, 1}}, b[] = {{3, -1}, {0, 1}};
  C out[2];
  FindBinary(BinaryOp::kMul, DataType::kComplex64)->same(a, b, out, 2);
  EXPECT_EQ(out[0], C(5, 5));
  EXPECT_EQ(out[1], C(-1, 0));
  FindBinary(BinaryOp::kSquaredDifference, DataType::kComplex64)->same(a, b, out, 1);
  EXPECT_EQ(out[0], C(13, 0));
  FindBinary(BinaryOp::kReciprocalGrad, DataType::kComplex64)->same(a, b, out, 2);
  EXPECT_EQ(out[0], C(13, 9));  // -(3 - i)(1 - 2i)^2
  uint8_t equal[2];
  FindBinary(BinaryOp::kEqual, DataType::kComplex64)->same(a, b, equal, 2);
  EXPECT_EQ(equal[0], 0);
  EXPECT_EQ(equal[1], 1);
  EXPECT_EQ(FindBinary(BinaryOp::kLess, DataType::kComplex64), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Isa, BinaryTest, EachIsa(), IsaName);

}  // namespace
}  // namespace millrace::cpu
