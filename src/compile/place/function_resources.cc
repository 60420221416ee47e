// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/place/function_resources.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "compile/lower/function_calls.h"

namespace millrace {
namespace {

bool HasResource(const Node& node) {
  const std::vector<DataType>& types = node.props().input_types;
  return std::find(types.begin(), types.end(), DataType::kResource) != types.end();
}

bool IsBorder(const Node& node) { return node.op_name().starts_with('_'); }

// The functions that a node passes its last inputs to, as their last arguments.
std::vector<NameAttrList> FunctionsOf(const Node& node) {
  const std::string& op = node.op_name();
  if (op == "SymbolicGradient") return {};
  if (auto callee = CalleeOf(node); callee.has_value()) return {*std::move(callee)};
  std::vector<NameAttrList> functions;
  const auto add = [&](std::string_view name) {
    const AttrValue* value = node.attrs().Find(name);
    if (value == nullptr) return;
    if (const auto* f = value->As<NameAttrList>(); f != nullptr) functions.push_back(*f);
    if (const auto* list = value->As<std::vector<NameAttrList>>(); list != nullptr)
      functions.insert(functions.end(), list->begin(), list->end());
  };
  if (op == "If" || op == "StatelessIf") {
    add("then_branch");
    add("else_branch");
  } else if (op == "While" || op == "StatelessWhile") {
    add("cond");
    add("body");
  } else if (op == "Case") {
    add("branches");
  } else if (op == "For") {
    add("body");
  }
  return functions;
}

}  // namespace

FunctionResources::FunctionResources(const Graph& graph, const PlaceOptions& options)
    : graph_(graph),
      options_(options),
      all_(~TypeMask{0} >> (64 - std::clamp<size_t>(options.devices->types().size(), 1, 64))) {}

FunctionResources::TypeMask FunctionResources::Types(const Node& node) {
  TypeMask types = all_;
  if (options_.devices->types().size() < 2 || graph_.functions().empty() || !HasResource(node)) return types;
  for (const NameAttrList& f : FunctionsOf(node)) {
    const FunctionBody* body = BodyOf(f);
    if (body == nullptr) continue;
    const int num_args = static_cast<int>(body->args.size());
    for (int i = std::max(node.num_inputs() - num_args, 0); i < node.num_inputs(); ++i) {
      if (node.input_type(i) != DataType::kResource) continue;
      types &= TypesOfArg(*body, i - (node.num_inputs() - num_args));
    }
  }
  return types;
}

const FunctionBody* FunctionResources::BodyOf(const NameAttrList& f) {
  const auto [it, is_new] = bodies_.try_emplace(FunctionKey(f));
  if (is_new) {
    auto body = InstantiateFunction(graph_.functions(), graph_.ops(), f);
    if (body.ok()) it->second = *std::move(body);
  }
  return it->second.graph == nullptr ? nullptr : &it->second;
}

FunctionResources::TypeMask FunctionResources::TypesOfArg(const FunctionBody& body, int arg) {
  const auto [it, is_new] = types_of_arg_.try_emplace({&body, arg}, all_);
  if (is_new && body.arg_types[static_cast<size_t>(arg)] == DataType::kResource)
    it->second = TypesBehind(*body.args[static_cast<size_t>(arg)]);
  return it->second;
}

FunctionResources::TypeMask FunctionResources::TypesBehind(const Node& arg) {
  TypeMask types = all_;
  std::vector<const Node*> work = {&arg};
  std::unordered_set<const Node*> seen = {&arg};
  while (!work.empty()) {
    const Node* from = work.back();
    work.pop_back();
    for (const Edge* edge : from->out_edges()) {
      const Node& node = *edge->dst;
      if (edge->IsControl() || !node.IsOp() || IsBorder(node)) continue;
      if (node.input_type(edge->dst_input) != DataType::kResource || !seen.insert(&node).second) continue;
      types &= KernelTypes(node) & Types(node);
      work.push_back(&node);
    }
  }
  return types;
}

// A node without any kernel restricts nothing: it fails when it runs.
FunctionResources::TypeMask FunctionResources::KernelTypes(const Node& node) const {
  const std::vector<std::string>& types = options_.devices->types();
  TypeMask found = 0;
  for (size_t i = 0; i < types.size(); ++i) {
    if (options_.has_kernel(types[i], node.props())) found |= TypeMask{1} << i;
  }
  return found == 0 ? all_ : found;
}

}  // namespace millrace
