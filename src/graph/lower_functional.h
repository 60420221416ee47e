// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "millrace/status.h"

namespace millrace {

// The attribute by which a node asks to be lowered.
inline constexpr std::string_view kLowerAttr = "_lower_using_switch_merge";

// If and StatelessIf with a bool condition, Case, While and StatelessWhile with a variable.
bool CanLower(const Node& node);

struct LoweredNode {
  std::vector<Node*> calls;  // of the branches, or of the condition and the body
  int num_added = 0;
};

struct LowerOptions {
  // Resources that the body of a loop hands on come in as constants. The body must not change anything: it
  // may start once more after the last iteration, as nothing else holds it.
  bool resources_are_constant = false;
};

// Writes a condition with Switch and Merge, a loop with Enter, Merge, Switch, NextIteration and Exit, around
// calls of its functions. The node goes; what waited for it waits until it is over. REQUIRES: CanLower.
StatusOr<LoweredNode> LowerFunctional(Node* node, const LowerOptions& options = {});

}  // namespace millrace
