// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/linalg/small.h"

#include "kernels/cpu/contract/isa.h"

namespace millrace::cpu {

template <>
const SmallMatrixTable<float>& SmallMatrices<float>() {
  switch (ActiveIsa()) {
    case Isa::kAvx512:
      return avx512::kSmallFloat;
    case Isa::kAvx2:
      return avx2::kSmallFloat;
    case Isa::kBaseline:
      break;
  }
  return baseline::kSmallFloat;
}

template <>
const SmallMatrixTable<double>& SmallMatrices<double>() {
  switch (ActiveIsa()) {
    case Isa::kAvx512:
      return avx512::kSmallDouble;
    case Isa::kAvx2:
      return avx2::kSmallDouble;
    case Isa::kBaseline:
      break;
  }
  return baseline::kSmallDouble;
}

const SmallComplexTable& SmallComplexMatrices() {
  switch (ActiveIsa()) {
    case Isa::kAvx512:
      return avx512::kSmallComplex;
    case Isa::kAvx2:
      return avx2::kSmallComplex;
    case Isa::kBaseline:
      break;
  }
  return baseline::kSmallComplex;
}

}  // namespace millrace::cpu
