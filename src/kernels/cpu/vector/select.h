// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Selects elements of one array or another. Units compiled for one instruction set include this: no header
// here may bring in inline code of the standard library.
#pragma once

#include <stdint.h>

namespace millrace::cpu {

// out[i] = pick[i] ? yes[i] : no[i], where pick is bool. out may equal yes or no exactly, and pick if
// elements have one byte.
using SelectFn = void (*)(const void* pick, const void* yes, const void* no, void* out, int64_t n);

// For elements of 1, 2, 4, 8 or 16 bytes; null for other sizes.
SelectFn FindSelect(int64_t element_size);

struct SelectTable {
  SelectFn of[5];  // by the logarithm of the size
};
namespace baseline {
extern const SelectTable kSelectTable;
}  // namespace baseline
namespace avx2 {
extern const SelectTable kSelectTable;
}  // namespace avx2
namespace avx512 {
extern const SelectTable kSelectTable;
}  // namespace avx512

}  // namespace millrace::cpu
