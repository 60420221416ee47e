// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "graph/graph.h"
#include "millrace/status.h"
#include "op/attr_value.h"

namespace millrace {

// The callee of a node: a library function that it names as its op, or the "f" of a PartitionedCall, a
// StatefulPartitionedCall or (the gradient of "f") a SymbolicGradient. Empty for other nodes.
std::optional<NameAttrList> CalleeOf(const Node& node);

// Adds a node with the name, device and edges of another one, and removes that. REQUIRES: the types of inputs
// and outputs are the same.
StatusOr<Node*> ReplaceNode(Node* node, std::string_view op, AttrMap attrs);

// Nodes whose op is a function of the library become PartitionedCall or, for stateful ones,
// StatefulPartitionedCall nodes, so that every device has a kernel for them.
Status RewriteNamedCalls(Graph* graph);

}  // namespace millrace
