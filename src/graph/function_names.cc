// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/function_names.h"

#include <vector>

#include "tensorflow/core/framework/function.pb.h"

namespace millrace {
namespace {

void CollectFunction(const NameAttrList& f, FunctionNames* names) {
  names->insert(f.name);
  if (f.attrs != nullptr) CollectFunctions(*f.attrs, names);
}

void CollectFunction(const tensorflow::NameAttrList& f, FunctionNames* names) {
  names->insert(f.name());
  for (const auto& [name, value] : f.attr()) CollectFunctions(value, names);
}

}  // namespace

void CollectFunctions(const AttrMap& attrs, FunctionNames* names) {
  for (const auto& [name, value] : attrs) {
    if (const auto* f = value.As<NameAttrList>()) CollectFunction(*f, names);
    if (const auto* list = value.As<std::vector<NameAttrList>>()) {
      for (const NameAttrList& f : *list) CollectFunction(f, names);
    }
  }
}

void CollectFunctions(const tensorflow::AttrValue& value, FunctionNames* names) {
  if (value.has_func()) CollectFunction(value.func(), names);
  for (const tensorflow::NameAttrList& f : value.list().func()) CollectFunction(f, names);
}

void CollectFunctions(const tensorflow::FunctionDef& def, const FunctionLibrary& library,
                      FunctionNames* names) {
  for (const auto& attr : def.signature().attr()) CollectFunctions(attr.default_value(), names);
  for (const tensorflow::NodeDef& node : def.node_def()) {
    if (library.Find(node.op()) != nullptr) names->insert(node.op());
    for (const auto& [name, value] : node.attr()) CollectFunctions(value, names);
  }
}

FunctionLibrary ReachableFunctions(const Graph& graph, const Graph& of) {
  const FunctionLibrary& library = graph.functions();
  if (library.empty()) return library;
  FunctionNames pending, seen;
  for (const Node* node : of.OpNodes()) {
    CollectFunctions(node->attrs(), &pending);
    if (library.Find(node->op_name()) != nullptr) pending.insert(node->op_name());
  }
  while (!pending.empty()) {
    const std::string name = *pending.begin();
    pending.erase(pending.begin());
    if (!seen.insert(name).second) continue;
    // An op used in place of a function may name one, too.
    if (const std::string gradient = library.FindGradient(name); !gradient.empty()) pending.insert(gradient);
    if (const auto* def = library.Find(name); def != nullptr) CollectFunctions(*def, library, &pending);
  }
  return library.Only(seen);
}

}  // namespace millrace
