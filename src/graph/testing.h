// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "op/op_registry.h"

namespace tensorflow {
class GraphDef;
}

namespace millrace {

// A few ops for tests of graphs: NoOp, Const, Placeholder, Identity, Neg, Add (commutative), Sub, Cast,
// MatMul, Split, Shape, ShapeN, Size, Rank, Pack, ConcatV2, Slice, StridedSlice, Reshape, Fill,
// RandomUniform, VariableV2, Assign, VarHandleOp, ReadVariableOp, Switch, Merge, NextIteration, GpuOnly,
// _Arg, _Retval, _Send, _Recv.
const OpRegistry& TestOps();

// A node with inputs "a", "a:1", "^a" of the graph. Adds a failure to the test, and returns null, on an
// error.
Node* AddTestNode(Graph* graph, std::string_view name, std::string_view op,
                  const std::vector<std::string>& inputs = {}, AttrMap attrs = {},
                  std::string_view device = {});

// Parses the text form of a GraphDef.
tensorflow::GraphDef GraphDefFromText(const std::string& text);

// One line per node in id order, "name = Op(a, b:1, ^c) @device", to compare graphs.
std::string GraphText(const Graph& graph);

}  // namespace millrace
