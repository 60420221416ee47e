// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

namespace millrace::boosted {

// Gains with a smaller difference are considered equal.
inline constexpr float kGainEpsilon = 1e-15f;
inline bool GainIsLarger(float a, float b) { return a - b >= kGainEpsilon; }

struct Penalties {
  float l1 = 0;
  float l2 = 0;
};

// The value of a leaf that minimises gradient * w + (hessian + l2) * w^2 / 2 + l1 * |w|, and twice the
// decrease of that function.
struct LeafValue {
  float weight = 0;
  float gain = 0;
};
LeafValue BestLeaf(float gradient, float hessian, const Penalties& penalties);

// The same for leaves of several values: sets `weights`, one for each gradient, and returns the gain. The
// hessian is a diagonal, with one value for each gradient, or a full square matrix. Weights are zero if the
// matrix is singular.
float BestLeaf(std::span<const float> gradients, std::span<const float> hessians, const Penalties& penalties,
               std::span<float> weights);

}  // namespace millrace::boosted
