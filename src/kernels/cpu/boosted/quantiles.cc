// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/boosted/quantiles.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace millrace::boosted {

QuantileSummary QuantileSummary::Of(std::vector<std::pair<float, float>> values) {
  std::ranges::sort(values, {}, &std::pair<float, float>::first);
  QuantileSummary summary;
  float rank = 0;
  for (const auto& [value, weight] : values) {
    if (summary.entries_.empty() || summary.entries_.back().value != value) {
      summary.entries_.push_back({value, 0, rank, rank});
    }
    rank += weight;
    summary.entries_.back().weight += weight;
    summary.entries_.back().max_rank = rank;
  }
  return summary;
}

void QuantileSummary::Merge(const QuantileSummary& other) {
  std::vector<QuantileEntry> merged;
  merged.reserve(entries_.size() + other.entries_.size());
  // The bounds of an entry's ranks among the entries of the other summary, which precede `at`.
  struct Side {
    const std::vector<QuantileEntry>& entries;
    size_t at = 0;
    float next_min_rank = 0;
    bool done() const { return at == entries.size(); }
    float prev_max_rank() const {
      if (!done()) return entries[at].prev_max_rank();
      return entries.empty() ? 0 : entries.back().max_rank;
    }
    QuantileEntry Take() {
      next_min_rank = entries[at].next_min_rank();
      return entries[at++];
    }
  };
  Side a{entries_}, b{other.entries_};
  const auto take_one = [&](Side& from, const Side& beside) {
    QuantileEntry e = from.Take();
    e.min_rank += beside.next_min_rank;
    e.max_rank += beside.prev_max_rank();
    merged.push_back(e);
  };
  while (!a.done() || !b.done()) {
    if (b.done() || (!a.done() && a.entries[a.at].value < b.entries[b.at].value)) {
      take_one(a, b);
    } else if (a.done() || b.entries[b.at].value < a.entries[a.at].value) {
      take_one(b, a);
    } else {
      QuantileEntry e = a.Take();
      const QuantileEntry same = b.Take();
      e.weight += same.weight;
      e.min_rank += same.min_rank;
      e.max_rank += same.max_rank;
      merged.push_back(e);
    }
  }
  entries_ = std::move(merged);
}

void QuantileSummary::Compress(int64_t size, double epsilon) {
  size = std::max<int64_t>(size, 2);
  const auto n = static_cast<int64_t>(entries_.size());
  if (n <= size) return;
  const double error = TotalWeight() * std::max(1.0 / static_cast<double>(size), epsilon);
  // Of consecutive entries whose ranks differ by less than the error only the last one is kept. The credit
  // spreads the requested number of entries evenly.
  int64_t credit = 0;
  size_t write = 1, last = 1;
  for (size_t read = 0; read + 1 < entries_.size();) {
    size_t next = read + 1;
    while (next < entries_.size() && credit < n &&
           entries_[next].prev_max_rank() - entries_[read].next_min_rank() <= error) {
      credit += size;
      ++next;
    }
    read = read == next - 1 ? read + 1 : next - 1;
    entries_[write++] = entries_[read];
    last = read;
    credit -= n;
  }
  if (last + 1 != entries_.size()) entries_[write++] = entries_.back();
  entries_.resize(write);
}

double QuantileSummary::ApproximationError() const {
  if (entries_.empty()) return 0;
  float gap = 0;
  for (size_t i = 1; i < entries_.size(); ++i) {
    const QuantileEntry& e = entries_[i];
    gap = std::max(
        {gap, e.max_rank - e.min_rank - e.weight, e.prev_max_rank() - entries_[i - 1].next_min_rank()});
  }
  return gap / TotalWeight();
}

std::vector<float> QuantileSummary::Boundaries(int64_t num_boundaries) const {
  if (entries_.empty()) return {};
  QuantileSummary compressed = *this;
  compressed.Compress(num_boundaries, ApproximationError() + 1.0 / static_cast<double>(num_boundaries));
  std::vector<float> values;
  for (const QuantileEntry& e : compressed.entries_) values.push_back(e.value);
  return values;
}

std::vector<float> QuantileSummary::Quantiles(int64_t num_quantiles) const {
  if (entries_.empty()) return {};
  num_quantiles = std::max<int64_t>(num_quantiles, 2);
  std::vector<float> values;
  size_t at = 0;
  for (int64_t i = 0; i <= num_quantiles; ++i) {
    const double twice = 2 * static_cast<double>(i) * TotalWeight() / static_cast<double>(num_quantiles);
    size_t next = at + 1;
    while (next < entries_.size() && twice >= entries_[next].min_rank + entries_[next].max_rank) ++next;
    at = next - 1;
    const bool is_last = next == entries_.size();
    const bool nearer = is_last || twice < entries_[at].next_min_rank() + entries_[next].prev_max_rank();
    values.push_back(entries_[nearer ? at : next].value);
  }
  return values;
}

QuantileStream::QuantileStream(double epsilon, int64_t max_elements) : epsilon_(epsilon) {
  const auto most = static_cast<double>(std::max<int64_t>(max_elements, 2));
  double block = 2;
  if (!(epsilon > 0)) {
    block = most;
  } else {
    for (int level = 1; std::ldexp(block, level) < most; ++level) block = std::ceil(level / epsilon) + 1;
  }
  block_size_ = static_cast<int64_t>(std::clamp(block, 2.0, most));
  buffer_size_ = static_cast<size_t>(std::min(2 * static_cast<double>(block_size_), most));
}

void QuantileStream::Push(float value, float weight) {
  if (std::isnan(value) || !(weight > 0)) return;
  buffer_.emplace_back(value, weight);
  if (buffer_.size() >= buffer_size_) PushBuffer();
}

void QuantileStream::PushBuffer() {
  QuantileSummary summary = QuantileSummary::Of(std::exchange(buffer_, {}));
  summary.Compress(block_size_, epsilon_);
  Propagate(std::move(summary));
}

void QuantileStream::Propagate(QuantileSummary summary) {
  if (summary.entries().empty()) return;
  for (size_t level = 0;; ++level) {
    if (levels_.size() <= level) levels_.emplace_back();
    QuantileSummary& here = levels_[level];
    const bool was_empty = here.entries().empty();
    summary.Merge(here);
    if (was_empty || static_cast<int64_t>(summary.entries().size()) <= block_size_ + 1) {
      here = std::move(summary);
      return;
    }
    summary.Compress(block_size_, epsilon_);
    here = QuantileSummary();
  }
}

QuantileSummary QuantileStream::Finish() {
  PushBuffer();
  QuantileSummary all;
  for (const QuantileSummary& level : levels_) all.Merge(level);
  levels_.clear();
  return all;
}

}  // namespace millrace::boosted
