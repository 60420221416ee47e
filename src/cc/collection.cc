// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/meta_graph.h"

#include "cc/scope_state.h"

namespace millrace {
namespace {

void Add(const Scope& scope, const std::string& name, std::string entry) {
  if (entry.empty()) {
    scope.UpdateStatus(errors::InvalidArgument("the item to add to collection '", name, "' is unset"));
    return;
  }
  CollectionDef& collection = scope.state().collections[name];
  if (std::holds_alternative<std::monostate>(collection)) collection = NodeList();
  if (auto* const nodes = std::get_if<NodeList>(&collection)) {
    nodes->value.push_back(std::move(entry));
  } else {
    scope.UpdateStatus(errors::InvalidArgument("collection '", name, "' is not a list of nodes"));
  }
}

const NodeList* FindNodes(const Scope& scope, const std::string& name) {
  const auto& collections = scope.state().collections;
  const auto found = collections.find(name);
  return found == collections.end() ? nullptr : std::get_if<NodeList>(&found->second);
}

}  // namespace

std::map<std::string, CollectionDef>& Collections(const Scope& scope) { return scope.state().collections; }

void AddToCollection(const Scope& scope, const std::string& name, const Output& tensor) {
  Add(scope, name, tensor.IsSet() ? StrCat(tensor.node->name(), ":", tensor.index) : "");
}

void AddToCollection(const Scope& scope, const std::string& name, const Operation& node) {
  Add(scope, name, Scope::NameOf(node));
}

std::vector<Output> CollectedTensors(const Scope& scope, const std::string& name) {
  std::vector<Output> tensors;
  const NodeList* const nodes = FindNodes(scope, name);
  if (nodes == nullptr) return tensors;
  for (const std::string& entry : nodes->value) {
    const TensorId id = ParseTensorId(entry);
    Node* const node = scope.graph().FindNode(id.name);
    if (node != nullptr && id.index >= 0 && id.index < node->num_outputs()) {
      tensors.push_back({node, id.index});
    }
  }
  return tensors;
}

std::vector<Operation> CollectedOperations(const Scope& scope, const std::string& name) {
  std::vector<Operation> operations;
  const NodeList* const nodes = FindNodes(scope, name);
  if (nodes == nullptr) return operations;
  for (const std::string& entry : nodes->value) {
    if (Node* const node = scope.graph().FindNode(ParseTensorId(entry).name)) operations.emplace_back(node);
  }
  return operations;
}

}  // namespace millrace
