// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "report_statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace millrace::mnist {
namespace {

// The index of the value at `rank` (0 to 1) among n > 0 sorted ones.
size_t RankIndex(double rank, size_t n) {
  return static_cast<size_t>(std::lround(rank * static_cast<double>(n - 1)));
}

}  // namespace

Distribution Describe(int64_t step, std::span<const float> values) {
  std::vector<float> finite;
  finite.reserve(values.size());
  std::copy_if(values.begin(), values.end(), std::back_inserter(finite),
               [](float v) { return std::isfinite(v); });
  Distribution result{.step = step, .not_finite = static_cast<int64_t>(values.size() - finite.size())};
  result.bounds.fill(std::numeric_limits<double>::quiet_NaN());
  if (finite.empty()) return result;
  auto sorted_until = finite.begin();
  for (size_t i = 0; i < kDistributionRanks.size(); ++i) {
    const auto at = finite.begin() + static_cast<ptrdiff_t>(RankIndex(kDistributionRanks[i], finite.size()));
    std::nth_element(sorted_until, at, finite.end());
    result.bounds[i] = *at;
    sorted_until = at;
  }
  return result;
}

StepTimes SummarizeStepTimes(std::vector<double> microseconds) {
  std::erase_if(microseconds, [](double t) { return !std::isfinite(t) || t <= 0; });
  StepTimes result{.count = static_cast<int64_t>(microseconds.size())};
  if (microseconds.empty()) return result;
  std::sort(microseconds.begin(), microseconds.end());
  const auto at = [&](double rank) { return microseconds[RankIndex(rank, microseconds.size())]; };
  result.minimum = microseconds.front();
  result.maximum = microseconds.back();
  result.median = at(0.5);
  result.p99 = at(0.99);
  constexpr size_t kBins = 48;
  // A little beyond both ends, so that the outermost times fall inside and a single time has a width.
  const double low = std::log(result.minimum) - 1e-3, high = std::log(at(0.995)) + 1e-3;
  for (size_t i = 0; i <= kBins; ++i) {
    result.edges.push_back(std::exp(low + (high - low) * static_cast<double>(i) / kBins));
  }
  result.bins.assign(kBins, 0);
  for (const double time : microseconds) {
    const double bin = (std::log(time) - low) / (high - low) * kBins;
    if (bin >= kBins) {
      ++result.slower;
    } else {
      ++result.bins[static_cast<size_t>(std::max(bin, 0.0))];
    }
  }
  return result;
}

}  // namespace millrace::mnist
