// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "autodiff/guards.h"

#include <algorithm>

#include "autodiff/loops.h"

namespace millrace {
namespace {

// The branch that output `index` of a node begins; of a loop's Switch, none.
void AddBranch(const Node& node, int index, Guard* guard) {
  if (!IsSwitch(node) || index < 0) return;
  const Edge* pred = node.data_in_edges()[1];
  if (pred == nullptr || pred->src->op_name() == "LoopCond") return;
  const std::pair<Output, int> branch({pred->src, pred->src_output}, index);
  if (std::find(guard->begin(), guard->end(), branch) == guard->end()) guard->push_back(branch);
}

bool IsLoopHeader(const Node& node) {
  return IsMerge(node) && std::any_of(node.data_in_edges().begin(), node.data_in_edges().end(),
                                      [](const Edge* e) { return e != nullptr && IsLoopBackEdge(*e); });
}

}  // namespace

Guard Guards::OfEdge(const Edge& edge) const {
  const auto it = known_.find(edge.src);
  Guard guard = it == known_.end() ? Guard() : it->second;
  AddBranch(*edge.src, edge.src_output, &guard);
  return guard;
}

// The guards of a node are those of all its inputs together. At a Merge the guards of the branches end.
Guard Guards::Combine(const Node& node) const {
  Guard all;
  if (IsMerge(node) && !IsLoopHeader(node)) {
    bool first = true;
    for (const Edge* edge : node.data_in_edges()) {
      if (edge == nullptr) continue;
      const Guard guard = OfEdge(*edge);
      if (first) all = guard;
      first = false;
      std::erase_if(
          all, [&guard](const auto& b) { return std::find(guard.begin(), guard.end(), b) == guard.end(); });
    }
    return all;
  }
  for (const Edge* edge : node.in_edges()) {
    if (edge == nullptr || IsLoopBackEdge(*edge)) continue;
    for (const auto& branch : OfEdge(*edge)) {
      if (std::find(all.begin(), all.end(), branch) == all.end()) all.push_back(branch);
    }
  }
  return all;
}

const Guard& Guards::OfNode(const Node* node) {
  std::vector<std::pair<const Node*, size_t>> stack;  // a node and its next input
  std::unordered_set<const Node*> begun;
  const auto push = [&](const Node* n) {
    if (known_.contains(n) || !begun.insert(n).second) return;
    if (boundary_.contains(n) || !n->IsOp()) {
      known_[n] = {};
    } else {
      stack.emplace_back(n, 0);
    }
  };
  push(node);
  while (!stack.empty()) {
    auto& [top, next] = stack.back();
    if (next < top->in_edges().size()) {
      const Edge* edge = top->in_edges()[next++];
      if (edge != nullptr && !IsLoopBackEdge(*edge)) push(edge->src);
    } else {
      known_[top] = Combine(*top);
      stack.pop_back();
    }
  }
  return known_[node];
}

Guard Guards::Of(const Output& tensor) {
  Guard guard = OfNode(tensor.node);
  AddBranch(*tensor.node, tensor.index, &guard);
  return guard;
}

}  // namespace millrace
