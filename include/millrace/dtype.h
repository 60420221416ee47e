// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

namespace millrace {

struct ResourceHandle;
class Variant;

// Element types, with the numbers of tensorflow.DataType. A reference type is its base type + 100.
enum class DataType : int {
  kInvalid = 0,
#define MR_DTYPE(Name, number, Cpp, text, enum_text) k##Name = number,
#include "millrace/dtypes.def"
#undef MR_DTYPE
};

inline constexpr int kRefOffset = 100;

constexpr bool IsRefType(DataType t) { return static_cast<int>(t) > kRefOffset; }
constexpr DataType BaseType(DataType t) {
  return IsRefType(t) ? static_cast<DataType>(static_cast<int>(t) - kRefOffset) : t;
}
constexpr DataType MakeRefType(DataType t) {
  return IsRefType(t) ? t : static_cast<DataType>(static_cast<int>(t) + kRefOffset);
}

// "float", "int32_ref", …; "invalid" or "unknown(<n>)" for numbers outside the table.
std::string DataTypeName(DataType t);
// "DT_FLOAT", "DT_INT32_REF", …
std::string DataTypeEnumName(DataType t);
// Accepts both spellings of either kind.
std::optional<DataType> ParseDataType(std::string_view name);
// True for each type in the table and its reference form.
bool IsKnownDataType(DataType t);
// Bytes per element; 0 for types whose elements own memory (string, resource, variant) and for unknown types.
size_t DataTypeSize(DataType t);
bool IsFloatingType(DataType t);
bool IsIntegerType(DataType t);  // signed and unsigned, not quantised
bool IsComplexType(DataType t);
bool IsQuantizedType(DataType t);
std::ostream& operator<<(std::ostream& os, DataType t);

// IEEE binary16 held as bits; arithmetic is done in float by the caller.
struct half {
  uint16_t bits = 0;
  half() = default;
  explicit half(float f) : bits(FromFloat(f)) {}
  explicit operator float() const { return ToFloat(bits); }
  static uint16_t FromFloat(float f);
  static float ToFloat(uint16_t bits);
  friend bool operator==(half a, half b) { return float(a) == float(b); }
};

// The upper half of an IEEE binary32; rounds to nearest even.
struct bfloat16 {
  uint16_t bits = 0;
  bfloat16() = default;
  explicit bfloat16(float f) : bits(FromFloat(f)) {}
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
  static uint16_t FromFloat(float f) {
    const auto u = std::bit_cast<uint32_t>(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return 0x7fc0;
    return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
  friend bool operator==(bfloat16 a, bfloat16 b) { return float(a) == float(b); }
};

// Quantised integers; the range that defines their meaning is stored elsewhere.
template <typename Int, int kTag>
struct Quantized {
  Int value = 0;
  friend bool operator==(Quantized a, Quantized b) { return a.value == b.value; }
};
using qint8 = Quantized<int8_t, 0>;
using quint8 = Quantized<uint8_t, 0>;
using qint16 = Quantized<int16_t, 0>;
using quint16 = Quantized<uint16_t, 0>;
using qint32 = Quantized<int32_t, 0>;

using complex64 = std::complex<float>;
using complex128 = std::complex<double>;

// kDataTypeOf<float> == DataType::kFloat.
template <typename T>
struct DataTypeOf;
#define MR_DTYPE(Name, number, Cpp, text, enum_text)     \
  template <>                                            \
  struct DataTypeOf<Cpp> {                               \
    static constexpr DataType value = DataType::k##Name; \
  };
#include "millrace/dtypes.def"
#undef MR_DTYPE
template <typename T>
inline constexpr DataType kDataTypeOf = DataTypeOf<T>::value;

}  // namespace millrace
