// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "base/thread_pool.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

// Parses Examples and SequenceExamples into tensors, directly from their bytes, without message objects. For
// duplicate map keys the last nonempty entry is used. Features that are not requested are not parsed.
namespace millrace::io {

// One requested feature.
struct FeatureSpec {
  std::string key;
  DataType dtype = DataType::kFloat;  // kFloat, kInt64, kString
  // Sparse: indices, values and shape. Dense: one tensor, of this shape for each row.
  bool is_sparse = false;
  PartialShape shape = {};
  // Dense: the value of a missing feature; without elements, the feature must exist. When the first
  // size of the shape is unknown, every row may have any number of values, and this scalar fills it up.
  Tensor default_value = {};
  // Of a dense list: rows without it have no steps. Otherwise it must exist.
  bool may_be_missing = false;
};

// The requested features, validated and ready for lookup. Thread-safe.
class FeatureTable {
 public:
  FeatureTable() = default;
  // InvalidArgument for types that features can't have, shapes that are not known, defaults that don't fit
  // them, and keys that occur twice.
  static StatusOr<FeatureTable> Make(std::vector<FeatureSpec> specs);

  struct Feature : FeatureSpec {
    bool is_variable = false;  // dense, with any number of values
    int64_t row_elements = 1;  // of a row; a variable one has a multiple of these
    TensorShape row_shape;     // without the unknown size
  };
  int size() const { return static_cast<int>(features_.size()); }
  const Feature& operator[](int i) const { return features_[static_cast<size_t>(i)]; }
  // Its index, or -1.
  int Find(std::string_view key) const {
    const auto found = places_.find(key);
    return found == places_.end() ? -1 : found->second;
  }

 private:
  std::vector<Feature> features_;
  std::unordered_map<std::string, int, StringHash, std::equal_to<>> places_;
};

// The part of the message with the features.
enum class FeatureSource {
  kExample,          // the features of Examples
  kSequenceContext,  // the context of SequenceExamples
  kSequenceLists,    // the lists of SequenceExamples, with a row for each step
};

using RunParallel = FunctionRef<void(int64_t total, int64_t cost_ns, ThreadPool::ShardFn fn)>;

struct ParseRequest {
  FeatureSource source = FeatureSource::kExample;
  std::span<const std::string> serialized = {};
  std::span<const std::string_view> views = {};  // instead of `serialized`, when that is empty
  std::span<const std::string> names = {};       // for errors; empty, or one each
  // Tensors of a batch begin with a dimension for the examples. REQUIRES, when false: one example.
  bool batched = true;

  int64_t size() const { return static_cast<int64_t>(serialized.empty() ? views.size() : serialized.size()); }
  std::string_view example(int64_t i) const {
    const auto k = static_cast<size_t>(i);
    return serialized.empty() ? views[k] : std::string_view(serialized[k]);
  }
};

// By place in the table. Of a sparse feature [indices, values, shape], with indices [n, rank]; of a dense one
// [values], and of a dense list [values, lengths]: the number of steps of each example.
using ParsedFeatures = std::vector<std::vector<Tensor>>;
StatusOr<ParsedFeatures> ParseFeatures(const FeatureTable& table, const ParseRequest& request,
                                       RunParallel parallel);

}  // namespace millrace::io
