// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Local response normalisation and its gradient for one instruction set.
#pragma once

#include "kernels/cpu/vector/math.inc.h"
#include "kernels/cpu/vector/tables.h"

// Declared by hand: <math.h> would bring in inline functions of the standard library.
extern "C" float powf(float, float) noexcept;

namespace millrace::cpu::MR_ISA {

// a[k] becomes a[k] + a[k + 1] + … + a[k + width - 1] for 0 <= k < n, without subtractions, so that nothing
// cancels: sums of 1, 2, 4, … elements are made, and those put together that the bits of `width` ask for.
// Reads and writes up to a + n + width + lanes, whose values behind the first n count; `sums` has room for n
// and a register more.
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
    // What later windows need of the doubled sums.
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

// The squares of a pixel's channels between zeros, then their windows' sums in s.window_sums.
MR_INLINE void SumSquares(const ResponseNorm& norm, const float* x, const ResponseNormScratch& s) {
  MapLoop(x, s.padded + norm.radius, norm.depth, [](VecF v) { return v * v; });
  // What the last pixel left there.
  Clear(s.padded, norm.radius);
  Clear(s.padded + norm.radius + norm.depth, norm.radius + Fp<float>::kLanes);
  SumWindows(s.padded, s.sums, norm.depth, 2 * norm.radius + 1);
}

MR_INLINE void ResponseNormPixels(const ResponseNorm& norm, const float* x, float* y, int64_t pixels,
                                  const ResponseNormScratch& s) {
  constexpr int kLanes = Fp<float>::kLanes;
  for (int64_t pixel = 0; pixel < pixels; ++pixel, x += norm.depth, y += norm.depth) {
    SumSquares(norm, x, s);
    for (int64_t k = 0; k < norm.depth; k += kLanes) {
      const VecF power = NormPower(norm.bias + norm.alpha * Load(s.sums + k), norm.beta);
      const int64_t left = norm.depth - k;
      if (left >= kLanes) {
        Store(y + k, Load(x + k) * power);
      } else {
        StorePart(y + k, LoadPart(x + k, left) * power, left);
      }
    }
  }
}

// dx = dy norm^-beta - 2 alpha beta x (sum of dy y / norm over the window)
MR_INLINE void ResponseNormGradPixels(const ResponseNorm& norm, const ResponseNormGrads& g, int64_t pixels,
                                      const ResponseNormScratch& s) {
  constexpr int kLanes = Fp<float>::kLanes;
  const float scale = -2 * norm.alpha * norm.beta;
  for (int64_t at = 0; at < pixels * norm.depth; at += norm.depth) {
    const float *x = g.x + at, *y = g.y + at, *dy = g.dy + at;
    SumSquares(norm, x, s);
    Clear(s.padded, norm.radius);
    const auto each = [&](auto load, auto store, int64_t k) {
      const VecF sum = norm.bias + norm.alpha * Load(s.sums + k);
      const VecF grad = load(dy + k);
      store(s.padded + norm.radius + k, load(y + k) / sum * grad);
      store(s.direct + k, grad * NormPower(sum, norm.beta));
    };
    int64_t k = 0;
    for (; k + kLanes <= norm.depth; k += kLanes) {
      each([](const float* p) { return Load(p); }, [](float* p, VecF v) { Store(p, v); }, k);
    }
    const int64_t left = norm.depth - k;
    if (left > 0) {
      each([left](const float* p) { return LoadPart(p, left); },
           [left](float* p, VecF v) { StorePart(p, v, left); }, k);
    }
    Clear(s.padded + norm.radius + norm.depth, norm.radius + kLanes);
    SumWindows(s.padded, s.sums, norm.depth, 2 * norm.radius + 1);
    float* dx = g.dx + at;
    for (k = 0; k + kLanes <= norm.depth; k += kLanes) {
      Store(dx + k, Load(s.direct + k) + scale * Load(x + k) * Load(s.sums + k));
    }
    if (left > 0) {
      StorePart(dx + k, Load(s.direct + k) + scale * LoadPart(x + k, left) * Load(s.sums + k), left);
    }
  }
}

}  // namespace millrace::cpu::MR_ISA
