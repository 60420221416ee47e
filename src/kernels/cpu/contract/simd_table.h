// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The inner loops of this folder, compiled once per instruction set and type (simd_*.cc) and reached through
// tables. Everything here works on one thread and on blocks that the callers (gemm.cc, conv*.cc, norm.cc,
// pool.cc) have cut by shape.
#pragma once

#include <cstdint>

#include "kernels/cpu/contract/norm.h"
#include "kernels/cpu/contract/pool.h"
#include "kernels/cpu/contract/rectify.h"

namespace millrace::cpu {

// One block of a product: C[m,n] (+)= A[m,k] * B[k,n], where element (i,j) of A lies at a[i * a_row + j *
// a_col] and of B at b[i * b_row + j * b_col]; one of a_row, a_col and one of b_row, b_col is 1. Convolution
// adds two dimensions. With segments, the inner dimension is `segments` runs of k: run s reads A from a +
// segment_offsets[s], while rows of B continue. With repeats, the product is done for `repeats` pairs of
// A and C, a_repeat and c_repeat elements apart, with the same B, and all of that for `groups` of them,
// a_group and c_group apart.
template <typename T>
struct GemmBlock {
  int64_t m, n, k;
  const T* a;
  int64_t a_row, a_col;
  const T* b;
  int64_t b_row, b_col;
  T* c;
  int64_t ldc;
  bool accumulate;
  // The epilogue (gemm.h), each null where it is left out: for the n columns; for C, laid out like it.
  const T* scale = nullptr;
  const T* bias = nullptr;
  const T* residual = nullptr;
  Rectify rectify = Rectify::kNone;
  int64_t segments = 1;
  const int64_t* segment_offsets = nullptr;  // needed with more than one
  // Null, or where run s of B begins, from b on. REQUIRES then: b_col is 1, vectors that begin within the n
  // columns are readable, more than one row.
  const int64_t* b_offsets = nullptr;
  int64_t repeats = 1;
  int64_t a_repeat = 0, c_repeat = 0;
  int64_t groups = 1;
  int64_t a_group = 0, c_group = 0;
  T* scratch = nullptr;  // gemm_scratch(k, segments) elements
  // B by pack_matrix, or null: column 0 of the block is its column packed_column, at which a panel begins, of
  // packed_n (rounded up to lanes). REQUIRES: neither accumulate nor a single row.
  const T* packed = nullptr;
  int64_t packed_n = 0, packed_column = 0;
  // The memory that the thread probably reads after the block, for prefetching: the panel at column
  // `then_column` of `then_packed`, a matrix of the same size. Null: unknown.
  const T* then_packed = nullptr;
  int64_t then_column = 0;
  // The same, for memory that isn't packed, or is written: it is prefetched instead of that.
  const void* next = nullptr;
  int64_t next_bytes = 0;
};

// The sum of `count` (at least 2) matrices of m rows of n columns, `row` elements apart; each begins
// `part` elements after the previous one. Then the epilogue as above.
template <typename T>
struct SumBlock {
  const T* parts;
  int64_t count, part;
  int64_t m, n, row;
  T* c;
  int64_t ldc;
  const T* bias;
  const T* residual;
  Rectify rectify;
};

// out[o][p] = sum over t of weights[t * weight_row + o] * signal[offsets[t] + p], for p in [0, length).
// Length is a multiple of lanes.
template <typename T>
struct SignalBlock {
  const T* signal;
  const int64_t* offsets;
  int64_t taps;
  const T* weights;
  int64_t weight_row;
  int64_t outs;
  int64_t length;
  T* out;
  int64_t out_row;  // elements between out[o] and out[o+1]
  const T* bias;    // for the outs, or null
  Rectify rectify;
};

// sums[(t * outs + o) * lanes + l] += sum over images i and p of signal[offsets[t] + i * signal_image + p] *
// grad[o * grad_row + i * grad_image + p], where lane l takes every p in [0, length) with p % lanes == l.
// Length is a multiple of lanes; if it was rounded up, grad holds zeros and signal is readable there.
template <typename T>
struct CorrelateBlock {
  const T* signal;
  const int64_t* offsets;
  int64_t taps;
  const T* grad;
  int64_t grad_row;
  int64_t outs;
  int64_t images;
  int64_t signal_image, grad_image;
  int64_t length;
  T* sums;
};

// Rows [row_begin, row_end) of the output of one image; channels [channel_begin, channel_end).
struct PoolBlock {
  const PoolParams* params;
  int64_t image;
  int64_t row_begin, row_end;
  int64_t channel_begin, channel_end;
};

// A row of tiles of one image, for Winograd's convolution: `tiles` patches of 4 x 4 pixels, two pixels apart,
// the first of which begins at pixel (top, left). Pixels are `pixel` elements apart, of which `channels`, a
// multiple of lanes, are used. Position i of the transformed patch of a tile is at
// out[i * position + tile * channels].
template <typename T>
struct WinogradInputRow {
  const T* image;
  const T* zeros;  // `channels` of them
  int64_t h, w, pixel, channels;
  int64_t top, left;
  int64_t tiles;
  T* out;
  int64_t position;
};

// The results of a row of tiles, of which h rows (1 or 2) and w columns are inside the image, for `columns`
// of the channels: sums[i * position + tile * columns] are those of position i.
template <typename T>
struct WinogradOutputRow {
  const T* sums;
  int64_t position;
  int64_t tiles, columns;
  int64_t h, w, channels;
  const T* scale;
  const T* bias;
  const T* residual;  // has the layout of out, or null
  Rectify rectify;
  T* out;
};

// Gradients of a row of tiles of one image, for the filter's gradient: h x w of them, h being 1 or 2, the
// first at `grad`. Position i of a transformed tile is at out[i * position + tile * channels].
template <typename T>
struct WinogradGradientRow {
  const T* grad;
  const T* zeros;  // `channels` of them
  int64_t h, w, pixel, channels;
  int64_t tiles;
  T* out;
  int64_t position;
};

template <typename T>
struct SimdKernels {
  int64_t lanes;  // elements of a vector register

