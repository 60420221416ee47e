// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/cpu/boosted/ensemble.h"

namespace millrace::boosted {
namespace {

bool IsLeaf(const Node& node) { return node.kind == Node::Kind::kLeaf; }

std::vector<float> Difference(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> out(std::max(a.size(), b.size()));
  for (size_t i = 0; i < a.size(); ++i) out[i] = a[i];
  for (size_t i = 0; i < b.size(); ++i) out[i] -= b[i];
  return out;
}

}  // namespace

void PruneLosses(Tree& tree) {
  const size_t n = tree.nodes.size();
  std::vector<int32_t> parents(n, -1);  // of the removed nodes
  // Children have larger indices than their parent.
  for (size_t i = n; i-- > 0;) {
    Node& node = tree.nodes[i];
    if (IsLeaf(node) || !(node.gain < 0)) continue;
    const auto left = static_cast<size_t>(node.left), right = static_cast<size_t>(node.right);
    if (!IsLeaf(tree.nodes[left]) || !IsLeaf(tree.nodes[right])) continue;
    parents[left] = parents[right] = static_cast<int32_t>(i);
    const size_t logits = std::max(tree.nodes[left].values.size(), tree.nodes[right].values.size());
    Node leaf;
    leaf.values = std::move(node.values);
    leaf.values.resize(logits);
    node = std::move(leaf);
  }
  if (std::ranges::all_of(parents, [](int32_t parent) { return parent < 0; })) return;
  std::vector<int32_t> numbers(n);  // new indices of the remaining nodes
  std::vector<Node> kept;
  tree.pruned.clear();
  for (size_t i = 0; i < n; ++i) {
    size_t to = i;
    while (parents[to] >= 0) to = static_cast<size_t>(parents[to]);
    if (to == i) numbers[i] = static_cast<int32_t>(kept.size());
    // The remaining node has a smaller index, which is already known.
    tree.pruned.push_back({numbers[to], Difference(tree.nodes[to].values, tree.nodes[i].values)});
    if (to == i) {
      std::ranges::fill(tree.pruned.back().changes, 0.0f);
      kept.push_back(tree.nodes[i]);
    }
  }
  for (Node& node : kept) {
    if (IsLeaf(node)) continue;
    node.left = numbers[static_cast<size_t>(node.left)];
    node.right = numbers[static_cast<size_t>(node.right)];
  }
  tree.nodes = std::move(kept);
}

}  // namespace millrace::boosted
