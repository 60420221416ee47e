// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Code that the products and the convolutions of bfloat16 share.
#pragma once

#include <cstdint>

#include "kernels/cpu/contract/bf16_table.h"
#include "kernels/cpu/contract/conv_geometry.h"
#include "kernels/cpu/contract/gemm.h"
#include "kernels/cpu/contract/parallel.h"

namespace millrace::cpu {

// Packs all panels of B (bf16.h). REQUIRES: a unit is active.
template <typename T>
void PackPanels(int64_t k, int64_t n, const T* b, int64_t ldb, bool transposed, uint16_t* packed,
                Parallel& parallel);

// The output of a product.
struct Bf16Results {
  void* out;
  bool to_float;
  int64_t columns;
  const GemmEpilogue<float>& epilogue;

  // Computes the block of `rows` rows, at `offsets` in the output, from column `column` on. To be called
  // between begin and end of the kernels.
  void Multiply(const Bf16Kernels& kernels, const uint16_t* a, const uint16_t* b, int64_t steps, int64_t rows,
                const int64_t* offsets, int64_t column) const;
};

}  // namespace millrace::cpu
