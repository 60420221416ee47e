// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "graph/graph.h"

namespace millrace {

// For messages, the way TensorFlow shows a node: "m = MatMul[T=DT_FLOAT, transpose_a=false](a, b:1, ^c)".
std::string SummarizeNode(const Node& node);
// For timelines: "m = MatMul(a, b:1)".
std::string NodeLabel(const Node& node);
// The bytes of the graph's GraphDef.
std::string SerializeGraph(const Graph& graph);

}  // namespace millrace
