// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/candidate/distribution.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/env.h"
#include "kernels/cpu/number_text.h"

namespace millrace {
namespace {

class UniformDistribution final : public CandidateDistribution {
 public:
  explicit UniformDistribution(int64_t range) : range_(range) {}
  int64_t Sample(PhiloxStream& stream) const override {
    return static_cast<int64_t>(stream.Uniform64(static_cast<uint64_t>(range_)));
  }
  float Probability(int64_t /*value*/) const override {
    return static_cast<float>(1.0 / static_cast<double>(range_));
  }
  int64_t possible() const override { return range_; }

 private:
  const int64_t range_;
};

class LogUniformDistribution final : public CandidateDistribution {
 public:
  explicit LogUniformDistribution(int64_t range)
      : range_(range), log_range_(std::log(static_cast<double>(range) + 1)) {}
  int64_t Sample(PhiloxStream& stream) const override {
    // Rounding may result in the range itself.
    const double value = std::exp(stream.NextDouble() * log_range_);
    return (static_cast<int64_t>(std::min(value, 0x1p62)) - 1) % range_;
  }
  float Probability(int64_t value) const override {
    const auto v = static_cast<double>(value);
    return static_cast<float>(std::log((v + 2) / (v + 1)) / log_range_);
  }
  int64_t possible() const override { return range_; }

 private:
  const int64_t range_;
  const double log_range_;
};

// Weights of 1 plus the number of occurrences. The sums by which classes are found are a Fenwick tree that
// only stores classes that occurred: others take no memory.
class LearnedDistribution final : public CandidateDistribution {
 public:
  explicit LearnedDistribution(int64_t range) : range_(range), total_(range) {
    while (top_ * 2 <= range_) top_ *= 2;
  }
  int64_t Sample(PhiloxStream& stream) const override {
    int64_t rest = stream.Uniform(static_cast<uint32_t>(total_));
    int64_t node = 0;
    for (int64_t step = top_; step > 0; step /= 2) {
      if (node + step > range_) continue;
      const int64_t weight = step + CountAt(sums_, node + step);
      if (weight > rest) continue;
      node += step;
      rest -= weight;
    }
    return node;
  }
  float Probability(int64_t value) const override {
    if (value < 0 || value >= range_) return 0;
    return static_cast<float>(1 + CountAt(learned_, value)) / static_cast<float>(total_);
  }
  int64_t possible() const override { return range_; }
  void Learn(std::span<const int64_t> values) override {
    for (const int64_t value : values) {
      if (total_ == INT32_MAX) return;
      if (value < 0 || value >= range_) continue;
      ++total_;
      ++learned_[value];
      for (int64_t node = value + 1; node <= range_; node += node & -node) ++sums_[node];
    }
  }

 private:
  using Counts = std::unordered_map<int64_t, int64_t>;
  static int64_t CountAt(const Counts& counts, int64_t key) {
    const auto found = counts.find(key);
    return found == counts.end() ? 0 : found->second;
  }

  const int64_t range_;
  int64_t total_;
  int64_t top_ = 1;  // the largest power of 2 within the range
  Counts learned_, sums_;
};

// Walker's alias method, filled in TensorFlow's order.
class FixedDistribution final : public CandidateDistribution {
 public:
  explicit FixedDistribution(std::vector<float> weights)
      : weights_(std::move(weights)), cells_(weights_.size()) {
    const size_t n = weights_.size();
    double sum = 0;
    for (const float w : weights_) {
      sum += w;
      total_ += w;
      possible_ += w > 0 ? 1 : 0;
    }
    std::vector<double> shares(n);
    std::vector<size_t> high, low;
    for (size_t i = 0; i < n; ++i) {
      shares[i] = static_cast<double>(weights_[i] * static_cast<float>(n)) / sum;
      (shares[i] < 1 ? low : high).push_back(i);
    }
    while (!high.empty() && !low.empty()) {
      const size_t l = low.back(), h = high.back();
      low.pop_back();
      high.pop_back();
      cells_[l].alias = h;
      shares[h] -= 1 - shares[l];
      (shares[h] < 1 ? low : high).push_back(h);
    }
    for (size_t i = 0; i < n; ++i) cells_[i].share = static_cast<float>(shares[i]);
    for (const auto* rest : {&high, &low}) {  // their probability is 1 except for rounding
      for (const size_t i : *rest) cells_[i] = {1, i};
    }
  }
  int64_t Sample(PhiloxStream& stream) const override {
    const float r = stream.NextFloat();
    const uint32_t i = stream.Uniform(static_cast<uint32_t>(cells_.size()));
    return static_cast<int64_t>(r < cells_[i].share ? i : cells_[i].alias);
  }
  float Probability(int64_t value) const override {
    if (value < 0 || static_cast<size_t>(value) >= weights_.size()) return 0;
    return weights_[static_cast<size_t>(value)] / total_;
  }
  int64_t possible() const override { return possible_; }

