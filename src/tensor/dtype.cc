// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/dtype.h"

#include <array>
#include <bit>

#include "millrace/status.h"
#include "tensor/dtype_table.h"

namespace millrace {
namespace {

struct NamedType {
  DataType dtype;
  std::string_view name;
  std::string_view enum_name;
};

constexpr NamedType kNames[] = {
#define MR_DTYPE(Name, number, Cpp, text, enum_text) {DataType::k##Name, text, enum_text},
#include "millrace/dtypes.def"
#undef MR_DTYPE
};

// Spellings that attrs of old graphs use beside the usual ones.
constexpr NamedType kAliases[] = {
    {DataType::kFloat, "float32", "DT_FLOAT"},
    {DataType::kDouble, "float64", "DT_DOUBLE"},
    {DataType::kHalf, "float16", "DT_HALF"},
};

const NamedType* FindName(DataType base) {
  const int number = static_cast<int>(base);
  // The table is in the order of the numbers, which start at one.
  if (number < 1 || number > static_cast<int>(std::size(kNames))) return nullptr;
  return &kNames[number - 1];
}

constexpr bool TableIsDense() {
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (static_cast<size_t>(kNames[i].dtype) != i + 1) return false;
  }
  return std::size(kNames) + 1 == kNumDataTypes;
}
static_assert(TableIsDense());

}  // namespace

std::string DataTypeName(DataType t) {
  if (t == DataType::kInvalid) return "invalid";
  const NamedType* entry = FindName(BaseType(t));
  if (entry == nullptr) return StrCat("unknown(", static_cast<int>(t), ")");
  return StrCat(entry->name, IsRefType(t) ? "_ref" : "");
}

std::string DataTypeEnumName(DataType t) {
  if (t == DataType::kInvalid) return "DT_INVALID";
  const NamedType* entry = FindName(BaseType(t));
  if (entry == nullptr) return StrCat("unknown(", static_cast<int>(t), ")");
  return StrCat(entry->enum_name, IsRefType(t) ? "_REF" : "");
}

std::optional<DataType> ParseDataType(std::string_view name) {
  std::string_view base = name;
  const bool is_ref = base.ends_with("_ref") || base.ends_with("_REF");
  if (is_ref) base.remove_suffix(4);
  const bool upper = name.ends_with("_REF");
  const auto match = [&](const NamedType& entry) {
    // Both parts of a reference's name are spelled in the same way.
    return (entry.name == base && !upper) || (entry.enum_name == base && (!is_ref || upper));
  };
  for (const NamedType& entry : kNames) {
    if (match(entry)) return is_ref ? MakeRefType(entry.dtype) : entry.dtype;
  }
  for (const NamedType& entry : kAliases) {
    if (match(entry)) return is_ref ? MakeRefType(entry.dtype) : entry.dtype;
  }
  return std::nullopt;
}

bool IsKnownDataType(DataType t) { return FindName(BaseType(t)) != nullptr; }

size_t DataTypeSize(DataType t) {
  const DataType base = BaseType(t);
  return OwnsMemory(base) ? 0 : ElementSize(base);
}

bool IsFloatingType(DataType t) {
  return t == DataType::kFloat || t == DataType::kDouble || t == DataType::kHalf || t == DataType::kBfloat16;
}

bool IsIntegerType(DataType t) {
  switch (t) {
    case DataType::kInt8:
    case DataType::kInt16:
    case DataType::kInt32:
    case DataType::kInt64:
    case DataType::kUint8:
    case DataType::kUint16:
    case DataType::kUint32:
    case DataType::kUint64:
      return true;
    default:
      return false;
  }
}

bool IsComplexType(DataType t) { return t == DataType::kComplex64 || t == DataType::kComplex128; }

bool IsQuantizedType(DataType t) {
  return t == DataType::kQint8 || t == DataType::kQuint8 || t == DataType::kQint16 ||
         t == DataType::kQuint16 || t == DataType::kQint32;
}

std::ostream& operator<<(std::ostream& os, DataType t) { return os << DataTypeName(t); }

uint16_t half::FromFloat(float f) {
  const auto u = std::bit_cast<uint32_t>(f);
  const uint32_t sign = (u >> 16) & 0x8000u;
  const uint32_t magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {  // NaN: quiet, the upper bits of the payload stay, as the processor does it
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  }
  if (magnitude >= 0x477ff000u)
    return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and above round to infinity
  if (magnitude < 0x38800000u) {
    // Below 2^-14 the result is a multiple of 2^-24. Adding 1/2, whose unit in the last place is 2^-24, makes
    // the float addition do the rounding to nearest even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

float half::ToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) {
    const uint32_t quiet = magnitude > 0x7c00u ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13) | quiet);
  }
  if (magnitude < 0x400u) {  // a multiple of 2^-24, exact in float
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1p-24f));
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
}

}  // namespace millrace
