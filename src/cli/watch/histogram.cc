// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/watch/histogram.h"

#include <algorithm>
#include <cmath>

namespace millrace::cli {

std::optional<HistogramPoint> Rebin(std::span<const HistogramBucket> buckets, double low, double high) {
  if (low == high) {
    const double around = std::max(0.5, std::abs(low) * 1e-3);
    low -= around, high += around;
  }
  const double width = (high - low) / static_cast<double>(kHistogramBins);
  if (!(low < high) || !std::isfinite(low) || !std::isfinite(high) || !std::isfinite(high - low) ||
      width <= 0) {
    return std::nullopt;
  }
  const auto bin_of = [&](double value) {
    return static_cast<size_t>(
        std::clamp(std::floor((value - low) / width), 0.0, static_cast<double>(kHistogramBins - 1)));
  };
  std::array<double, kHistogramBins> counts = {};
  for (const HistogramBucket& bucket : buckets) {
    if (!(bucket.count > 0) || !std::isfinite(bucket.count)) continue;
    // The result is between low and high even for infinite or NaN limits.
    const double left = bucket.left > low ? std::min(bucket.left, high) : low;
    const double right = bucket.right < high ? std::max(bucket.right, left) : high;
    const size_t first = bin_of(left), last = bin_of(right);
    if (first == last || right <= left) {
      counts[first] += bucket.count;
      continue;
    }
    for (size_t i = first; i <= last; ++i) {
      const double begin = std::max(left, low + width * static_cast<double>(i));
      const double end = i == last ? right : std::min(right, low + width * static_cast<double>(i + 1));
      counts[i] += bucket.count * std::max(0.0, end - begin) / (right - left);
    }
  }
  HistogramPoint point;
  point.low = low, point.high = high;
  double all = 0;
  for (size_t i = 0; i < kHistogramBins; ++i) {
    all += counts[i];
    point.counts[i] = static_cast<float>(std::min(counts[i], 1e30));
  }
  return all > 0 ? std::optional(point) : std::nullopt;
}

}  // namespace millrace::cli
