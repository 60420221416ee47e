// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "kernel/resource.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

namespace millrace::boosted {

struct Node {
  enum class Kind : uint8_t { kLeaf, kBucketized, kCategorical };
  Kind kind = Kind::kLeaf;
  std::vector<float> values;  // of a leaf, or of the leaf that a split replaced; empty: zeros
  float gain = 0;
  int32_t feature = 0;
  int32_t dimension = 0;
  int32_t threshold = 0;  // the last bucket on the left, or the only one of a categorical split
  bool missing_right = false;
  int32_t left = 0, right = 0;  // both larger than the node's own number
};

// The position of a tree's node after pruning, its own or that of the leaf that replaced it, and the
// difference of the logits.
struct Pruned {
  int32_t node = 0;
  std::vector<float> changes;  // empty: zeros
};

struct Tree {
  std::vector<Node> nodes;
  float weight = 1;
  int32_t num_layers = 0;
  bool is_finalized = false;
  std::vector<Pruned> pruned;  // for each node before pruning
};

// Replaces each split of negative gain by a leaf, from the leaves up, and removes its leaves.
void PruneLosses(Tree& tree);

// The bucketized features of some examples, by the indices in splits.
class Features {
 public:
  // Inputs [first, first + n), vectors or matrices with a row for each example. InvalidArgument if their
  // numbers of examples differ.
  static StatusOr<Features> Make(std::vector<const Tensor*> tensors);
  int64_t num_examples() const { return num_examples_; }
  bool Has(const Node& split) const;
  // The node after the split. REQUIRES: Has(split).
  int32_t Next(const Node& split, int64_t example) const;

 private:
  std::vector<const Tensor*> tensors_;
  int64_t num_examples_ = 0;
};

// An ensemble of decision trees that grows layer by layer, or tree by tree.
class Ensemble final : public Resource {
 public:
  std::string DebugString() const override { return "Ensemble of trees"; }

  // Replaces the ensemble; InvalidArgument for invalid bytes.
  Status Parse(std::string_view serialized, int64_t new_stamp) MR_REQUIRES(mu);
  std::string Serialize() const MR_REQUIRES(mu);
  // InvalidArgument unless all splits use existing features and all leaves have `num_logits` values.
  Status Check(const Features& features, int64_t num_logits) const MR_REQUIRES(mu);
  // A tree of one leaf.
  void AddTree(std::vector<float> values) MR_REQUIRES(mu);

  Mutex mu;
  std::vector<Tree> trees MR_GUARDED_BY(mu);
  int64_t stamp MR_GUARDED_BY(mu) = -1;
  int64_t trees_attempted MR_GUARDED_BY(mu) = 0, layers_attempted MR_GUARDED_BY(mu) = 0;
  int32_t last_layer_begin MR_GUARDED_BY(mu) = 0, last_layer_end MR_GUARDED_BY(mu) = 0;
};

// The path of an example through the trees, as a message DebugOutput: the features of the splits, and the
// logit before them and after each.
struct Path {
  std::vector<int32_t> features;
  std::vector<float> logits;

  std::string Serialize() const;
};

}  // namespace millrace::boosted
