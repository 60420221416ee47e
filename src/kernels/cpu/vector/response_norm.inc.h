// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Local response normalisation and its gradient for one instruction set.
#pragma once

#include "kernels/cpu/vector/math.inc.h"
#include "kernels/cpu/vector/response_norm_block.h"
#include "kernels/cpu/vector/tables.h"

// Declared here: <math.h> would bring in inline functions of the standard library.
extern "C" float powf(float, float) noexcept;

namespace millrace::cpu::MR_ISA {

// a[k] becomes a[k] + a[k + 1] + … + a[k + width - 1] for 0 <= k < n, without subtractions, so that nothing
// cancels: computes sums of 1, 2, 4, … elements, and adds those that correspond to the bits of `width`. Reads
// and writes up to a + n + width + lanes, and uses the values after the first n; `sums` has room for n and a
// register more.
MR_INLINE void SumWindows(float* a, float* sums, int64_t n, int64_t width) {
  constexpr int kLanes = Fp<float>::kLanes;
  int64_t done = 0;  // elements of a window that are in `sums`
  for (int64_t part = 1; part <= width; part *= 2) {
    if ((width & part) != 0) {
      for (int64_t k = 0; k < n; k += kLanes) {
        const VecF sum = Load(a + k + done);
        Store(sums + k, done == 0 ? sum : Load(sums + k) + sum);
      }
      done += part;
    }
    if (2 * part > width) break;
    // The part of the doubled sums that later windows need.
    const int64_t end = n + width - 2 * part + 1;
    for (int64_t k = 0; k < end; k += kLanes) Store(a + k, Load(a + k) + Load(a + k + part));
  }
}

// norm^-beta
MR_INLINE VecF NormPower(VecF norm, float beta) {
  if (beta == 0.5f) return 1 / Sqrt(norm);
  if (beta == 0.75f) {
    const VecF root = 1 / Sqrt(norm);
    return root * Sqrt(root);
  }
  if (beta == 1) return 1 / norm;
  for (int i = 0; i < Fp<float>::kLanes; ++i) norm[i] = powf(norm[i], -beta);
  return norm;
}

MR_INLINE void Clear(float* p, int64_t n) {
  for (int64_t i = 0; i < n; ++i) p[i] = 0;
}

// Pixels of a block are consecutive with zeros between them, so that one pass over long rows computes the
// sums of all: those of pixel p begin at p PixelStep. See response_norm_block.h.
MR_INLINE int64_t PixelStep(const ResponseNorm& norm) { return norm.depth + norm.radius; }
MR_INLINE int64_t BlockPixels(const ResponseNorm& norm) {
  const int64_t pixels = kResponseNormRow / PixelStep(norm);
  return pixels > 1 ? pixels : 1;
}

// Writes zeros around the pixels, over earlier sums.
MR_INLINE void ClearGaps(const ResponseNorm& norm, int64_t pixels, float* padded) {
  const int64_t step = PixelStep(norm);
  for (int64_t p = 0; p < pixels; ++p) Clear(padded + p * step, norm.radius);
  Clear(padded + pixels * step, norm.radius + Fp<float>::kLanes);
}
// Computes the sums of windows in s.sums from the pixels in s.padded.
MR_INLINE void SumPixels(const ResponseNorm& norm, int64_t pixels, const ResponseNormScratch& s) {
  ClearGaps(norm, pixels, s.padded);
  SumWindows(s.padded, s.sums, pixels * PixelStep(norm) - norm.radius, 2 * norm.radius + 1);
}
// The same for the squares of the pixels.
MR_INLINE void SumSquares(const ResponseNorm& norm, const float* x, int64_t pixels,
                          const ResponseNormScratch& s) {
  for (int64_t p = 0; p < pixels; ++p) {
    MapLoop(x + p * norm.depth, s.padded + norm.radius + p * PixelStep(norm), norm.depth,
            [](VecF v) { return v * v; });
  }
  SumPixels(norm, pixels, s);
}

// Calls fn(channel, load, store) for the vectors of a pixel, the last of which may be partial.
template <typename Fn>
MR_INLINE void ForVectors(int64_t depth, const Fn& fn) {
  constexpr int kLanes = Fp<float>::kLanes;
  int64_t k = 0;
  for (; k + kLanes <= depth; k += kLanes)
    fn(
        k, [](const float* p) { return Load(p); }, [](float* p, VecF v) { Store(p, v); });
  if (const int64_t left = depth - k; left > 0) {
    fn(
        k, [left](const float* p) { return LoadPart(p, left); },
        [left](float* p, VecF v) { StorePart(p, v, left); });
  }
}

MR_INLINE void ResponseNormPixels(const ResponseNorm& norm, const float* x, float* y, int64_t pixels,
                                  const ResponseNormScratch& s) {
  const int64_t block = BlockPixels(norm);
  for (int64_t first = 0; first < pixels; first += block) {
    const int64_t count = pixels - first < block ? pixels - first : block;
    const float* from = x + first * norm.depth;
    float* to = y + first * norm.depth;
    SumSquares(norm, from, count, s);
    for (int64_t p = 0; p < count; ++p, from += norm.depth, to += norm.depth) {
      const float* sums = s.sums + p * PixelStep(norm);
      ForVectors(norm.depth, [&](int64_t k, auto load, auto store) {
        store(to + k, load(from + k) * NormPower(norm.bias + norm.alpha * Load(sums + k), norm.beta));
      });
    }
  }
}

// dx = dy norm^-beta - 2 alpha beta x (sum of dy y / norm over the window)
MR_INLINE void ResponseNormGradPixels(const ResponseNorm& norm, const ResponseNormGrads& g, int64_t pixels,
                                      const ResponseNormScratch& s) {
  const float scale = -2 * norm.alpha * norm.beta;
  const int64_t depth = norm.depth, step = PixelStep(norm), block = BlockPixels(norm);
  for (int64_t first = 0; first < pixels; first += block) {
    const int64_t count = pixels - first < block ? pixels - first : block, at = first * depth;
    const float *x = g.x + at, *y = g.y + at, *dy = g.dy + at;
    float* dx = g.dx + at;
    SumSquares(norm, x, count, s);
    for (int64_t p = 0; p < count; ++p) {
      const float* sums = s.sums + p * step;
      ForVectors(depth, [&](int64_t k, auto load, auto store) {
        const VecF sum = norm.bias + norm.alpha * Load(sums + k);
        const VecF grad = load(dy + p * depth + k);
        store(s.padded + norm.radius + p * step + k, load(y + p * depth + k) / sum * grad);
        store(s.direct + p * depth + k, grad * NormPower(sum, norm.beta));
      });
    }
    SumPixels(norm, count, s);
    for (int64_t p = 0; p < count; ++p) {
      const float* sums = s.sums + p * step;
      ForVectors(depth, [&](int64_t k, auto load, auto store) {
        const int64_t i = p * depth + k;
        store(dx + i, load(s.direct + i) + scale * load(x + i) * Load(sums + k));
      });
    }
  }
}

}  // namespace millrace::cpu::MR_ISA
