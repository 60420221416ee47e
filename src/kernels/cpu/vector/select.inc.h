// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Selection of elements for one instruction set: plain loops that the compiler vectorises.
#include "kernels/cpu/vector/select.h"
#include "kernels/cpu/vector/simd.inc.h"

namespace millrace::cpu::MR_ISA {
namespace {

template <typename T>
void Select(const void* pick, const void* yes, const void* no, void* out, int64_t n) {
  const uint8_t* p = (const uint8_t*)pick;
  const T* x = (const T*)yes;
  const T* y = (const T*)no;
  T* z = (T*)out;
  MR_VECTORIZE
  for (int64_t i = 0; i < n; ++i) {
    const T a = x[i], b = y[i];  // both are read, so that there is no branch
    z[i] = p[i] != 0 ? a : b;
  }
}

void SelectPairs(const void* pick, const void* yes, const void* no, void* out, int64_t n) {
  const uint8_t* p = (const uint8_t*)pick;
  const uint64_t* x = (const uint64_t*)yes;
  const uint64_t* y = (const uint64_t*)no;
  uint64_t* z = (uint64_t*)out;
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t* from = p[i] != 0 ? x : y;
    const uint64_t low = from[2 * i], high = from[2 * i + 1];
    z[2 * i] = low;
    z[2 * i + 1] = high;
  }
}

}  // namespace

constinit const SelectTable kSelectTable = {
    {Select<uint8_t>, Select<uint16_t>, Select<uint32_t>, Select<uint64_t>, SelectPairs}};

}  // namespace millrace::cpu::MR_ISA
