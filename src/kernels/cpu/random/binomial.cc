// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Samples of binomial distributions: distances between successes for small means, Hormann's "The generation
// of binomial random variates" (BTRD's simpler form, BTRS) for the others.
#include "kernels/cpu/random/binomial.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernels/cpu/random/util.h"

namespace millrace {
namespace {

// A block gives two uniforms, so the sample's blocks suffice. More tries are practically never needed; the
// sample is the mean then.
constexpr int kMaxTries = 250;
constexpr double kSmallMean = 10;

// The distances between successes follow the geometric distribution.
double SampleByDistances(double count, double probability, PhiloxRandom& generator) {
  UniformPairs uniform;
  double place = 0;
  for (int successes = 0; successes < 2 * kMaxTries; ++successes) {
    place += std::ceil(std::log(uniform.Next(generator)) / std::log1p(-probability));
    if (!(place <= count)) return successes;
  }
  return std::floor(count * probability);
}

// The remainder of Stirling's formula for log(k!).
double StirlingTail(double k) {
  static constexpr std::array<double, 10> kTails = {
      0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.0207906721037650,  0.0166446911898211,
      0.0138761288230707, 0.0118967099458917, 0.0104112652619720, 0.00925546218271273, 0.00833056343336287};
  if (k < 10) return kTails[static_cast<size_t>(k)];
  const double square = (k + 1) * (k + 1);
  return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}

// REQUIRES: probability <= 0.5 and a mean of at least kSmallMean.
double SampleByRejection(double count, double probability, PhiloxRandom& generator) {
  const double deviation = std::sqrt(count * probability * (1 - probability));
  const double b = 1.15 + 2.53 * deviation;
  const double a = -0.0873 + 0.0248 * b + 0.01 * probability;
  const double c = count * probability + 0.5;
  const double v_r = 0.92 - 4.2 / b;
  const double odds = probability / (1 - probability);
  const double alpha = (2.83 + 5.1 / b) * deviation;
  const double mode = std::floor((count + 1) * probability);
  UniformPairs uniform;
  for (int i = 0; i < kMaxTries; ++i) {
    const double u = uniform.Next(generator) - 0.5;
    double v = uniform.Next(generator);
    const double us = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / us + b) * u + c);
    if (us >= 0.07 && v <= v_r) return k;
    if (!(k >= 0 && k <= count)) continue;
    v = std::log(v * alpha / (a / (us * us) + b));
    const double bound = (mode + 0.5) * std::log((mode + 1) / (odds * (count - mode + 1))) +
                         (count + 1) * std::log((count - mode + 1) / (count - k + 1)) +
                         (k + 0.5) * std::log(odds * (count - k + 1) / (k + 1)) + StirlingTail(mode) +
                         StirlingTail(count - mode) - StirlingTail(k) - StirlingTail(count - k);
    if (v <= bound) return k;
  }
  return std::floor(c);
}

}  // namespace

double SampleBinomial(double count, double probability, PhiloxRandom generator) {
  if (!std::isfinite(count) || !(probability >= 0 && probability <= 1)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  count = std::floor(count);
  if (count < 1) return 0;
  const double rarer = std::min(probability, 1 - probability);
  double sample = 0;
  if (rarer > 0) {
    sample = rarer * count < kSmallMean ? SampleByDistances(count, rarer, generator)
                                        : SampleByRejection(count, rarer, generator);
  }
  return probability <= 0.5 ? sample : count - sample;
}

}  // namespace millrace
