// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/boosted/gains.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace millrace::boosted {
namespace {

// The gradient with the l1 term on the leaf's side of zero; 0 if l1 keeps the leaf at zero.
float WithL1(float gradient, float l1) {
  if (!(l1 > 0)) return gradient;
  if (gradient > l1) return gradient - l1;
  return gradient < -l1 ? gradient + l1 : 0;
}

// Solves a x = b by elimination with column pivoting; false if a is singular. a is n x n.
bool Solve(std::vector<double> a, std::vector<double> b, std::vector<double>& x) {
  const size_t n = b.size();
  for (size_t c = 0; c < n; ++c) {
    size_t pivot = c;
    for (size_t r = c + 1; r < n; ++r) {
      if (std::abs(a[r * n + c]) > std::abs(a[pivot * n + c])) pivot = r;
    }
    if (!(std::abs(a[pivot * n + c]) > kGainEpsilon)) return false;
    std::swap_ranges(a.begin() + static_cast<ptrdiff_t>(c * n), a.begin() + static_cast<ptrdiff_t>(c * n + n),
                     a.begin() + static_cast<ptrdiff_t>(pivot * n));
    std::swap(b[c], b[pivot]);
    for (size_t r = c + 1; r < n; ++r) {
      const double factor = a[r * n + c] / a[c * n + c];
      for (size_t i = c; i < n; ++i) a[r * n + i] -= factor * a[c * n + i];
      b[r] -= factor * b[c];
    }
  }
  x.assign(n, 0);
  for (size_t c = n; c-- > 0;) {
    double rest = b[c];
    for (size_t i = c + 1; i < n; ++i) rest -= a[c * n + i] * x[i];
    x[c] = rest / a[c * n + c];
  }
  return true;
}

}  // namespace

LeafValue BestLeaf(float gradient, float hessian, const Penalties& penalties) {
  const float g = WithL1(gradient, penalties.l1), h = hessian + penalties.l2;
  if (g == 0 || h <= kGainEpsilon) return {};
  const float weight = -g / h;
  return {weight, -g * weight};
}

float BestLeaf(std::span<const float> gradients, std::span<const float> hessians, const Penalties& penalties,
               std::span<float> weights) {
  const size_t n = gradients.size();
  float gain = 0;
  if (hessians.size() == n) {
    for (size_t i = 0; i < n; ++i) {
      const LeafValue leaf = BestLeaf(gradients[i], hessians[i], penalties);
      weights[i] = leaf.weight;
      gain += leaf.gain;
    }
    return gain;
  }
  std::vector<double> a(hessians.begin(), hessians.end()), b(n), x;
  for (size_t i = 0; i < n; ++i) {
    a[i * n + i] += penalties.l2;
    b[i] = -double{WithL1(gradients[i], penalties.l1)};
  }
  std::ranges::fill(weights, 0.0f);
  if (!Solve(a, b, x)) return 0;
  for (size_t i = 0; i < n; ++i) {
    weights[i] = static_cast<float>(x[i]);
    gain += static_cast<float>(b[i] * x[i]);
  }
  return gain;
}

}  // namespace millrace::boosted
