// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "millrace/dtype.h"

namespace millrace {

// The integer type that stores the elements of a quantised type; other types themselves. Code that compares,
// adds or copies elements without their range uses the former for the latter.
constexpr DataType StoredType(DataType type) {
  switch (type) {
    case DataType::kQint8:
      return DataType::kInt8;
    case DataType::kQuint8:
      return DataType::kUint8;
    case DataType::kQint16:
      return DataType::kInt16;
    case DataType::kQuint16:
      return DataType::kUint16;
    case DataType::kQint32:
      return DataType::kInt32;
    default:
      return type;
  }
}

}  // namespace millrace
