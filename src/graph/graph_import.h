// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "millrace/status.h"

namespace tensorflow {
class GraphDef;
class NodeDef;
}  // namespace tensorflow

namespace millrace {

class ShapeRefiner;

struct ImportOptions {
  std::string prefix;           // put before every name, with a '/'
  bool uniquify_names = false;  // otherwise a name that the graph has is AlreadyExists
  bool add_default_attrs = true;
  bool validate_shapes = true;      // run shape inference and refuse what can't be
  bool drop_unknown_attrs = false;  // attributes that the op doesn't have are left out, not an error
  bool allow_internal_ops = false;  // names of nodes and ops that begin with '_'
  bool allow_removed_ops = false;   // ops that the producer's version should no longer use
  std::string default_device;       // for nodes that name none
  // "name:output" of the GraphDef -> a tensor of the graph to use instead.
  std::map<std::string, std::pair<Node*, int>> input_map;
  std::vector<Node*> control_dependencies;  // of every imported node that has no imported inputs
  bool inputs_from_graph =
      true;  // inputs may name nodes that the graph has already, as when a session is extended
  // Knows the shapes of the graph, and learns those of the new nodes. Null: they are inferred for the
  // occasion.
  ShapeRefiner* shapes = nullptr;
  int64_t max_nodes = 50'000'000;
  int64_t max_tensor_bytes = int64_t{4} << 30;  // of all constants, by their shapes
};

// Adds what `def` describes to `graph`, which is left as it was on error. Errors name the node: unknown op,
// bad attr, duplicate name, missing node, output out of range, type mismatch, cycle outside a loop, version
// not supported.
Status ImportGraphDef(const tensorflow::GraphDef& def, const ImportOptions& options, Graph* graph);
// The same, of a GraphDef that is not needed any more: large constants take its memory over.
Status ImportGraphDef(tensorflow::GraphDef&& def, const ImportOptions& options, Graph* graph);

// Parses without protobuf's size limit; InvalidArgument("Invalid GraphDef") when the bytes are no GraphDef.
Status ParseGraphDef(std::string_view bytes, tensorflow::GraphDef* def);

// The inverse of import. Nodes in id order, data inputs by slot and then control inputs; default attributes
// are kept.
void ExportGraphDef(const Graph& graph, tensorflow::GraphDef* def);
// One node. REQUIRES: `def` is empty.
void ExportNodeDef(const Node& node, tensorflow::NodeDef* def);

}  // namespace millrace
