// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace millrace::mnist {

// The fraction of the values below each entry of a Distribution, from the minimum over the median to the
// maximum: the bounds of one, two and three half standard deviations of a normal distribution.
inline constexpr std::array<double, 9> kDistributionRanks = {0.0,  0.07, 0.16, 0.31, 0.5,
                                                             0.69, 0.84, 0.93, 1.0};

// The distribution of a parameter's values at one step.
struct Distribution {
  int64_t step = 0;
  std::array<double, 9> bounds{};  // at kDistributionRanks, of the finite values; NaN when there is none
  int64_t not_finite = 0;          // how many values are NaN or infinite
};

// Linear in the number of values.
Distribution Describe(int64_t step, std::span<const float> values);

// The times of all steps, in microseconds. Zero where there was no step.
struct StepTimes {
  int64_t count = 0;
  double median = 0, p99 = 0, minimum = 0, maximum = 0;
  // bins[i] counts the times from edges[i] to edges[i + 1]; edges grow by a constant factor. Times beyond the
  // last edge (the slowest half per cent) are in `slower`.
  std::vector<double> edges{};
  std::vector<int64_t> bins{};
  int64_t slower = 0;
};

StepTimes SummarizeStepTimes(std::vector<double> microseconds);

}  // namespace millrace::mnist
