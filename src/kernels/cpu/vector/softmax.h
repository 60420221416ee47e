// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Row-wise softmax, its logarithm and the cross entropies. All subtract the row's maximum first. A NaN in a
// row makes the whole row NaN. Types: half, bfloat16 (both in float), float, double.
#pragma once

#include <cstdint>

#include "kernels/cpu/contract/parallel.h"
#include "millrace/dtype.h"

namespace millrace::cpu {

// logits and out are [rows, cols]; out may equal logits.
void Softmax(DataType type, const void* logits, void* out, int64_t rows, int64_t cols, Parallel& parallel);
void LogSoftmax(DataType type, const void* logits, void* out, int64_t rows, int64_t cols, Parallel& parallel);

// loss[r] = sum_c labels * (log(sum exp) - shifted logits); backprop = softmax - labels.
// A row stride of 0 repeats one row (the op broadcasts), else it is cols. backprop may equal logits or
// labels.
struct XentShape {
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t logits_row_stride = 0;
  int64_t labels_row_stride = 0;
};
void SoftmaxXent(DataType type, const XentShape& shape, const void* logits, const void* labels, void* loss,
                 void* backprop, Parallel& parallel);

// labels[r] in [0, cols) picks the column whose label is 1. Returns -1, or the first row whose label is out
// of range; then nothing is written. label_type is kInt32 or kInt64.
int64_t SparseSoftmaxXent(DataType type, const void* logits, DataType label_type, const void* labels,
                          void* loss, void* backprop, int64_t rows, int64_t cols, Parallel& parallel);

}  // namespace millrace::cpu
