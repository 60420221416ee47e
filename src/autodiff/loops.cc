// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "autodiff/loops.h"

#include <deque>

namespace millrace {

bool IsEnter(const Node& node) { return node.op_name() == "Enter" || node.op_name() == "RefEnter"; }
bool IsExit(const Node& node) { return node.op_name() == "Exit" || node.op_name() == "RefExit"; }
bool IsMerge(const Node& node) { return node.op_name() == "Merge" || node.op_name() == "RefMerge"; }
bool IsSwitch(const Node& node) { return node.op_name() == "Switch" || node.op_name() == "RefSwitch"; }
bool IsNextIteration(const Node& node) {
  return node.op_name() == "NextIteration" || node.op_name() == "RefNextIteration";
}

bool Loop::HasBackProp() const {
  for (const Variable& variable : variables) {
    for (const Node* exit : variable.exits) {
      if (!exit->Attr<bool>("_back_prop").value_or(true)) return false;
    }
  }
  return true;
}

LoopForest::LoopForest(const Graph& graph)
    : loop_of_(static_cast<size_t>(graph.num_node_ids()), nullptr),
      is_frame_node_(static_cast<size_t>(graph.num_node_ids()), false) {
  FindFrames(graph);
  if (!loops_.empty()) FindParts(graph);
}

Loop* LoopForest::LoopOf(const Node& node) const {
  const auto id = static_cast<size_t>(node.id());
  return id < loop_of_.size() ? loop_of_[id] : nullptr;
}

Loop* LoopForest::Child(Loop* parent, const Node& enter) {
  const std::string name = enter.Attr<std::string>("frame_name").value_or("");
  Loop*& child = by_name_[{parent, name}];
  if (child == nullptr) {
    loops_.push_back(std::make_unique<Loop>());
    child = loops_.back().get();
    child->parent = parent;
    child->depth = parent == nullptr ? 1 : parent->depth + 1;
    child->frame_name = name;
    child->parallel_iterations = enter.Attr<int64_t>("parallel_iterations").value_or(10);
  }
  return child;
}

// Any input of a node, control inputs included, determines the loop in which it runs.
void LoopForest::FindFrames(const Graph& graph) {
  std::vector<bool> seen(loop_of_.size(), false);
  std::deque<const Node*> work;
  for (const Node* node : graph.OpNodes()) {
    bool has_inputs = false;
    for (const Edge* edge : node->in_edges())
      has_inputs = has_inputs || (edge != nullptr && edge->src->IsOp());
    if (has_inputs) continue;
    seen[static_cast<size_t>(node->id())] = true;
    work.push_back(node);
  }
  while (!work.empty()) {
    const Node* node = work.front();
    work.pop_front();
    Loop* const loop = loop_of_[static_cast<size_t>(node->id())];
    Loop* const out = IsExit(*node) && loop != nullptr ? loop->parent : loop;
    loop_of_[static_cast<size_t>(node->id())] = out;
    for (const Edge* edge : node->out_edges()) {
      const auto id = static_cast<size_t>(edge->dst->id());
      if (!edge->dst->IsOp() || seen[id]) continue;
      seen[id] = true;
      loop_of_[id] = IsEnter(*edge->dst) ? Child(out, *edge->dst) : out;
      work.push_back(edge->dst);
    }
  }
}

void LoopForest::AddVariable(Loop& loop, Node* enter) {
  Loop::Variable variable;
  variable.enter = enter;
  for (const Edge* edge : enter->out_edges()) {
    if (!edge->IsControl() && IsMerge(*edge->dst)) variable.merge = edge->dst;
  }
  if (variable.merge != nullptr) {
    for (const Edge* edge : variable.merge->data_in_edges()) {
      if (edge != nullptr && IsNextIteration(*edge->src)) variable.next = edge->src;
    }
    for (const Edge* edge : variable.merge->out_edges()) {
      if (edge->IsControl() || edge->src_output != 0 || edge->dst_input != 0 || !IsSwitch(*edge->dst))
        continue;
      const Edge* pred = edge->dst->data_in_edges()[1];
      if (pred == nullptr || pred->src->op_name() != "LoopCond") continue;
      variable.split = edge->dst;
      loop.condition = {pred->src, pred->src_output};
    }
  }
  if (variable.split != nullptr) {
    for (const Edge* edge : variable.split->out_edges()) {
      if (!edge->IsControl() && edge->src_output == 0 && IsExit(*edge->dst))
        variable.exits.push_back(edge->dst);
    }
  }
  for (const Node* node : {variable.enter, variable.merge, variable.split, variable.next}) {
    if (node != nullptr) is_frame_node_[static_cast<size_t>(node->id())] = true;
  }
  loop.variables.push_back(std::move(variable));
}

void LoopForest::FindParts(const Graph& graph) {
  for (Node* node : graph.OpNodes()) {
    if (!IsEnter(*node)) continue;
    Loop* const loop = LoopOf(*node);
    if (loop == nullptr) continue;
    if (node->Attr<bool>("is_constant").value_or(false)) {
      loop->constants.push_back(node);
      is_frame_node_[static_cast<size_t>(node->id())] = true;
    } else {
      AddVariable(*loop, node);
    }
  }
}

}  // namespace millrace
