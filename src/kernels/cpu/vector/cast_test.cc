// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/cast.h"

#include <complex>
#include <cstring>

#include "kernels/cpu/vector/vector_testing.h"

namespace millrace::cpu {
namespace {

class CastTest : public VectorTest {};

template <typename From, typename To>
std::vector<To> Cast(DataType from, DataType to, const std::vector<From>& in) {
  std::vector<To> out(in.size());
  const UnaryFn function = FindCast(from, to);
  EXPECT_NE(function, nullptr);
  if (function != nullptr) function(in.data(), out.data(), static_cast<int64_t>(in.size()));
  return out;
}

// long double holds every value of every real type exactly.
template <typename To, typename From>
To Truncated(From x) {
  const long double value = std::trunc(static_cast<long double>(x));
  const auto wrapped64 = value >= -0x1p63L && value < 0x1p63L ? static_cast<int64_t>(value)
                                                              : std::numeric_limits<int64_t>::min();
  const auto wrapped32 = value >= -0x1p31L && value < 0x1p31L ? static_cast<int32_t>(value)
                                                              : std::numeric_limits<int32_t>::min();
  if constexpr (std::is_same_v<To, uint64_t>) {
    if (value >= 0x1p63L && value < 0x1p64L) return static_cast<uint64_t>(value);
    return static_cast<uint64_t>(wrapped64);
  }
  if constexpr (sizeof(To) == 8 || std::is_same_v<To, uint32_t>) return static_cast<To>(wrapped64);
  return static_cast<To>(wrapped32);
}

template <typename From, typename To>
void ExpectTruncation(DataType from, DataType to) {
  std::vector<From> in = SweepOfFloats<From>();
  for (const double edge : {0x1p31, 0x1p32, 0x1p63, 0x1p64, 128.0, 256.0, 32768.0, 65536.0}) {
    for (const double step : {-1.0, -0.5, 0.0, 0.5, 1.0}) {
      in.push_back(static_cast<From>(edge + step));
      in.push_back(static_cast<From>(-edge + step));
      in.push_back(std::nextafter(static_cast<From>(edge), From(0)));
    }
  }
  const auto out = Cast<From, To>(from, to, in);
  for (size_t i = 0; i < in.size(); ++i) {
    ASSERT_EQ(out[i], (Truncated<To, From>(in[i]))) << in[i] << " to type " << int(to);
  }
}

template <typename From>
void ExpectTruncations(DataType from) {
  ExpectTruncation<From, int8_t>(from, DataType::kInt8);
  ExpectTruncation<From, int16_t>(from, DataType::kInt16);
  ExpectTruncation<From, int32_t>(from, DataType::kInt32);
  ExpectTruncation<From, int64_t>(from, DataType::kInt64);
  ExpectTruncation<From, uint8_t>(from, DataType::kUint8);
  ExpectTruncation<From, uint16_t>(from, DataType::kUint16);
  ExpectTruncation<From, uint32_t>(from, DataType::kUint32);
  ExpectTruncation<From, uint64_t>(from, DataType::kUint64);
}

TEST_P(CastTest, FloatsTruncateAndNeverLeaveTheRules) { ExpectTruncations<float>(DataType::kFloat); }
TEST_P(CastTest, DoublesTruncateAndNeverLeaveTheRules) { ExpectTruncations<double>(DataType::kDouble); }

template <typename From, typename To>
void ExpectStaticCast(DataType from, DataType to) {
  std::minstd_rand random(1);
  std::vector<From> in(200);
  for (From& x : in) x = static_cast<From>(random() * 2654435761u * uint64_t{random()});
  in[0] = std::numeric_limits<From>::lowest();
  in[1] = std::numeric_limits<From>::max();
  in[2] = 0;
  for (size_t n = 0; n < 70; ++n) {
    const std::vector<From> part(in.begin(), in.begin() + static_cast<ptrdiff_t>(n));
    const auto out = Cast<From, To>(from, to, part);
    for (size_t i = 0; i < n; ++i)
      ASSERT_EQ(out[i], static_cast<To>(in[i])) << int(from) << " to " << int(to);
  }
}

template <typename From>
void ExpectFromInteger(DataType from) {
  ExpectStaticCast<From, float>(from, DataType::kFloat);
  ExpectStaticCast<From, double>(from, DataType::kDouble);
  ExpectStaticCast<From, int8_t>(from, DataType::kInt8);
  ExpectStaticCast<From, int16_t>(from, DataType::kInt16);
  ExpectStaticCast<From, int32_t>(from, DataType::kInt32);
  ExpectStaticCast<From, int64_t>(from, DataType::kInt64);
  ExpectStaticCast<From, uint8_t>(from, DataType::kUint8);
  ExpectStaticCast<From, uint16_t>(from, DataType::kUint16);
  ExpectStaticCast<From, uint32_t>(from, DataType::kUint32);
  ExpectStaticCast<From, uint64_t>(from, DataType::kUint64);
  ExpectStaticCast<From, std::complex<float>>(from, DataType::kComplex64);
  ExpectStaticCast<From, std::complex<double>>(from, DataType::kComplex128);
}

TEST_P(CastTest, IntegersWrapOrRound) {
  ExpectFromInteger<int8_t>(DataType::kInt8);
  ExpectFromInteger<int16_t>(DataType::kInt16);
  ExpectFromInteger<int32_t>(DataType::kInt32);
  ExpectFromInteger<int64_t>(DataType::kInt64);
  ExpectFromInteger<uint8_t>(DataType::kUint8);
  ExpectFromInteger<uint16_t>(DataType::kUint16);
  ExpectFromInteger<uint32_t>(DataType::kUint32);
  ExpectFromInteger<uint64_t>(DataType::kUint64);
}

TEST_P(CastTest, BetweenFloatsAndDoubles) {
  const auto doubles = SweepOfFloats<double>();
  const auto floats = Cast<double, float>(DataType::kDouble, DataType::kFloat, doubles);
  for (size_t i = 0; i < floats.size(); ++i) ASSERT_TRUE(Same(floats[i], static_cast<float>(doubles[i])));
  const auto back = Cast<float, double>(DataType::kFloat, DataType::kDouble, floats);
  for (size_t i = 0; i < floats.size(); ++i) ASSERT_TRUE(Same(back[i], static_cast<double>(floats[i])));
}

TEST_P(CastTest, BoolsAreZeroOrNot) {
  const auto from_float =
      Cast<float, uint8_t>(DataType::kFloat, DataType::kBool, {0.0f, -0.0f, 0.25f, NAN, 256.0f});
  EXPECT_EQ(from_float, (std::vector<uint8_t>{0, 0, 1, 1, 1}));
  const auto from_int = Cast<int32_t, uint8_t>(DataType::kInt32, DataType::kBool, {0, 256, -1});
  EXPECT_EQ(from_int, (std::vector<uint8_t>{0, 1, 1}));
  const auto to_float = Cast<uint8_t, float>(DataType::kBool, DataType::kFloat, {0, 1, 2});
  EXPECT_EQ(to_float, (std::vector<float>{0, 1, 1}));
  const auto to_bool = Cast<uint8_t, uint8_t>(DataType::kBool, DataType::kBool, {0, 1, 2});
  EXPECT_EQ(to_bool, (std::vector<uint8_t>{0, 1, 1}));
  const auto to_byte = Cast<uint8_t, uint8_t>(DataType::kUint8, DataType::kUint8, {0, 1, 2});
  EXPECT_EQ(to_byte, (std::vector<uint8_t>{0, 1, 2}));
}

// The value of a half by its definition.
double HalfValue(uint16_t h) {
  const double sign = (h & 0x8000) != 0 ? -1 : 1;
  const int exponent = (h >> 10) & 31, fraction = h & 1023;
  if (exponent == 31) return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : NAN;
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

TEST_P(CastTest, EveryHalfHasItsValueAndComesBack) {
  std::vector<uint16_t> halfs(65536);
  for (size_t i = 0; i < halfs.size(); ++i) halfs[i] = static_cast<uint16_t>(i);
  const auto floats = Cast<uint16_t, float>(DataType::kHalf, DataType::kFloat, halfs);
  const auto back = Cast<float, uint16_t>(DataType::kFloat, DataType::kHalf, floats);
  for (size_t i = 0; i < halfs.size(); ++i) {
    ASSERT_TRUE(Same(static_cast<double>(floats[i]), HalfValue(halfs[i]))) << i;
    if (!std::isnan(floats[i])) {
      ASSERT_EQ(back[i], halfs[i]);
    } else {
      ASSERT_TRUE(std::isnan(HalfValue(back[i])));
    }
  }
}

TEST_P(CastTest, FloatsRoundToTheNearestEvenHalf) {
  // Between each pair of neighbours: the midpoint is rounded to the even one, and the floats next to it to
  // the nearer one.
  std::vector<float> in;
  std::vector<uint16_t> want;
  for (uint16_t h = 0; h < 0x7bff; ++h) {
    const double low = HalfValue(h), high = HalfValue(static_cast<uint16_t>(h + 1));
    const auto middle = static_cast<float>((low + high) / 2);
    in.insert(in.end(), {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e9f), -middle});
    const auto even = static_cast<uint16_t>(h % 2 == 0 ? h : h + 1);
    want.insert(want.end(), {even, h, static_cast<uint16_t>(h + 1), static_cast<uint16_t>(even | 0x8000)});
  }
  in.insert(in.end(), {65519.996f, 65520.0f, 1e30f, 1e-30f, std::numeric_limits<float>::denorm_min()});
  want.insert(want.end(), {0x7bff, 0x7c00, 0x7c00, 0, 0});
  const auto out = Cast<float, uint16_t>(DataType::kFloat, DataType::kHalf, in);
  for (size_t i = 0; i < in.size(); ++i) ASSERT_EQ(out[i], want[i]) << in[i];
}

TEST_P(CastTest, FloatsRoundToTheNearestEvenBfloat16) {
  const std::vector<float> in = {1.0f,
                                 1.00390625f,
                                 1.01171875f,
                                 -1.00390625f,
                                 1.003906369f,
                                 3.3962e38f,
                                 std::numeric_limits<float>::infinity(),
                                 NAN,
                                 0.0f,
                                 -0.0f};
  const auto out = Cast<float, uint16_t>(DataType::kFloat, DataType::kBfloat16, in);
  const std::vector<uint16_t> want = {0x3f80, 0x3f80, 0x3f82, 0xbf80, 0x3f81,
                                      0x7f80, 0x7f80, 0x7fc0, 0,      0x8000};
  EXPECT_EQ(out, want);
  for (const float x : SweepOfFloats<float>()) {
    const auto narrow = Cast<float, uint16_t>(DataType::kFloat, DataType::kBfloat16, {x});
    ASSERT_EQ(narrow[0], bfloat16::FromFloat(x));
    const auto wide = Cast<uint16_t, float>(DataType::kBfloat16, DataType::kFloat, narrow);
    ASSERT_TRUE(Same(wide[0], static_cast<float>(bfloat16(x))));
  }
}

TEST_P(CastTest, HalfTypesGoThroughFloat) {
  const std::vector<uint16_t> halfs(1100, 0xc500);  // -5
  EXPECT_EQ((Cast<uint16_t, int32_t>(DataType::kHalf, DataType::kInt32, halfs)),
            std::vector<int32_t>(1100, -5));
  EXPECT_EQ((Cast<uint16_t, uint8_t>(DataType::kHalf, DataType::kBool, halfs)),
            std::vector<uint8_t>(1100, 1));
  EXPECT_EQ((Cast<uint16_t, uint16_t>(DataType::kHalf, DataType::kBfloat16, halfs)),
            std::vector<uint16_t>(1100, 0xc0a0));
  EXPECT_EQ((Cast<uint16_t, std::complex<double>>(DataType::kHalf, DataType::kComplex128, halfs)),
            std::vector<std::complex<double>>(1100, -5));
  const std::vector<std::complex<float>> complex(700, {-5, 3});
  EXPECT_EQ((Cast<std::complex<float>, uint16_t>(DataType::kComplex64, DataType::kHalf, complex)),
            std::vector<uint16_t>(700, 0xc500));
  EXPECT_EQ((Cast<uint64_t, uint16_t>(DataType::kUint64, DataType::kHalf, {3, 1u << 20})),
            (std::vector<uint16_t>{0x4200, 0x7c00}));
}

TEST_P(CastTest, ComplexNumbersLoseTheirImaginaryPart) {
  const std::vector<std::complex<double>> in = {{1.75, 9}, {-3.5, 0}, {0, 4}};
  EXPECT_EQ((Cast<std::complex<double>, double>(DataType::kComplex128, DataType::kDouble, in)),
            (std::vector<double>{1.75, -3.5, 0}));
  EXPECT_EQ((Cast<std::complex<double>, float>(DataType::kComplex128, DataType::kFloat, in)),
            (std::vector<float>{1.75, -3.5, 0}));
  EXPECT_EQ((Cast<std::complex<double>, int16_t>(DataType::kComplex128, DataType::kInt16, in)),
            (std::vector<int16_t>{1, -3, 0}));
  EXPECT_EQ((Cast<std::complex<double>, uint8_t>(DataType::kComplex128, DataType::kBool, in)),
            (std::vector<uint8_t>{1, 1, 0}));
  const std::vector<std::complex<float>> narrow = {{1.75, 9}, {-3.5, 0}, {0, 4}};
  EXPECT_EQ(
      (Cast<std::complex<double>, std::complex<float>>(DataType::kComplex128, DataType::kComplex64, in)),
      narrow);
  EXPECT_EQ(
      (Cast<std::complex<float>, std::complex<double>>(DataType::kComplex64, DataType::kComplex128, narrow)),
      in);
}

TEST_P(CastTest, EveryNumericPairExists) {
  using enum DataType;
  const DataType types[] = {kFloat,  kDouble, kInt8, kInt16, kInt32,    kInt64,     kUint8,     kUint16,
                            kUint32, kUint64, kBool, kHalf,  kBfloat16, kComplex64, kComplex128};
  for (const DataType from : types) {
    for (const DataType to : types) EXPECT_NE(FindCast(from, to), nullptr) << int(from) << " " << int(to);
    EXPECT_EQ(FindCast(from, kString), nullptr);
    EXPECT_EQ(FindCast(kVariant, from), nullptr);
    EXPECT_EQ(FindCast(kQint8, from), nullptr);
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, CastTest, EachIsa(), IsaName);

}  // namespace
}  // namespace millrace::cpu
