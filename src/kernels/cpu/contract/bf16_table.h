// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The inner loops of products of bfloat16, for processors that have such instructions (bf16_simd.cc).
#pragma once

#include <cstdint>

#include "kernels/cpu/contract/rectify.h"

namespace millrace::cpu {

// Operands are packed in tiles of 16 rows of 64 bytes, two side by side for each step of 32 along k:
// - of A, a group of 32 rows: row r of a tile has the 32 values of one row;
// - of B, a panel of 32 columns: row r of a tile has the values 2r and 2r + 1 of 16 columns, interleaved.
// Values beyond k are zero; rows and columns beyond the matrix are undefined.
inline constexpr int64_t kBf16Group = 32;                      // rows of A, columns of B
inline constexpr int64_t kBf16Step = 32;                       // values along k
inline constexpr int64_t kBf16Tile = 16 * 32;                  // elements
inline constexpr int64_t kBf16StepElements = 2 * kBf16Tile;    // of a group for a step
inline constexpr int64_t kBf16Sums = kBf16Group * kBf16Group;  // floats of a block of results

// Up to 32 rows (as_rows: of A) or columns of a matrix, `count` x k. With along_k the values of one row are
// contiguous and rows are `ld` elements apart; otherwise values at the same k are contiguous.
struct Bf16Pack {
  const void* source;
  bool is_float;  // rounded to nearest, ties to even
  int64_t ld;
  bool along_k;
  bool as_rows;
  int64_t count, k;
  uint16_t* tiles;
};

// Contiguous values, or zeros if `data` is null.
struct Bf16Run {
  const uint16_t* data;
  int64_t length;
};

// One row of A that is concatenated from runs. With `aligned` each run begins at a new step and is padded
// with zeros up to the next; otherwise each run begins where the last one ended, and is copied through
// `line`, which has room for all of them rounded up to a step.
struct Bf16Gather {
  const Bf16Run* runs;
  int64_t count;
  bool aligned;
  uint16_t* line;
  int64_t row;
  uint16_t* tiles;
};

// sums[32][32] (+)= A * B.
struct Bf16Block {
  const uint16_t *a, *b;
  int64_t steps;
  int64_t rows, cols;  // 1 to 32; other sums are undefined
  float* sums;
  bool accumulate;
};

// The last stage of a block of results; the epilogue is that of gemm.h.
struct Bf16Finish {
  const float* sums;
  int64_t rows, cols;
  const int64_t* offsets;  // of the rows in `out` and `residual`
  const float *scale, *bias, *residual;
  Rectify rectify;
  void* out;
  bool to_float;
};

struct Bf16Kernels {
  // Converts floats to bfloat16.
  void (*round)(const float* in, int64_t count, uint16_t* out);
  void (*pack)(const Bf16Pack& pack);
  void (*gather)(const Bf16Gather& gather);
  // Concatenates `runs`.
  void (*join)(const Bf16Run* runs, int64_t count, uint16_t* out);
  // To be called before and after any number of calls of multiply on one thread, of at most `rows` rows each.
  void (*begin)(int64_t rows);
  void (*multiply)(const Bf16Block& block);
  void (*end)();
  void (*finish)(const Bf16Finish& finish);
};

// The kernels of the active unit (bf16.h); null if there is none.
const Bf16Kernels* ActiveBf16Kernels();

}  // namespace millrace::cpu
