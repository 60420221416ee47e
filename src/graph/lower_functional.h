// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "millrace/status.h"

namespace millrace {

// The attribute that requests the lowering of a node.
inline constexpr std::string_view kLowerAttr = "_lower_using_switch_merge";

// If and StatelessIf with a bool condition, Case, While and StatelessWhile with a variable.
bool CanLower(const Node& node);

struct LoweredNode {
  std::vector<Node*> calls;  // of the branches, or of the condition and the body
  int num_added = 0;
};

struct LowerOptions {
  // Resources that the body of a loop only passes on enter as constants. The body must not change anything:
  // it may start once more after the last iteration, as nothing else delays it.
  bool resources_are_constant = false;
};

// Lowers a condition to Switch and Merge, a loop to Enter, Merge, Switch, NextIteration and Exit, around
// calls of its functions. The node is removed; nodes that waited for it wait for its end. REQUIRES: CanLower.
StatusOr<LoweredNode> LowerFunctional(Node* node, const LowerOptions& options = {});

}  // namespace millrace
