// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The distributions of classes from which candidate samplers draw.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/random/philox_stream.h"
#include "kernel/op_kernel.h"

namespace millrace {

// A distribution over the classes 0, 1, … Not thread-safe.
class CandidateDistribution {
 public:
  virtual ~CandidateDistribution() = default;
  virtual int64_t Sample(PhiloxStream& stream) const = 0;
  virtual float Probability(int64_t value) const = 0;
  // The number of classes with nonzero probability.
  virtual int64_t possible() const = 0;
  // Counts classes that occurred.
  virtual void Learn(std::span<const int64_t> /*values*/) {}
};

// Created from the attributes of the op.
StatusOr<std::unique_ptr<CandidateDistribution>> MakeUniformDistribution(KernelConstruction& c);
// P(class) = log((class + 2) / (class + 1)) / log(range + 1).
StatusOr<std::unique_ptr<CandidateDistribution>> MakeLogUniformDistribution(KernelConstruction& c);
// Proportional to one plus the number of occurrences of a class.
StatusOr<std::unique_ptr<CandidateDistribution>> MakeLearnedDistribution(KernelConstruction& c);
// Proportional to weights in the attributes or in a file.
StatusOr<std::unique_ptr<CandidateDistribution>> MakeFixedDistribution(KernelConstruction& c);

// Proportional to the weights, of which at least one is above 0.
std::unique_ptr<CandidateDistribution> MakeWeightedDistribution(std::vector<float> weights);

}  // namespace millrace
