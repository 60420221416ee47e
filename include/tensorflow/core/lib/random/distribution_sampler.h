// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Draws in proportion to weights, in constant time (Walker's alias method).
#ifndef TENSORFLOW_CORE_LIB_RANDOM_DISTRIBUTION_SAMPLER_H_
#define TENSORFLOW_CORE_LIB_RANDOM_DISTRIBUTION_SAMPLER_H_

#include <utility>
#include <vector>

#include "tensorflow/core/lib/gtl/array_slice.h"
#include "tensorflow/core/lib/random/simple_philox.h"

namespace tensorflow {
namespace random {

// REQUIRES: weights are not negative, and at least one is above 0.
class DistributionSampler {
 public:
  explicit DistributionSampler(const gtl::ArraySlice<float>& weights) : entries_(weights.size()) {
    double sum = 0;
    for (const float weight : weights) sum += weight;
    std::vector<double> left;
    std::vector<int> small, large;
    for (size_t i = 0; i < weights.size(); ++i) {
      left.push_back(weights[i] / sum * static_cast<double>(weights.size()));
      entries_[i] = std::make_pair(1.0f, static_cast<int>(i));
      (left[i] < 1.0 ? small : large).push_back(static_cast<int>(i));
    }
    while (!small.empty() && !large.empty()) {
      const size_t low = static_cast<size_t>(small.back()), high = static_cast<size_t>(large.back());
      small.pop_back();
      entries_[low] = std::make_pair(static_cast<float>(left[low]), static_cast<int>(high));
      left[high] -= 1.0 - left[low];
      if (left[high] < 1.0) {
        large.pop_back();
        small.push_back(static_cast<int>(high));
      }
    }
  }
  int Sample(SimplePhilox* random) const {
    const size_t i = random->Uniform(static_cast<uint32>(entries_.size()));
    return random->RandFloat() < entries_[i].first ? static_cast<int>(i) : entries_[i].second;
  }
  int num() const { return static_cast<int>(entries_.size()); }

 private:
  std::vector<std::pair<float, int>> entries_;  // the probability of the element itself; the other element
};

}  // namespace random
}  // namespace tensorflow

#endif
