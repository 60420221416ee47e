// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "millrace/output.h"

namespace millrace {

// A loop of primitives: Enter -> Merge -> Switch -> body -> NextIteration -> Merge, and Switch ->
// Exit.
struct Loop {
  struct Variable {
    Node* enter = nullptr;
    Node* merge = nullptr;
    Node* split = nullptr;  // the Switch
    Node* next = nullptr;   // the NextIteration
    std::vector<Node*> exits;

    bool IsWhole() const {
      return enter != nullptr && merge != nullptr && split != nullptr && next != nullptr;
    }
  };

  Loop* parent = nullptr;  // null: not within another loop
  int depth = 1;
  std::string frame_name;
  int64_t parallel_iterations = 10;
  std::vector<Variable> variables;
  std::vector<Node*> constants;  // the Enters of loop invariants
  Output condition;              // of the LoopCond; unset when there is none

  bool HasBackProp() const;
};

// The loops of a graph. A node belongs to the innermost loop whose iterations it runs in: an Enter to the
// loop that it enters, an Exit to the parent of the loop. Built once; the graph may grow afterwards, new
// nodes belong to no loop.
class LoopForest {
 public:
  explicit LoopForest(const Graph& graph);

  // Null for nodes that run once in a step.
  Loop* LoopOf(const Node& node) const;
  // False for nodes that were added later.
  bool Knows(const Node& node) const { return static_cast<size_t>(node.id()) < loop_of_.size(); }
  // True for the nodes that make up a loop, as opposed to those of its body: all except the Exits.
  bool IsFrameNode(const Node& node) const {
    return static_cast<size_t>(node.id()) < is_frame_node_.size() &&
           is_frame_node_[static_cast<size_t>(node.id())];
  }
  // Parents before nested loops.
  const std::vector<std::unique_ptr<Loop>>& loops() const { return loops_; }

 private:
  void FindFrames(const Graph& graph);
  void FindParts(const Graph& graph);
  Loop* Child(Loop* parent, const Node& enter);
  void AddVariable(Loop& loop, Node* enter);

  std::vector<std::unique_ptr<Loop>> loops_;
  std::map<std::pair<Loop*, std::string>, Loop*> by_name_;
  std::vector<Loop*> loop_of_;  // by node id
  std::vector<bool> is_frame_node_;
};

bool IsEnter(const Node& node);
bool IsExit(const Node& node);
bool IsMerge(const Node& node);
bool IsSwitch(const Node& node);
bool IsNextIteration(const Node& node);

}  // namespace millrace
