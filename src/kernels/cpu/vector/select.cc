// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/select.h"

#include <bit>

#include "kernels/cpu/contract/isa.h"

namespace millrace::cpu {

SelectFn FindSelect(int64_t element_size) {
  if (element_size < 1 || element_size > 16 || !std::has_single_bit(static_cast<uint64_t>(element_size)))
    return nullptr;
  static constexpr const SelectTable* kTables[] = {&baseline::kSelectTable, &avx2::kSelectTable,
                                                   &avx512::kSelectTable};
  return kTables[static_cast<int>(ActiveIsa())]->of[std::countr_zero(static_cast<uint64_t>(element_size))];
}

}  // namespace millrace::cpu
