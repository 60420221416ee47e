// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace millrace::boosted {

// A value with its weight, and the bounds of its rank: smaller values weigh at least `min_rank` in total,
// values that are not larger at most `max_rank`.
struct QuantileEntry {
  float value = 0;
  float weight = 0;
  float min_rank = 0;
  float max_rank = 0;

  float prev_max_rank() const { return max_rank - weight; }
  float next_min_rank() const { return min_rank + weight; }
};

// Weighted quantiles, approximated by some of the values (Zhang and Wang, "A Fast Algorithm for Approximate
// Quantiles in High Speed Data Streams", with weights as in XGBoost). Entries are in ascending order.
class QuantileSummary {
 public:
  QuantileSummary() = default;
  explicit QuantileSummary(std::vector<QuantileEntry> entries) : entries_(std::move(entries)) {}
  // From values with weights, in any order.
  static QuantileSummary Of(std::vector<std::pair<float, float>> values);

  const std::vector<QuantileEntry>& entries() const { return entries_; }
  void Merge(const QuantileSummary& other);
  // Keeps about `size` entries, and increases the error of ranks by the larger of `epsilon` and 1 / size.
  void Compress(int64_t size, double epsilon);
  // Approximately this number of values, which divide the weight into equal parts.
  std::vector<float> Boundaries(int64_t num_boundaries) const;
  // The values at the ranks 0, 1/n, … 1; none of an empty summary.
  std::vector<float> Quantiles(int64_t num_quantiles) const;

 private:
  double TotalWeight() const { return entries_.empty() ? 0 : entries_.back().max_rank; }
  double ApproximationError() const;
  std::vector<QuantileEntry> entries_;
};

// A summary of the pushed values, with an error in ranks of at most `epsilon`, in memory that grows with the
// logarithm of the number of values. One thread.
class QuantileStream {
 public:
  QuantileStream(double epsilon, int64_t max_elements);
  // NaN values, and weights that are not positive, are ignored.
  void Push(float value, float weight);
  void Push(QuantileSummary summary) { Propagate(std::move(summary)); }
  // The summary of all values; the stream is empty afterwards.
  QuantileSummary Finish();

 private:
  void PushBuffer();
  void Propagate(QuantileSummary summary);

  const double epsilon_;
  int64_t block_size_ = 2;
  size_t buffer_size_ = 2;
  std::vector<std::pair<float, float>> buffer_;
  std::vector<QuantileSummary> levels_;
};

}  // namespace millrace::boosted
