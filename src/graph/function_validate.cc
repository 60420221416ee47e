// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <optional>
#include <set>

#include "base/strings.h"
#include "graph/function_body.h"
#include "graph/node_def_text.h"
#include "tensorflow/core/framework/function.pb.h"

namespace millrace {
namespace {

using tensorflow::FunctionDef;
using tensorflow::NodeDef;

StatusOr<const OpRegistration*> LookUpOp(const FunctionLibrary& library, const OpRegistry& ops,
                                         std::string_view name) {
  if (auto function = library.LookUp(name); function.ok()) return function;
  return ops.LookUp(name);
}

// The parts of "node:output:3" and similar references; the number of tensors is not known yet.
class StructureCheck {
 public:
  StructureCheck(const FunctionLibrary& library, const OpRegistry& ops, const FunctionDef& def,
                 const OpDef& op)
      : library_(library), ops_(ops), def_(def), op_(op) {}

  Status Run() {
    for (const ArgDef& arg : op_.inputs) args_.insert(arg.name);
    for (int i = 0; i < def_.node_def_size(); ++i) MR_RETURN_IF_ERROR(AddNode(i));
    for (const NodeDef& node : def_.node_def()) MR_RETURN_IF_ERROR(CheckInputs(node));
    for (const ArgDef& ret : op_.outputs) {
      const auto source = def_.ret().find(ret.name);
      if (source == def_.ret().end()) return errors::InvalidArgument("Return ", ret.name, " missing.");
      if (!Resolves(source->second)) {
        return errors::InvalidArgument("Return ", ret.name, " -> ", source->second, " is not found.");
      }
    }
    for (const auto& [name, node] : def_.control_ret()) {
      if (!nodes_.contains(node)) {
        return errors::InvalidArgument("Control return ", name, " -> ", node, " is not found.");
      }
    }
    return CheckCycles();
  }

 private:
  Status AddNode(int index) {
    const NodeDef& node = def_.node_def(index);
    if (!IsValidNodeName(node.name(), true)) {
      return errors::InvalidArgument("Node '", node.name(), "': Node name contains invalid characters");
    }
    if (args_.contains(node.name()) || !nodes_.try_emplace(node.name(), index).second) {
      return errors::InvalidArgument("Node '", node.name(), "' is not unique");
    }
    if (IsReservedOp(node.op())) {
      return errors::InvalidArgument("Node '", node.name(), "': op type '", node.op(), "' is internal");
    }
    auto op = LookUpOp(library_, ops_, node.op());
    if (!op.ok()) return op.status().WithContext(StrCat("; NodeDef: ", NodeTag(node.name())));
    node_ops_.push_back(*op);
    return Status();
  }

  bool Resolves(std::string_view input) const {
    const size_t colon = input.find(':');
    const std::string_view head = input.substr(0, colon);
    const auto number = [](std::string_view text) {
      const std::optional<int32_t> n = SafeStringToInt32(text);
      return n && *n >= 0;
    };
    if (args_.contains(head)) return colon == std::string_view::npos || number(input.substr(colon + 1));
    const auto node = nodes_.find(head);
    if (node == nodes_.end() || colon == std::string_view::npos) return false;
    std::string_view output = input.substr(colon + 1);
    if (const size_t second = output.find(':'); second != std::string_view::npos) {
      if (!number(output.substr(second + 1))) return false;
      output = output.substr(0, second);
    }
    for (const ArgDef& arg : node_ops_[static_cast<size_t>(node->second)]->def.outputs) {
      if (arg.name == output) return true;
    }
    return false;
  }

  Status CheckInputs(const NodeDef& node) const {
    bool control = false;
    for (int i = 0; i < node.input_size(); ++i) {
      const std::string& input = node.input(i);
      if (input.starts_with('^')) {
        control = true;
        const std::string_view name = std::string_view(input).substr(1);
        if (args_.contains(name) || nodes_.contains(name)) continue;
        return errors::InvalidArgument("input[", i, "] == '", input, "', is not found.")
            .WithContext(StrCat("\n\tIn ", NodeTag(node.name())));
      }
      if (control) {
        return errors::InvalidArgument("Expected input[", i, "] == '", input, "' to be a control input.")
            .WithContext(StrCat("\n\tIn ", NodeTag(node.name())));
      }
      if (!Resolves(input)) {
        return errors::InvalidArgument("input ", input, " is not found: ", NodeTag(node.name()));
      }
    }
    return Status();
  }

  // The edge from a NextIteration into a Merge closes a loop.
  Status CheckCycles() const {
    const auto n = static_cast<size_t>(def_.node_def_size());
    std::vector<std::vector<int>> consumers(n);
    std::vector<int> waiting(n, 0), ready;
    for (size_t i = 0; i < n; ++i) {
      const NodeDef& node = def_.node_def(static_cast<int>(i));
      for (const std::string& input : node.input()) {
        const bool control = input.starts_with('^');
        const std::string_view name =
            std::string_view(input).substr(control ? 1 : 0, control ? std::string::npos : input.find(':'));
        const auto it = nodes_.find(name);
        if (it == nodes_.end()) continue;
        const NodeDef& src = def_.node_def(it->second);
        if (src.op().ends_with("NextIteration") && node.op().ends_with("Merge")) continue;
        consumers[static_cast<size_t>(it->second)].push_back(static_cast<int>(i));
        ++waiting[i];
      }
      if (waiting[i] == 0) ready.push_back(static_cast<int>(i));
    }
    size_t done = 0;
    while (!ready.empty()) {
      const auto i = static_cast<size_t>(ready.back());
      ready.pop_back();
      ++done;
      for (const int c : consumers[i]) {
        if (--waiting[static_cast<size_t>(c)] == 0) ready.push_back(c);
      }
    }
    for (size_t i = 0; done < n && i < n; ++i) {
      if (waiting[i] > 0) {
        return errors::InvalidArgument("The function's graph is invalid, contains a cycle with ", n - done,
                                       " nodes, including: ", def_.node_def(static_cast<int>(i)).name());
      }
    }
    return Status();
  }

  const FunctionLibrary& library_;
  const OpRegistry& ops_;
  const FunctionDef& def_;
  const OpDef& op_;
  std::set<std::string, std::less<>> args_;
  std::map<std::string, int, std::less<>> nodes_;
  std::vector<const OpRegistration*> node_ops_;
};

}  // namespace

Status ValidateFunction(const FunctionLibrary& library, const OpRegistry& ops, const FunctionDef& def) {
  const std::string& name = def.signature().name();
  MR_ASSIGN_OR_RETURN(const OpRegistration* op, library.LookUp(name));
  for (const auto* args : {&op->def.inputs, &op->def.outputs}) {
    for (const ArgDef& arg : *args) {
      if (!arg.is_ref) continue;
      return errors::InvalidArgument("Function '", name, "': argument '", arg.name,
                                     "' is a reference; functions take and return values");
    }
  }
  if (Status s = StructureCheck(library, ops, def, op->def).Run(); !s.ok())
    return s.WithContext(StrCat("; in function '", name, "'"));
  for (const AttrDef& attr : op->def.attrs) {
    if (!attr.default_value.IsSet()) return Status();
  }
  return InstantiateFunction(library, ops, {name, nullptr}).status();
}

}  // namespace millrace
