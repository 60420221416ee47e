// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/kernels/plain_loops.h"

#include <algorithm>
#include <cmath>

// One copy of a function for each instruction set, chosen when the program is loaded.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define MR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define MR_CLONES
#endif

namespace millrace::bench {
namespace {

// Calls fn(offset of the input pixel, of the output pixel, of the filter's element) for each product.
template <typename Fn>
__attribute__((always_inline)) inline void ForEachTap(const cpu::ConvParams& p, const Fn& fn) {
  for (int64_t n = 0; n < p.batch; ++n) {
    for (int64_t oh = 0; oh < p.out_h; ++oh) {
      for (int64_t ow = 0; ow < p.out_w; ++ow) {
        for (int64_t kh = 0; kh < p.filter_h; ++kh) {
          const int64_t ih = oh * p.stride_h + kh - p.pad_top;
          if (ih < 0 || ih >= p.in_h) continue;
          for (int64_t kw = 0; kw < p.filter_w; ++kw) {
            const int64_t iw = ow * p.stride_w + kw - p.pad_left;
            if (iw < 0 || iw >= p.in_w) continue;
            fn(((n * p.in_h + ih) * p.in_w + iw) * p.in_c, ((n * p.out_h + oh) * p.out_w + ow) * p.out_c,
               (kh * p.filter_w + kw) * p.in_c * p.out_c);
          }
        }
      }
    }
  }
}

}  // namespace

MR_CLONES void LoopGemm(const cpu::GemmShape& s, const float* a, const float* b, float* c) {
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) c[i * s.n + j] = 0;
    for (int64_t k = 0; k < s.k; ++k) {
      const float x = a[i * s.k + k];
      for (int64_t j = 0; j < s.n; ++j) c[i * s.n + j] += x * b[k * s.n + j];
    }
  }
}

MR_CLONES void LoopConv(const cpu::ConvParams& p, const float* image, const float* filter, float* output) {
  std::fill_n(output, p.batch * p.out_h * p.out_w * p.out_c, 0.0f);
  ForEachTap(
      p, [&](int64_t in, int64_t out, int64_t tap) __attribute__((always_inline)) {
        for (int64_t c = 0; c < p.in_c; ++c) {
          for (int64_t o = 0; o < p.out_c; ++o)
            output[out + o] += image[in + c] * filter[tap + c * p.out_c + o];
        }
      });
}

MR_CLONES void LoopConvBackpropInput(const cpu::ConvParams& p, const float* filter, const float* output,
                                     float* image) {
  std::fill_n(image, p.batch * p.in_h * p.in_w * p.in_c, 0.0f);
  ForEachTap(
      p, [&](int64_t in, int64_t out, int64_t tap) __attribute__((always_inline)) {
        for (int64_t c = 0; c < p.in_c; ++c) {
          float sum = 0;
          for (int64_t o = 0; o < p.out_c; ++o) sum += output[out + o] * filter[tap + c * p.out_c + o];
          image[in + c] += sum;
        }
      });
}

MR_CLONES void LoopConvBackpropFilter(const cpu::ConvParams& p, const float* image, const float* output,
                                      float* filter) {
  std::fill_n(filter, p.filter_h * p.filter_w * p.in_c * p.out_c, 0.0f);
  ForEachTap(
      p, [&](int64_t in, int64_t out, int64_t tap) __attribute__((always_inline)) {
        for (int64_t c = 0; c < p.in_c; ++c) {
          for (int64_t o = 0; o < p.out_c; ++o)
            filter[tap + c * p.out_c + o] += image[in + c] * output[out + o];
        }
      });
}

MR_CLONES void LoopExp(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = std::exp(x[i]);
}

MR_CLONES void LoopTanh(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = std::tanh(x[i]);
}

MR_CLONES void LoopAdd(const float* a, const float* b, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
}

MR_CLONES void LoopChain4(const float* x, float* y, int64_t n, float a, float b, float c) {
  for (int64_t i = 0; i < n; ++i) {
    const float sum = x[i] * a + b;
    y[i] = (sum < 0 ? 0 : sum) * c;
  }
}

MR_CLONES void LoopChain8(const float* x, float* y, int64_t n, float a, float b, float c) {
  for (int64_t i = 0; i < n; ++i) {
    const float sum = x[i] * a + b;
    const float difference = (sum < 0 ? 0 : sum) * c - x[i];
    const float larger = difference < b ? b : difference;
    y[i] = -(larger * larger);
  }
}

MR_CLONES float LoopSum(const float* x, int64_t n) {
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  return sum;
}

MR_CLONES void LoopSoftmax(const float* x, float* y, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r, x += columns, y += columns) {
    float max = x[0];
    for (int64_t i = 1; i < columns; ++i) max = std::max(max, x[i]);
    float sum = 0;
    for (int64_t i = 0; i < columns; ++i) sum += y[i] = std::exp(x[i] - max);
    for (int64_t i = 0; i < columns; ++i) y[i] /= sum;
  }
}

MR_CLONES void LoopTranspose(const float* x, float* y, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) y[c * rows + r] = x[r * columns + c];
  }
}

MR_CLONES void LoopAdam(float* var, float* m, float* v, const float* grad, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    m[i] += (grad[i] - m[i]) * 0.1f;
    v[i] += (grad[i] * grad[i] - v[i]) * 0.001f;
    var[i] -= 0.001f * m[i] / (std::sqrt(v[i]) + 1e-8f);
  }
}

}  // namespace millrace::bench
