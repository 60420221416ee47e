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
  bool uniquify_names = false;  // otherwise a duplicate name is AlreadyExists
  bool add_default_attrs = true;
  bool validate_shapes = true;      // infer shapes and refuse invalid ones
  bool drop_unknown_attrs = false;  // attributes that the op doesn't have are dropped, not an error
  bool allow_internal_ops = false;  // names of nodes and ops that begin with '_'
  bool allow_removed_ops = false;   // ops that the producer's version should no longer use
  std::string default_device;       // for nodes that name none
  // "name:output" of the GraphDef -> the tensor of the graph that replaces it.
  std::map<std::string, std::pair<Node*, int>> input_map;
  std::vector<Node*> control_dependencies;  // of every imported node without imported inputs
  bool inputs_from_graph =
      true;  // inputs may name nodes that the graph has already, as when a session is extended
  // Has the shapes of the graph, and gets those of the new nodes. Null: they are inferred for this
  // call.
  ShapeRefiner* shapes = nullptr;
  int64_t max_nodes = 50'000'000;
  int64_t max_tensor_bytes = int64_t{4} << 30;  // of all constants, by their shapes
};

// Adds the nodes of `def` to `graph`, which is unchanged on error. Errors name the node: unknown op, invalid
// attr, duplicate name, missing node, output out of range, type mismatch, cycle outside a loop, version not
// supported.
Status ImportGraphDef(const tensorflow::GraphDef& def, const ImportOptions& options, Graph* graph);
// The same for a GraphDef that is no longer needed: large constants take over its memory.
Status ImportGraphDef(tensorflow::GraphDef&& def, const ImportOptions& options, Graph* graph);

// Parses without protobuf's size limit; InvalidArgument("Invalid GraphDef") if the bytes are not a GraphDef.
Status ParseGraphDef(std::string_view bytes, tensorflow::GraphDef* def);

// The inverse of import. Nodes in id order, data inputs by slot and then control inputs; default attributes
// are kept.
void ExportGraphDef(const Graph& graph, tensorflow::GraphDef* def);
// One node. REQUIRES: `def` is empty.
void ExportNodeDef(const Node& node, tensorflow::NodeDef* def);

}  // namespace millrace
