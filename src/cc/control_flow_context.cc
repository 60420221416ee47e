// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cc/control_flow_context.h"

#include <algorithm>

namespace millrace {

using Context = Scope::Context;

bool Context::Encloses(const Context* other) const {
  while (other != nullptr && other != this) other = other->outer().get();
  return other == this;
}

StatusOr<Node*> Context::Add(const std::string& name, const char* op, const std::vector<InputArg>& inputs,
                             AttrMap attrs, const std::string& device) {
  MR_ASSIGN_OR_RETURN(Node * node, AddCheckedNode(state_.graph, state_.shapes, state_.UniqueName(name), op,
                                                  inputs, std::move(attrs), device));
  Own(node);
  return node;
}

StatusOr<Output> Context::Capture(const Output& tensor, const std::string& user) {
  if (Has(tensor.node)) return tensor;
  const std::pair<const Node*, int> key(tensor.node, tensor.index);
  if (const auto it = captured_.find(key); it != captured_.end()) return it->second;
  Output outside = tensor;
  if (outer_ != nullptr) {
    MR_ASSIGN_OR_RETURN(outside, outer_->Capture(tensor, user));
  } else {
    MR_RETURN_IF_ERROR(state_.CheckUse(tensor, nullptr, user));
  }
  MR_ASSIGN_OR_RETURN(const Output inside, LetIn(outside, user));
  captured_.emplace(key, inside);
  return inside;
}

Status Scope::State::CheckUse(const Output& tensor, const Context* by, const std::string& user) const {
  const auto home = contexts.find(tensor.node);
  if (home == contexts.end()) return Status();
  for (const Context* c = home->second; c != nullptr; c = c->outer().get()) {
    if (c == by) return Status();
    if (c->is_loop()) {
      return errors::InvalidArgument("Cannot use '", tensor.node->name(), "' as input to '", user,
                                     "' because '", tensor.node->name(), "' is in a while loop.");
    }
  }
  return Status();
}

void Context::Adopt(Node* node) {
  Own(node);
  bool has_inner_control = false;
  const std::vector<Edge*> controls(node->control_in_edges().begin(), node->control_in_edges().end());
  for (Edge* edge : controls) {
    Node* const src = edge->src;
    if (src->IsSource()) continue;
    Node* const gate = Gate(src);
    has_inner_control = has_inner_control || Has(gate);
    if (gate == src) continue;
    state_.graph.RemoveEdge(edge);
    state_.graph.AddControlEdge(gate, node);
  }
  if (pivot() == nullptr || node == pivot() || has_inner_control || !NeedsPivot(*node)) return;
  state_.graph.AddControlEdge(pivot(), node);
}

bool Context::Has(const Node* node) const {
  const auto home = state_.contexts.find(node);
  return home != state_.contexts.end() && Encloses(home->second);
}

Node* BranchContext::Gate(Node* before) {
  return Has(before) || outer() == nullptr ? before : outer()->Gate(before);
}

// A control edge can't lead into a loop. The loop and its pivot wait for the node instead.
Node* LoopContext::Gate(Node* before) {
  if (Has(before)) return before;
  Node* const gate = outer() == nullptr ? before : outer()->Gate(before);
  for (Node* enter : enters_) {
    if (!enter->Attr<bool>("is_constant").value_or(true)) state_.graph.AddControlEdge(gate, enter);
  }
  return pivot_;
}

StatusOr<Output> BranchContext::LetIn(const Output& tensor, const std::string& user) {
  const bool ref = IsRefType(tensor.node->output_type(tensor.index));
  AttrMap attrs;
  attrs.Set("_class", std::vector<std::string>{StrCat("loc:@", tensor.node->name())});
  MR_ASSIGN_OR_RETURN(Node * node, Add(StrCat(user, "/Switch"), ref ? "RefSwitch" : "Switch",
                                       {InputArg{{tensor}, false}, InputArg{{pred_}, false}},
                                       std::move(attrs), tensor.node->requested_device()));
  return Output{node, branch_};
}

StatusOr<Output> LoopContext::Enter(const Output& tensor, const std::string& name, bool is_constant) {
  const bool ref = is_constant && IsRefType(tensor.node->output_type(tensor.index));
  AttrMap attrs = {
      {"frame_name", frame_}, {"is_constant", is_constant}, {"parallel_iterations", parallel_iterations_}};
  MR_ASSIGN_OR_RETURN(Node * node, Add(name, ref ? "RefEnter" : "Enter", {InputArg{{tensor}, false}},
                                       std::move(attrs), tensor.node->requested_device()));
  enters_.push_back(node);
  return Output{node, 0};
}

StatusOr<Output> LoopContext::LetIn(const Output& tensor, const std::string& user) {
  return Enter(tensor, StrCat(user, "/Enter"), true);
}

bool LoopContext::NeedsPivot(const Node& node) const {
  return std::all_of(node.data_in_edges().begin(), node.data_in_edges().end(), [this](const Edge* edge) {
    const auto home = state_.contexts.find(edge->src);
    const bool constant = edge->src->op_name() == "Enter" || edge->src->op_name() == "RefEnter";
    return constant && home != state_.contexts.end() && home->second == this &&
           edge->src->Attr<bool>("is_constant").value_or(false);
  });
}

}  // namespace millrace
