// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tensorflow {
class GraphDef;
}  // namespace tensorflow

namespace millrace {

// The nodes of a graph by the scopes of their names: "a/b/c" is c in b in a. Where a scope has more than a
// number of items, those that stand side by side are grouped, and then pieces of the way from the first to
// the last, cut where few edges cross. Constants, which drawings may leave out, are not counted: they go with
// those that read them.
struct ScopeItem {
  std::string label;  // the last part of the name; of a group what its members have in common
  int parent = -1;    // an item before this one; -1: the root
  int node = -1;      // in the graph; -1: a scope or a group
  bool is_group = false;
  int64_t nodes = 0;      // in it, all the way down; of a node 1
  int64_t constants = 0;  // of those: constants, and nodes made of them without arithmetic
  std::vector<int> children;
};

struct ScopeEdge {
  int from = 0, to = 0;  // nodes of the graph
  int output = 0;        // of `from`; -1: a control edge
  int input = 0;         // of `to`
};

struct ScopeTree {
  std::vector<ScopeItem> items;   // the first is the root; parents come before their children
  std::vector<int> item_of_node;  // by number of the node
  std::vector<ScopeEdge> edges;
  std::vector<std::string> missing;  // inputs that name no node, the first few

  // "a/b/c"; groups leave no trace in it.
  std::string PathOf(int item) const;
};

// Names may be anything. `most_children` is at least 2.
ScopeTree BuildScopeTree(const tensorflow::GraphDef& graph, size_t most_children);

}  // namespace millrace
