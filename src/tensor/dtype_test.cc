// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/dtype.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tensor/dtype_table.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace millrace {
namespace {

TEST(DtypeTest, NamesParseBackInBothSpellings) {
  for (const DataType t : kAllDataTypes) {
    for (const DataType u : {t, MakeRefType(t)}) {
      EXPECT_EQ(ParseDataType(DataTypeName(u)), u) << u;
      EXPECT_EQ(ParseDataType(DataTypeEnumName(u)), u) << u;
      EXPECT_TRUE(IsKnownDataType(u));
      EXPECT_EQ(BaseType(u), t);
    }
    EXPECT_TRUE(IsRefType(MakeRefType(t)));
    EXPECT_EQ(MakeRefType(MakeRefType(t)), MakeRefType(t));
  }
  EXPECT_EQ(DataTypeName(DataType::kFloat), "float");
  EXPECT_EQ(DataTypeEnumName(MakeRefType(DataType::kInt32)), "DT_INT32_REF");
  EXPECT_EQ(ParseDataType("float32"), DataType::kFloat);
  EXPECT_EQ(ParseDataType("float64_ref"), MakeRefType(DataType::kDouble));
}

TEST(DtypeTest, OtherTextsAndNumbersAreUnknown) {
  for (const char* bad :
       {"", "Float", "DT_", "dt_float", "float_REF", "DT_FLOAT_ref", "float_ref_ref", "invalid"}) {
    EXPECT_EQ(ParseDataType(bad), std::nullopt) << bad;
  }
  for (const int bad : {-1, 0, 24, 99, 100, 124, 200, 1 << 30}) {
    EXPECT_FALSE(IsKnownDataType(static_cast<DataType>(bad))) << bad;
    EXPECT_EQ(DataTypeSize(static_cast<DataType>(bad)), 0u) << bad;
  }
  EXPECT_EQ(DataTypeName(DataType::kInvalid), "invalid");
  EXPECT_EQ(DataTypeName(static_cast<DataType>(77)), "unknown(77)");
  EXPECT_EQ(DataTypeName(static_cast<DataType>(-3)), "unknown(-3)");
}

TEST(DtypeTest, SizesAreThoseOfTheWire) {
  EXPECT_EQ(DataTypeSize(DataType::kBool), 1u);
  EXPECT_EQ(DataTypeSize(DataType::kHalf), 2u);
  EXPECT_EQ(DataTypeSize(DataType::kBfloat16), 2u);
  EXPECT_EQ(DataTypeSize(DataType::kQint32), 4u);
  EXPECT_EQ(DataTypeSize(DataType::kComplex128), 16u);
  EXPECT_EQ(DataTypeSize(MakeRefType(DataType::kFloat)), 4u);
  for (const DataType t : {DataType::kString, DataType::kResource, DataType::kVariant}) {
    EXPECT_EQ(DataTypeSize(t), 0u);
    EXPECT_GT(ElementSize(t), 0u);
  }
}

TEST(DtypeTest, EachTypeHasOneKind) {
  int counts[5] = {};
  for (const DataType t : kAllDataTypes) {
    const int kinds = IsFloatingType(t) + IsIntegerType(t) + IsComplexType(t) + IsQuantizedType(t);
    EXPECT_EQ(kinds, t == DataType::kBool || OwnsMemory(t) ? 0 : 1) << t;
    counts[0] += IsFloatingType(t);
    counts[1] += IsIntegerType(t);
    counts[2] += IsComplexType(t);
    counts[3] += IsQuantizedType(t);
  }
  EXPECT_EQ(counts[0], 4);
  EXPECT_EQ(counts[1], 8);
  EXPECT_EQ(counts[2], 2);
  EXPECT_EQ(counts[3], 5);
}

// The value from the definition of binary16.
double ValueOfHalf(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return mantissa != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(HalfTest, EveryValueConvertsExactly) {
  for (uint32_t b = 0; b < 65536; ++b) {
    const auto bits = static_cast<uint16_t>(b);
    const float got = half::ToFloat(bits);
    const double want = ValueOfHalf(bits);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(got)) << b;
      ASSERT_TRUE(std::isnan(half::ToFloat(half::FromFloat(got)))) << b;
      continue;
    }
    ASSERT_EQ(double{got}, want) << b;
    ASSERT_EQ(std::signbit(got), (b & 0x8000) != 0) << b;
    ASSERT_EQ(half::FromFloat(got), bits) << b;
  }
}

