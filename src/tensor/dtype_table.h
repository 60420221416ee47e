// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "millrace/dtype.h"
#include "tensor/resource_handle.h"
#include "tensor/variant.h"

namespace millrace {

inline constexpr size_t kNumDataTypes = 24;  // with kInvalid
inline constexpr DataType kAllDataTypes[] = {
#define MR_DTYPE(Name, number, Cpp, text, enum_text) DataType::k##Name,
#include "millrace/dtypes.def"
#undef MR_DTYPE
};

namespace internal {
inline constexpr uint8_t kElementSizes[kNumDataTypes] = {
    0,
#define MR_DTYPE(Name, number, Cpp, text, enum_text) sizeof(Cpp),
#include "millrace/dtypes.def"
#undef MR_DTYPE
};
}  // namespace internal

// sizeof an element in memory, for strings, handles and variants too; 0 for references and unknown types.
constexpr size_t ElementSize(DataType t) {
  const auto i = static_cast<size_t>(t);
  return i < kNumDataTypes ? internal::kElementSizes[i] : 0;
}

// True for types whose elements have constructors.
constexpr bool OwnsMemory(DataType t) {
  return t == DataType::kString || t == DataType::kResource || t == DataType::kVariant;
}

// Calls fn.template operator()<T>() with the element type T of `t`, or returns `otherwise` when there is
// none.
template <typename R, typename Fn>
R VisitDataType(DataType t, R otherwise, Fn&& fn) {
  switch (t) {
#define MR_DTYPE(Name, number, Cpp, text, enum_text) \
  case DataType::k##Name:                            \
    return fn.template operator()<Cpp>();
#include "millrace/dtypes.def"
#undef MR_DTYPE
    default:
      return otherwise;
  }
}

}  // namespace millrace