 private:
  struct Cell {
    float share = 0;
    size_t alias = 0;
  };
  const std::vector<float> weights_;
  std::vector<Cell> cells_;
  float total_ = 0;
  int64_t possible_ = 0;
};

// Reads the weights of the classes of one shard.
class WeightReader {
 public:
  // A table of more classes would take gigabytes.
  static constexpr int64_t kMaxClasses = int64_t{1} << 26;

  explicit WeightReader(KernelConstruction& c)
      : range_(c.Attr<int64_t>("range_max")),
        distortion_(c.Attr<float>("distortion")),
        shards_(c.Attr<int64_t>("num_shards")),
        shard_(c.Attr<int64_t>("shard")) {}

  Status Reserve(int64_t ids) {
    if (ids < 0 || shard_ < 0 || shards_ < 1) {
      return errors::InvalidArgument("num_reserved_ids, num_shards and shard must not be negative");
    }
    if (range_ > kMaxClasses) {
      return errors::InvalidArgument("range_max must be at most ", kMaxClasses, ", got ", range_);
    }
    // The ids shard_, shard_ + shards_, ... belong to the shard. More ids than the range are always an
    // error.
    const int64_t own = ids > shard_ ? (ids - shard_ - 1) / shards_ + 1 : 0;
    if (own > range_ || ids > INT32_MAX) return WrongNumber(ids);
    weights_.assign(static_cast<size_t>(own), 0);
    return Status();
  }
  void Add(float weight) {
    // In a shard, ids count from the start of the file.
    if (next_++ % shards_ == shard_) weights_.push_back(std::pow(weight, distortion_));
  }
  // Ids continue after the weights that were read.
  void BeginWeights() { next_ = static_cast<int64_t>(weights_.size()); }
  StatusOr<std::vector<float>> Finish() {
    if (static_cast<int64_t>(weights_.size()) != range_)
      return WrongNumber(static_cast<int64_t>(weights_.size()));
    double sum = 0;
    for (const float w : weights_) {
      if (!(w >= 0) || std::isinf(w)) return errors::InvalidArgument("A class has the weight ", w);
      sum += w;
    }
    if (!(sum > 0)) return errors::InvalidArgument("No class has a weight above 0");
    return std::move(weights_);
  }

 private:
  Status WrongNumber(int64_t got) const {
    return errors::InvalidArgument("range_max is ", range_, ", but there are weights of ", got, " classes");
  }
  const int64_t range_;
  const float distortion_;
  const int64_t shards_, shard_;
  int64_t next_ = 0;
  std::vector<float> weights_;
};

// The last of comma-separated fields in a line is the weight.
Status ReadWeights(const std::string& path, WeightReader& reader) {
  MR_ASSIGN_OR_RETURN(const std::string text, ReadFileToString(Env::Posix(), path));
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    const size_t comma = line.rfind(',');
    const auto weight = ParseNumber<float>(comma == std::string_view::npos ? line : line.substr(comma + 1));
    if (!weight.has_value()) return errors::InvalidArgument("Wrong vocabulary format at line: ", line);
    reader.Add(*weight);
  }
  return Status();
}

int64_t RangeOf(KernelConstruction& c) { return std::max<int64_t>(1, c.Attr<int64_t>("range_max")); }

}  // namespace

StatusOr<std::unique_ptr<CandidateDistribution>> MakeUniformDistribution(KernelConstruction& c) {
  return std::make_unique<UniformDistribution>(RangeOf(c));
}

StatusOr<std::unique_ptr<CandidateDistribution>> MakeLogUniformDistribution(KernelConstruction& c) {
  return std::make_unique<LogUniformDistribution>(RangeOf(c));
}

StatusOr<std::unique_ptr<CandidateDistribution>> MakeLearnedDistribution(KernelConstruction& c) {
  const int64_t range = RangeOf(c);
  if (range >= INT32_MAX)
    return errors::InvalidArgument("range_max must be below ", INT32_MAX, ", got ", range);
  return std::make_unique<LearnedDistribution>(range);
}

std::unique_ptr<CandidateDistribution> MakeWeightedDistribution(std::vector<float> weights) {
  return std::make_unique<FixedDistribution>(std::move(weights));
}

StatusOr<std::unique_ptr<CandidateDistribution>> MakeFixedDistribution(KernelConstruction& c) {
  const std::string path = c.Attr<std::string>("vocab_file");
  const auto unigrams = c.Attr<std::vector<float>>("unigrams");
  if (path.empty() == unigrams.empty()) {
    return errors::InvalidArgument(path.empty() ? "Must provide either vocab_file or unigrams."
                                                : "Must only provide one of vocab_file and unigrams.");
  }
  WeightReader reader(c);
  MR_RETURN_IF_ERROR(reader.Reserve(c.Attr<int64_t>("num_reserved_ids")));
  reader.BeginWeights();
  if (path.empty()) {
    for (const float w : unigrams) reader.Add(w);
  } else {
    MR_RETURN_IF_ERROR(ReadWeights(path, reader));
  }
  MR_ASSIGN_OR_RETURN(std::vector<float> weights, reader.Finish());
  return std::make_unique<FixedDistribution>(std::move(weights));
}

}  // namespace millrace