// Between neighbours: below, at and above the middle.
TEST(HalfTest, RoundsToNearestEven) {
  for (uint32_t b = 0; b < 0x7c00; ++b) {
    const double low = ValueOfHalf(static_cast<uint16_t>(b));
    const double high = b + 1 == 0x7c00 ? 65536.0 : ValueOfHalf(static_cast<uint16_t>(b + 1));
    const auto middle = static_cast<float>((low + high) / 2);  // exact
    const uint16_t even = static_cast<uint16_t>(b % 2 == 0 ? b : b + 1);
    ASSERT_EQ(half::FromFloat(middle), even) << b;
    ASSERT_EQ(half::FromFloat(std::nextafter(middle, 0.0f)), b) << b;
    ASSERT_EQ(half::FromFloat(std::nextafter(middle, INFINITY)), b + 1) << b;
    ASSERT_EQ(half::FromFloat(-middle), even | 0x8000) << b;
  }
}

TEST(HalfTest, ExtremesSaturateOrVanish) {
  EXPECT_EQ(half::FromFloat(INFINITY), 0x7c00);
  EXPECT_EQ(half::FromFloat(-1e30f), 0xfc00);
  EXPECT_EQ(half::FromFloat(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(half::FromFloat(-0.0f), 0x8000);
  EXPECT_NE(half::FromFloat(NAN) & 0x3ff, 0);
}

#if defined(__x86_64__)
__attribute__((target("f16c"))) uint16_t HardwareHalf(float f) {
  return static_cast<uint16_t>(
      _mm_cvtsi128_si32(_mm_cvtps_ph(_mm_set_ss(f), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)));
}

TEST(HalfTest, AgreesWithTheProcessor) {
  // clang 14 cannot ask for f16c; every processor with AVX2 has it.
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "the processor has no half conversions";
  std::mt19937 random(1);
  for (int i = 0; i < 2000000; ++i) {
    const auto f = std::bit_cast<float>(static_cast<uint32_t>(random()));
    ASSERT_EQ(half::FromFloat(f), HardwareHalf(f)) << std::bit_cast<uint32_t>(f);
  }
}
#endif

TEST(Bfloat16Test, RoundsToNearestEven) {
  for (uint32_t b = 0; b < 0x7f80; ++b) {
    const uint32_t low = b << 16;
    const auto from = [](uint32_t bits) { return bfloat16::FromFloat(std::bit_cast<float>(bits)); };
    ASSERT_EQ(from(low), b);
    ASSERT_EQ(from(low + 0x7fff), b);
    ASSERT_EQ(from(low + 0x8000), b % 2 == 0 ? b : b + 1);
    ASSERT_EQ(from(low + 0x8001), b + 1);
  }
  EXPECT_TRUE(std::isnan(float(bfloat16(NAN))));
  EXPECT_EQ(float(bfloat16(INFINITY)), INFINITY);
  EXPECT_EQ(float(bfloat16(1.0f)), 1.0f);
}

TEST(DtypeTest, TypesAndNumbersAgree) {
  for (const DataType t : kAllDataTypes) {
    EXPECT_TRUE(VisitDataType(
        t, false, [&]<typename T>() { return kDataTypeOf<T> == t && sizeof(T) == ElementSize(t); }));
  }
  EXPECT_FALSE(VisitDataType(DataType::kInvalid, false, [&]<typename T>() { return true; }));
  EXPECT_FALSE(VisitDataType(MakeRefType(DataType::kFloat), false, [&]<typename T>() { return true; }));
}

}  // namespace
}  // namespace millrace
