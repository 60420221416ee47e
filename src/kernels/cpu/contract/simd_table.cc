// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contract/simd_table.h"

#include "kernels/cpu/contract/isa.h"

namespace millrace::cpu {

namespace baseline {
extern const SimdTable kTable;
}
namespace avx2 {
extern const SimdTable kTable;
}
namespace avx512 {
extern const SimdTable kTable;
}

const SimdTable& ActiveSimdTable() {
  switch (ActiveIsa()) {
    case Isa::kAvx512:
      return avx512::kTable;
    case Isa::kAvx2:
      return avx2::kTable;
    case Isa::kBaseline:
      break;
  }
  return baseline::kTable;
}

}  // namespace millrace::cpu
