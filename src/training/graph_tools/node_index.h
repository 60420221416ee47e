// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

namespace tensorflow {
class AttrValue;
class GraphDef;
class NodeDef;
}  // namespace tensorflow

namespace millrace {

// The nodes of a GraphDef by name, and their consumers, at the time of construction. Names and positions of
// nodes must not change.
class NodeIndex {
 public:
  // InvalidArgument for a name that comes twice.
  static StatusOr<NodeIndex> Make(const tensorflow::GraphDef& graph);

  int Find(std::string_view name) const;  // -1: no such node
  // The node that an input "a", "a:1" or "^a" is from; -1: none.
  int SourceOf(std::string_view input) const { return Find(ParseTensorId(input).name); }
  // InvalidArgument "a is not in graph".
  StatusOr<std::vector<int>> FindAll(const std::vector<std::string>& names) const;

  struct Use {
    int node = 0;
    int input = 0;   // position in the node's list
    int output = 0;  // of the node that is used; -1: a control input
  };
  // The consumers of a node.
  const std::vector<Use>& UsesOf(int node) const { return uses_[static_cast<size_t>(node)]; }

 private:
  std::unordered_map<std::string_view, int> by_name_;
  std::vector<std::vector<Use>> uses_;
};

// Drops the nodes whose flag is false.
void KeepNodes(const std::vector<bool>& keep, tensorflow::GraphDef* graph);
// What `roots` need, themselves included.
std::vector<bool> NeededBy(const std::vector<int>& roots, const NodeIndex& index,
                           const tensorflow::GraphDef& graph);
// The attribute if it exists and is of this kind; else null.
const tensorflow::AttrValue* FindAttr(const tensorflow::NodeDef& node, const std::string& name);
DataType TypeAttr(const tensorflow::NodeDef& node, const std::string& name);  // kInvalid: none
bool HasControlInputs(const tensorflow::NodeDef& node);
// Makes `node`, whose name and device stay, a constant without inputs.
void MakeConst(const Tensor& value, tensorflow::NodeDef* node);
// The value of a Const.
StatusOr<Tensor> ConstValue(const tensorflow::NodeDef& node);
// A name that no node has yet, "prefix", "prefix_1", …; `taken` gets it.
std::string FreshName(const std::string& prefix, const NodeIndex& index, std::vector<std::string>* taken);

}  // namespace millrace
