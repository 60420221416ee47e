// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/function_body.h"
#include "graph/graph.h"

namespace millrace {

// Remove useless nodes that instantiation leaves in a graph. Each returns the number of removed nodes.

// _ListToArray and _ArrayToList only rename their inputs: consumers take those; Identity nodes do, where the
// converter waits for something or is waited for. Those in `keep` stay.
int RemoveListArrayConverters(Graph* graph, const std::vector<Node*>& keep);
// Nodes that are neither stateful nor parameters, and not needed by such, by a result or by one of `keep`.
int RemoveDeadNodes(Graph* graph, const std::vector<Node*>& keep);
// Identity nodes with one input: consumers take that. Those stay that were put on a device, read a reference,
// wait for something besides, or stand for one side of a Switch to nodes that wait for them.
int RemoveIdentityNodes(Graph* graph, const std::vector<Node*>& keep);

// All of them, repeatedly until nothing changes.
void CleanUpBody(FunctionBody* body);

}  // namespace millrace