  int64_t (*gemm_scratch)(int64_t k, int64_t segments);
  void (*gemm)(const GemmBlock<T>& block);
  void (*sum_parts)(const SumBlock<T>& block);
  // Packs `segments` times k rows of n columns into as many rows of n rounded up to lanes, for gemm.
  void (*pack_matrix)(const T* b, int64_t b_row, int64_t b_col, int64_t k, int64_t segments, int64_t n,
                      T* packed);
  // Rows [first, first + rows) of that, the first of which is at b.
  void (*pack_rows)(const T* b, int64_t b_row, int64_t b_col, int64_t k, int64_t segments, int64_t n,
                    int64_t first, int64_t rows, T* packed);

  // dst[j * dst_row + i] = src[i * src_row + j] for i in [0, rows), j in [0, cols).
  void (*transpose)(const T* src, int64_t src_row, int64_t rows, int64_t cols, T* dst, int64_t dst_row);

  void (*signal)(const SignalBlock<T>& block);
  void (*correlate)(const CorrelateBlock<T>& block);

  // False: some value is not finite or larger than 2^60.
  bool (*winograd_input)(const WinogradInputRow<T>& row);
  void (*winograd_output)(const WinogradOutputRow<T>& row);
  // Nine filters of `count` elements each into 16; false as above.
  bool (*winograd_filter)(const T* filter, int64_t count, T* out);
  bool (*winograd_gradient)(const WinogradGradientRow<T>& row);
  // Gradients of nine filters of `count` elements, a multiple of lanes, from those of 16 transformed ones.
  // One of the 16 is `position` elements after the other, and one of the nine `tap` elements.
  void (*winograd_filter_gradient)(const T* sums, int64_t position, int64_t count, T* out, int64_t tap);

  // out[i] = sum of sums[i * lanes] ... sums[i * lanes + lanes - 1].
  void (*fold_lanes)(const T* sums, int64_t count, T* out);
  // out[i] = sum over r of rows[r * stride + i], in the order of r.
  void (*add_rows)(const T* rows, int64_t row_count, int64_t stride, int64_t count, T* out);

  // Over rows: sums of x, or with a mean of (x - mean)^2; sums of dy and of dy * (x - mean).
  void (*column_sums)(const T* x, const T* mean, int64_t rows, int64_t cols, T* sums);
  void (*column_products)(const T* dy, const T* x, const T* mean, int64_t rows, int64_t cols, T* sums,
                          T* products);
  void (*affine_columns)(const AffineBlock<T>& block);

  void (*max_pool)(PoolBlock block, const T* input, T* output);
  // Writes all pixels of in_grad for the channels of the block, which must have all rows.
  void (*max_pool_grad)(PoolBlock block, const T* input, const T* out_grad, T* in_grad);
  void (*max_pool_grad_grad)(PoolBlock block, const T* input, const T* in_grad, T* output);
  void (*avg_pool)(PoolBlock block, const T* input, T* output);
  // Writes rows of in_grad: the block's rows are of the input.
  void (*avg_pool_grad)(PoolBlock block, const T* out_grad, T* in_grad);
};

// The functions for the active instruction set (isa.h).
template <typename T>
const SimdKernels<T>& ActiveKernels();
template <>
const SimdKernels<float>& ActiveKernels<float>();
template <>
const SimdKernels<double>& ActiveKernels<double>();

}  // namespace millrace::cpu
