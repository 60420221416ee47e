// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace millrace::cli {

constexpr size_t kHistogramBins = 30;

// The number of values in each of kHistogramBins equal parts of [low, high].
struct HistogramPoint {
  int64_t step = 0;
  double wall_time = 0;
  double low = 0, high = 0;
  std::array<float, kHistogramBins> counts = {};
};

struct HistogramBucket {
  double left = 0, right = 0, count = 0;
};

// Converts buckets of any widths to equal ones; the values of a bucket are assumed to be evenly distributed.
// Buckets are cut at `low` and `high`; if the two are equal, the range is widened around them. Empty if there
// is no value or a limit is not finite.
std::optional<HistogramPoint> Rebin(std::span<const HistogramBucket> buckets, double low, double high);

}  // namespace millrace::cli
