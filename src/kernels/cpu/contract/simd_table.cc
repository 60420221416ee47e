// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contract/simd_table.h"

#include "kernels/cpu/contract/isa.h"

namespace millrace::cpu {

namespace baseline {
extern const SimdKernels<float> kFloatKernels;
extern const SimdKernels<double> kDoubleKernels;
}  // namespace baseline
namespace avx2 {
extern const SimdKernels<float> kFloatKernels;
extern const SimdKernels<double> kDoubleKernels;
}  // namespace avx2
namespace avx512 {
extern const SimdKernels<float> kFloatKernels;
extern const SimdKernels<double> kDoubleKernels;
}  // namespace avx512

namespace {

template <typename T>
const SimdKernels<T>& Choose(const SimdKernels<T>& of_baseline, const SimdKernels<T>& of_avx2,
                             const SimdKernels<T>& of_avx512) {
  switch (ActiveIsa()) {
    case Isa::kAvx512:
      return of_avx512;
    case Isa::kAvx2:
      return of_avx2;
    case Isa::kBaseline:
      break;
  }
  return of_baseline;
}

}  // namespace

template <>
const SimdKernels<float>& ActiveKernels<float>() {
  return Choose(baseline::kFloatKernels, avx2::kFloatKernels, avx512::kFloatKernels);
}
template <>
const SimdKernels<double>& ActiveKernels<double>() {
  return Choose(baseline::kDoubleKernels, avx2::kDoubleKernels, avx512::kDoubleKernels);
}

}  // namespace millrace::cpu
