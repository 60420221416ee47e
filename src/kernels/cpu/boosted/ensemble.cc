// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/boosted/ensemble.h"

#include <climits>

#include "tensorflow/core/kernels/boosted_trees/boosted_trees.pb.h"

namespace millrace::boosted {
namespace {

namespace pb = tensorflow::boosted_trees;

Status NoEnsemble() { return errors::InvalidArgument("Unable to parse tree ensemble proto."); }

std::vector<float> ValuesOf(const pb::Leaf& leaf) {
  if (leaf.has_vector()) return {leaf.vector().value().begin(), leaf.vector().value().end()};
  return {leaf.scalar()};
}
void SetValues(const std::vector<float>& values, pb::Leaf* leaf) {
  if (values.size() == 1) {
    leaf->set_scalar(values[0]);
  } else {
    leaf->mutable_vector()->mutable_value()->Assign(values.begin(), values.end());
  }
}

template <typename Split>
bool ReadSplit(const Split& from, int index, int num_nodes, Node* to) {
  to->feature = from.feature_id();
  to->dimension = from.dimension_id();
  to->left = from.left_id();
  to->right = from.right_id();
  // Children have larger indices than their parent, so that there is no cycle.
  const auto leads_on = [&](int32_t id) { return id > index && id < num_nodes; };
  return to->feature >= 0 && to->dimension >= 0 && leads_on(to->left) && leads_on(to->right);
}

bool ReadNode(const pb::Node& from, int index, int num_nodes, Node* to) {
  to->gain = from.metadata().gain();
  if (from.metadata().has_original_leaf()) to->values = ValuesOf(from.metadata().original_leaf());
  switch (from.node_case()) {
    case pb::Node::kLeaf:
      to->values = ValuesOf(from.leaf());
      return !from.leaf().has_sparse_vector();
    case pb::Node::kBucketizedSplit:
      to->kind = Node::Kind::kBucketized;
      to->threshold = from.bucketized_split().threshold();
      to->missing_right = from.bucketized_split().default_direction() == pb::DEFAULT_RIGHT;
      return ReadSplit(from.bucketized_split(), index, num_nodes, to);
    case pb::Node::kCategoricalSplit:
      to->kind = Node::Kind::kCategorical;
      to->threshold = from.categorical_split().value();
      return ReadSplit(from.categorical_split(), index, num_nodes, to);
    case pb::Node::NODE_NOT_SET:
      return true;
    default:
      return false;
  }
}

template <typename Split>
void WriteSplit(const Node& from, Split* to) {
  to->set_feature_id(from.feature);
  to->set_dimension_id(from.dimension);
  to->set_left_id(from.left);
  to->set_right_id(from.right);
}

void WriteNode(const Node& from, pb::Node* to) {
  if (from.kind == Node::Kind::kLeaf) return SetValues(from.values, to->mutable_leaf());
  to->mutable_metadata()->set_gain(from.gain);
  if (!from.values.empty()) SetValues(from.values, to->mutable_metadata()->mutable_original_leaf());
  if (from.kind == Node::Kind::kCategorical) {
    WriteSplit(from, to->mutable_categorical_split());
    to->mutable_categorical_split()->set_value(from.threshold);
    return;
  }
  auto* split = to->mutable_bucketized_split();
  WriteSplit(from, split);
  split->set_threshold(from.threshold);
  split->set_default_direction(from.missing_right ? pb::DEFAULT_RIGHT : pb::DEFAULT_LEFT);
}

}  // namespace

StatusOr<Features> Features::Make(std::vector<const Tensor*> tensors) {
  Features features;
  for (const Tensor* t : tensors) {
    if (t->rank() < 1 || t->rank() > 2 || t->dim(0) != tensors[0]->dim(0)) {
      return errors::InvalidArgument("bucketized_features must have a row for each example, got shapes ",
                                     tensors[0]->shape(), " and ", t->shape());
    }
  }
  if (!tensors.empty()) features.num_examples_ = tensors[0]->dim(0);
  features.tensors_ = std::move(tensors);
  return features;
}

bool Features::Has(const Node& split) const {
  if (split.feature < 0 || static_cast<size_t>(split.feature) >= tensors_.size()) return false;
  const Tensor& t = *tensors_[static_cast<size_t>(split.feature)];
  return split.dimension >= 0 && split.dimension < (t.rank() == 1 ? 1 : t.dim(1));
}

int32_t Features::Next(const Node& split, int64_t example) const {
  const Tensor& t = *tensors_[static_cast<size_t>(split.feature)];
  const int64_t columns = t.rank() == 1 ? 1 : t.dim(1);
  const int32_t bucket = t.data<int32_t>()[example * columns + split.dimension];
  if (split.kind == Node::Kind::kCategorical) return bucket == split.threshold ? split.left : split.right;
  if (bucket == -1) return split.missing_right ? split.right : split.left;
  return bucket > split.threshold ? split.right : split.left;
}

Status Ensemble::Parse(std::string_view serialized, int64_t new_stamp) {
  pb::TreeEnsemble from;
  if (serialized.size() > INT_MAX ||
      !from.ParseFromArray(serialized.data(), static_cast<int>(serialized.size()))) {
    return NoEnsemble();
  }
  std::vector<Tree> read;
  for (int t = 0; t < from.trees_size(); ++t) {
    Tree tree;
    const int num_nodes = from.trees(t).nodes_size();
    if (num_nodes == 0) return NoEnsemble();
    tree.nodes.resize(static_cast<size_t>(num_nodes));
    for (int n = 0; n < num_nodes; ++n) {
      if (!ReadNode(from.trees(t).nodes(n), n, num_nodes, &tree.nodes[static_cast<size_t>(n)]))
        return NoEnsemble();
    }
    if (t < from.tree_weights_size()) tree.weight = from.tree_weights(t);
    if (t < from.tree_metadata_size()) {
      const pb::TreeMetadata& meta = from.tree_metadata(t);
      tree.num_layers = meta.num_layers_grown();
      tree.is_finalized = meta.is_finalized();
      for (const auto& node : meta.post_pruned_nodes_meta()) {
        if (node.new_node_id() < 0 || node.new_node_id() >= num_nodes) return NoEnsemble();
        tree.pruned.push_back({node.new_node_id(), {node.logit_change().begin(), node.logit_change().end()}});
      }
    }
    read.push_back(std::move(tree));
  }
  trees = std::move(read);
  stamp = new_stamp;
  trees_attempted = from.growing_metadata().num_trees_attempted();
  layers_attempted = from.growing_metadata().num_layers_attempted();
  last_layer_begin = from.growing_metadata().last_layer_node_start();
  last_layer_end = from.growing_metadata().last_layer_node_end();
  return Status();
}

std::string Ensemble::Serialize() const {
  pb::TreeEnsemble to;
  for (const Tree& tree : trees) {
    pb::Tree* const t = to.add_trees();
    for (const Node& node : tree.nodes) WriteNode(node, t->add_nodes());
    to.add_tree_weights(tree.weight);
    pb::TreeMetadata* const meta = to.add_tree_metadata();
    meta->set_num_layers_grown(tree.num_layers);
    meta->set_is_finalized(tree.is_finalized);
    for (const Pruned& pruned : tree.pruned) {
      auto* const node = meta->add_post_pruned_nodes_meta();
      node->set_new_node_id(pruned.node);
      for (const float change : pruned.changes) node->add_logit_change(change);
    }
  }
  pb::GrowingMetadata* const growing = to.mutable_growing_metadata();
  growing->set_num_trees_attempted(trees_attempted);
  growing->set_num_layers_attempted(layers_attempted);
  growing->set_last_layer_node_start(last_layer_begin);
  growing->set_last_layer_node_end(last_layer_end);
  return to.SerializeAsString();
}

Status Ensemble::Check(const Features& features, int64_t num_logits) const {
  for (const Tree& tree : trees) {
    for (const Node& node : tree.nodes) {
      if (node.kind != Node::Kind::kLeaf && !features.Has(node)) {
        return errors::InvalidArgument("A tree splits by dimension ", node.dimension, " of feature ",
                                       node.feature, ", which is not among the bucketized_features");
      }
      if (!node.values.empty() && static_cast<int64_t>(node.values.size()) != num_logits) {
        return errors::InvalidArgument("A tree has leaves of ", node.values.size(), " values, not of ",
                                       num_logits, " logits");
      }
    }
  }
  return Status();
}

void Ensemble::AddTree(std::vector<float> values) {
  Tree tree;
  tree.nodes.emplace_back();
  tree.nodes[0].values = std::move(values);
  trees.push_back(std::move(tree));
}

std::string Path::Serialize() const {
  pb::DebugOutput to;
  to.mutable_feature_ids()->Assign(features.begin(), features.end());
  to.mutable_logits_path()->Assign(logits.begin(), logits.end());
  return to.SerializeAsString();
}

}  // namespace millrace::boosted
