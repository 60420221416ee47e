// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "millrace/dtype.h"
#include "millrace/status.h"
#include "training/graph_tools/node_index.h"

namespace tensorflow {
class GraphDef;
class NodeDef;
}  // namespace tensorflow

namespace millrace {

// Turns what works on a variable into what works on its value, as FreezeGraph does. Keeps the nodes where
// they are; borrows index and graph.
class VariableUses {
 public:
  VariableUses(const NodeIndex& index, tensorflow::GraphDef* graph);
  ~VariableUses();

  // Output 0 of `variable` will be a value of type `dtype`; it was a handle or a reference. InvalidArgument
  // for a node that needs that.
  Status Freeze(int variable, DataType dtype, bool is_resource);
  // Adds the nodes that were needed besides.
  void Finish();

 private:
  using NodeDef = tensorflow::NodeDef;
  using Use = NodeIndex::Use;

  Status FollowHandle(const Use& use, DataType dtype);
  Status FollowReference(const Use& use);
  void Follow(int node, int output) { open_.emplace_back(node, output); }
  void MakeGather(NodeDef* node, DataType dtype);
  Status Refuse(const NodeDef& node) const;

  const NodeIndex& index_;
  tensorflow::GraphDef& graph_;
  std::string variable_;                   // that is being followed
  std::vector<std::pair<int, int>> open_;  // outputs whose readers are still to be looked at
  std::set<std::pair<int, int>> seen_;     // outputs that are values now
  std::vector<NodeDef> added_;
  std::vector<std::string> added_names_;
};

}  // namespace millrace
