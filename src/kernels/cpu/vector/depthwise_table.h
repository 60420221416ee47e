// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The inner loops of depthwise convolution, once per instruction set in the namespace of that set. Only the
// files of this folder include this; no header here may bring in the standard library.
#pragma once

#include <stdint.h>

namespace millrace::cpu {

// y = rectify(x * scale + shift), by channel. Null: left out; scale and shift are set together.
template <typename T>
struct DepthwiseFinish {
  const T* scale = nullptr;
  const T* shift = nullptr;
  bool relu = false, relu6 = false;
};

template <typename T>
struct DepthwiseFns {
  // out[p * out_step + c] = finish(the sum over taps of x[t][p * x_step + c] * w[t][c]).
  void (*gather)(const T* const* x, int64_t x_step, const T* const* w, int64_t taps, int64_t channels,
                 int64_t pixels, T* out, int64_t out_step, const DepthwiseFinish<T>& finish);
  // sums[c] += the sum over pixels of x[p * x_step + c] * y[p * y_step + c].
  void (*correlate)(const T* x, int64_t x_step, const T* y, int64_t y_step, int64_t channels, int64_t pixels,
                    T* sums);
};
struct DepthwiseTable {
  DepthwiseFns<float> f32;
  DepthwiseFns<double> f64;
};

namespace baseline {
extern const DepthwiseTable kDepthwiseTable;
}
namespace avx2 {
extern const DepthwiseTable kDepthwiseTable;
}
namespace avx512 {
extern const DepthwiseTable kDepthwiseTable;
}

}  // namespace millrace::cpu
