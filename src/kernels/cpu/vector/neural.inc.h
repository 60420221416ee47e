// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Softmax and cross entropies of float and double for one instruction set; the table of these and of response
// normalisation.
#include "kernels/cpu/vector/math.inc.h"
#include "kernels/cpu/vector/response_norm.inc.h"
#include "kernels/cpu/vector/tables.h"

// Declared here: <math.h> would bring in inline functions of the standard library.
extern "C" float logf(float) noexcept;
extern "C" double log(double) noexcept;

namespace millrace::cpu::MR_ISA {
namespace {

MR_INLINE float ScalarLog(float x) { return logf(x); }
MR_INLINE double ScalarLog(double x) { return log(x); }

template <typename V>
MR_INLINE typename ElementOf<V>::T SumAcross(V v) {
  return Across(v, [](V a, V b) { return a + b; });
}
template <typename V>
MR_INLINE typename ElementOf<V>::T MaxAcross(V v) {
  return Across(v, [](V a, V b) { return Max(a, b); });
}

// The largest element, ignoring NaNs: they reappear when the maximum is subtracted.
template <typename T>
MR_INLINE T RowMax(const T* x, int64_t n) {
  constexpr int kLanes = Fp<T>::kLanes;
  const auto lowest = Set(-Fp<T>::kInf);
  auto a = lowest, b = lowest;
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    a = Max(Load(x + i), a);
    b = Max(Load(x + i + kLanes), b);
  }
  for (; i + kLanes <= n; i += kLanes) a = Max(Load(x + i), a);
  if (i < n) b = Max(FirstLanes(LoadPart(x + i, n - i), lowest, n - i), b);
  return MaxAcross(Max(a, b));
}

// The sum of e^(x - max); each term is also written to out unless that is null.
template <typename T>
MR_INLINE T SumExp(const T* x, T max, T* out, int64_t n) {
  using V = typename Fp<T>::Vec;
  constexpr int kLanes = Fp<T>::kLanes;
  V a = {}, b = {};
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    const V e = Exp(Load(x + i) - max);
    const V f = Exp(Load(x + i + kLanes) - max);
    if (out != nullptr) {
      Store(out + i, e);
      Store(out + i + kLanes, f);
    }
    a += e;
    b += f;
  }
  for (; i + kLanes <= n; i += kLanes) {
    const V e = Exp(Load(x + i) - max);
    if (out != nullptr) Store(out + i, e);
    a += e;
  }
  if (i < n) {
    const V e = Exp(LoadPart(x + i, n - i) - max);
    if (out != nullptr) StorePart(out + i, e, n - i);
    b += FirstLanes(e, V{}, n - i);
  }
  return SumAcross(a + b);
}

template <typename T>
void Softmax(const T* in, T* out, int64_t rows, int64_t cols) {
  using V = typename Fp<T>::Vec;
  for (int64_t r = 0; r < rows; ++r, in += cols, out += cols) {
    if (cols < Fp<T>::kLanes) {  // the common case of few classes: a row fits in one register
      const V x = LoadPart(in, cols);
      const V e = Exp(x - MaxAcross(FirstLanes(x, Set(-Fp<T>::kInf), cols)));
      // A NaN that the maximum ignored is in e, and so in the sum.
      StorePart(out, e * (1 / SumAcross(FirstLanes(e, V{}, cols))), cols);
      continue;
    }
    const T scale = 1 / SumExp(in, RowMax(in, cols), out, cols);
    MapLoop(out, out, cols, [scale](V e) { return e * scale; });
  }
}

template <typename T>
void LogSoftmax(const T* in, T* out, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; ++r, in += cols, out += cols) {
    const T max = RowMax(in, cols);
    const T log_sum = ScalarLog(SumExp<T>(in, max, nullptr, cols));
    MapLoop(in, out, cols, [max, log_sum](typename Fp<T>::Vec x) { return (x - max) - log_sum; });
  }
}

template <typename T>
void Xent(const T* logits, int64_t logits_stride, const T* labels, int64_t labels_stride, T* loss,
          T* backprop, int64_t rows, int64_t cols) {
  using V = typename Fp<T>::Vec;
  constexpr int kLanes = Fp<T>::kLanes;
  for (int64_t r = 0; r < rows; ++r, logits += logits_stride, labels += labels_stride, backprop += cols) {
    const T max = RowMax(logits, cols);
    // The exponentials are kept in backprop unless that is one of the arguments.
    const bool keep = backprop != logits && backprop != labels;
    const T sum = SumExp<T>(logits, max, keep ? backprop : nullptr, cols);
    const T log_sum = ScalarLog(sum);
    const T scale = 1 / sum;
    V total = {};
    int64_t i = 0;
    for (; i + kLanes <= cols; i += kLanes) {
      const V shifted = Load(logits + i) - max;
      const V label = Load(labels + i);
      total += label * (log_sum - shifted);
      Store(backprop + i, (keep ? Load(backprop + i) : Exp(shifted)) * scale - label);
    }
    if (i < cols) {
      const V shifted = LoadPart(logits + i, cols - i) - max;
      const V label = LoadPart(labels + i, cols - i);
      total += FirstLanes(label * (log_sum - shifted), V{}, cols - i);
      const V e = keep ? LoadPart(backprop + i, cols - i) : Exp(shifted);
      StorePart(backprop + i, e * scale - label, cols - i);
    }
    loss[r] = SumAcross(total);
  }
}

template <typename T>
void SparseXent(const T* logits, int64_t label, T* loss, T* backprop, int64_t cols) {
  const T max = RowMax(logits, cols);
  const T shifted = logits[label] - max;
  const T sum = SumExp(logits, max, backprop, cols);
  const T scale = 1 / sum;
  MapLoop(backprop, backprop, cols, [scale](typename Fp<T>::Vec e) { return e * scale; });
  backprop[label] -= 1;
  *loss = ScalarLog(sum) - shifted;
}

}  // namespace

constinit const NeuralTable kNeuralTable = {
    .softmax_f32 = {Softmax<float>, LogSoftmax<float>, Xent<float>, SparseXent<float>},
    .softmax_f64 = {Softmax<double>, LogSoftmax<double>, Xent<double>, SparseXent<double>},
    .response_norm = ResponseNormPixels,
    .response_norm_grad = ResponseNormGradPixels,
};

}  // namespace millrace::cpu::MR_ISA
