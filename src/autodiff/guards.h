// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "millrace/output.h"

namespace millrace {

// The branches around a tensor, the outermost first: the predicate of each and the side that must be taken
// for the tensor to be computed.
using Guard = std::vector<std::pair<Output, int>>;

// Finds the guards of the tensors of one frame: of the nodes that run once, or of the body of one loop.
// Linear in the graph for all calls together; not recursive.
class Guards {
 public:
  // `boundary`: the nodes at the entry of the frame. Kept by reference; may grow.
  explicit Guards(const std::unordered_set<const Node*>& boundary) : boundary_(boundary) {}
  Guard Of(const Output& tensor);

 private:
  const Guard& OfNode(const Node* node);
  Guard Combine(const Node& node) const;
  Guard OfEdge(const Edge& edge) const;

  const std::unordered_set<const Node*>& boundary_;
  std::unordered_map<const Node*, Guard> known_;
};

}  // namespace millrace
