// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The exports of a unit compiled for one instruction set: constant tables of functions, once per set in the
// namespace of that set. Only the files of this folder include this; no header here may bring in the standard
// library.
#pragma once

#include <stdint.h>

#include "kernels/cpu/vector/ops.h"

namespace millrace::cpu {

inline constexpr int kUnaryOps = static_cast<int>(UnaryOp::kCount);
inline constexpr int kBinaryOps = static_cast<int>(BinaryOp::kCount);

// Klambauer et al., "Self-Normalizing Neural Networks".
inline constexpr double kSeluScale = 1.0507009873554804934193349852946;
inline constexpr double kSeluScaleAlpha = 1.7580993408473768599402175208123;

struct UnaryTable {
  UnaryFn f32[kUnaryOps];
  UnaryFn f64[kUnaryOps];
};

struct BinaryRealTable {
  BinaryFns f32[kBinaryOps];
  BinaryFns f64[kBinaryOps];
};

// The types for which C++ has operators. bool is stored as uint8_t 0 or 1.
enum class PlainType : uint8_t {
  kFloat,
  kDouble,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kBool,
  kCount,
};
inline constexpr int kPlainTypes = static_cast<int>(PlainType::kCount);

struct BinaryPlainTable {
  BinaryFns of[kPlainTypes][kBinaryOps];
};

// Both need at least one element.
struct ReduceFns {
  // Reduces n elements to one.
  void (*row)(const void* in, int64_t n, void* out) = nullptr;
  // Reduces [rows, columns], rows `stride` elements apart, to [columns].
  void (*columns)(const void* in, int64_t rows, int64_t stride, int64_t columns, void* out) = nullptr;
};
enum class ReduceKind : uint8_t { kSum, kProd, kMax, kMin, kCount };  // of bool: kMax is any, kMin is all
inline constexpr int kReduceKinds = static_cast<int>(ReduceKind::kCount);

struct ReduceTable {
  ReduceFns of[kPlainTypes][kReduceKinds];
  // For each row, the index of the first largest (smallest) of its n >= 1 elements, ignoring NaNs.
  void (*arg_max_f32)(const void* in, int64_t rows, int64_t n, int64_t* out);
  void (*arg_min_f32)(const void* in, int64_t rows, int64_t n, int64_t* out);
  void (*arg_max_f64)(const void* in, int64_t rows, int64_t n, int64_t* out);
  void (*arg_min_f64)(const void* in, int64_t rows, int64_t n, int64_t* out);
};

template <typename T>
struct SoftmaxFns {
  // [rows, cols]; cols >= 1. out may equal in.
  void (*softmax)(const T* in, T* out, int64_t rows, int64_t cols);
  void (*log_softmax)(const T* in, T* out, int64_t rows, int64_t cols);
  // Strides between rows of logits and labels, in elements; backprop is dense.
  void (*xent)(const T* logits, int64_t logits_stride, const T* labels, int64_t labels_stride, T* loss,
               T* backprop, int64_t rows, int64_t cols);
  // For one row.
  void (*sparse_xent)(const T* logits, int64_t label, T* loss, T* backprop, int64_t cols);
};

// Local response normalisation of pixels of `depth` channels.
struct ResponseNorm {
  int64_t depth;
  int64_t radius;  // < depth in the loops
  float bias, alpha, beta;
};
struct ResponseNormGrads {
  const float *dy, *x, *y;
  float* dx;
};
// Each depth + 2 * radius floats and two registers long.
struct ResponseNormScratch {
  float *padded, *sums, *direct;
};

struct NeuralTable {
  SoftmaxFns<float> softmax_f32;
  SoftmaxFns<double> softmax_f64;
  void (*response_norm)(const ResponseNorm& norm, const float* x, float* y, int64_t pixels,
                        const ResponseNormScratch& scratch);
  void (*response_norm_grad)(const ResponseNorm& norm, const ResponseNormGrads& grads, int64_t pixels,
                             const ResponseNormScratch& scratch);
};

// n elements of each slot and of the gradient; scalars are an array of the element type.
struct UpdateFns {
  // Computes the new values of `slots` from the old ones in `from`, which may be the same arrays. `stream`:
  // writes around the caches, all slots to addresses that are equal modulo a register's size.
  void (*run)(void* const* slots, const void* const* from, const void* grad, const void* scalars, int64_t n,
              bool stream);
  int slots;
  int scalars;
};
struct UpdateTable {
  UpdateFns f32[static_cast<int>(UpdateRule::kCount)];
  UpdateFns f64[static_cast<int>(UpdateRule::kCount)];
};

struct CastTable {
  UnaryFn plain[kPlainTypes][kPlainTypes];  // [from][to]
  UnaryFn half_to_float;
  UnaryFn float_to_half;
  UnaryFn bfloat16_to_float;
  UnaryFn float_to_bfloat16;
};

// out[c][r] = in[r][c]; strides in bytes between rows of each.
using TransposeFn = void (*)(const char* in, int64_t in_stride, char* out, int64_t out_stride, int64_t rows,
                             int64_t columns);
struct MoveTable {
  TransposeFn transpose[5];  // of elements of 1, 2, 4, 8, 16 bytes
  // The first 4 * blocks uniform floats of a Philox stream.
  void (*uniform_f32)(uint64_t counter_lo, uint64_t counter_hi, uint64_t key, float* out, int64_t blocks);
};

namespace baseline {
extern const UnaryTable kUnaryTable;
extern const BinaryRealTable kBinaryRealTable;
extern const BinaryPlainTable kBinaryPlainTable;
extern const ReduceTable kReduceTable;
extern const NeuralTable kNeuralTable;
extern const CastTable kCastTable;
extern const MoveTable kMoveTable;
extern const UpdateTable kUpdateTable;
}  // namespace baseline
namespace avx2 {
extern const UnaryTable kUnaryTable;
extern const BinaryRealTable kBinaryRealTable;
extern const BinaryPlainTable kBinaryPlainTable;
extern const ReduceTable kReduceTable;
extern const NeuralTable kNeuralTable;
extern const CastTable kCastTable;
extern const MoveTable kMoveTable;
extern const UpdateTable kUpdateTable;
}  // namespace avx2
namespace avx512 {
extern const UnaryTable kUnaryTable;
extern const BinaryRealTable kBinaryRealTable;
extern const BinaryPlainTable kBinaryPlainTable;
extern const ReduceTable kReduceTable;
extern const NeuralTable kNeuralTable;
extern const CastTable kCastTable;
extern const MoveTable kMoveTable;
extern const UpdateTable kUpdateTable;
}  // namespace avx512

}  // namespace millrace::cpu
