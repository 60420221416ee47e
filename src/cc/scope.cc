// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/scope.h"

#include <algorithm>

#include "cc/scope_state.h"
#include "graph/graph_import.h"

namespace millrace {
namespace {

constexpr std::string_view kBeside = "loc:@";

bool IsAlphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// A scope without a name may also take a name that begins with a character allowed only later in node names.
bool HasOnlyNameCharacters(std::string_view name) {
  return std::all_of(name.begin(), name.end(), [](char c) {
    return IsAlphanumeric(c) || std::string_view("_.-/\\").find(c) != std::string_view::npos;
  });
}

}  // namespace

bool IsValidNodeName(std::string_view name) {
  return !name.empty() && (IsAlphanumeric(name[0]) || name[0] == '.') && HasOnlyNameCharacters(name);
}

std::string Scope::State::UniqueName(const std::string& wanted) {
  if (!IsTaken(wanted)) return wanted;
  int& counter = name_counters[wanted];
  std::string name;
  do {
    name = StrCat(wanted, "_", ++counter);
  } while (IsTaken(name));
  return name;
}

Scope Scope::NewRootScope() { return Scope(std::make_shared<State>()); }

Scope Scope::Over(Graph& graph, ShapeRefiner& shapes, std::string path) {
  Scope scope(std::make_shared<State>(graph, shapes));
  scope.path_ = std::move(path);
  return scope;
}

Scope Scope::NewSubScope(std::string_view name) const {
  Scope scope = *this;
  scope.op_name_.clear();
  if (name.empty()) return scope;
  const std::string wanted = path_.empty() ? std::string(name) : StrCat(path_, "/", name);
  if (!IsValidNodeName(wanted)) {
    UpdateStatus(errors::InvalidArgument("'", wanted, "' is not a valid scope name"));
    return scope;
  }
  scope.path_ = state_->UniqueName(wanted);
  state_->scope_names.insert(scope.path_);
  return scope;
}

Scope Scope::WithOpName(std::string_view name) const {
  Scope scope = *this;
  scope.op_name_ = name;
  return scope;
}

Scope Scope::AtRoot() const {
  Scope scope = *this;
  scope.path_.clear();
  scope.op_name_.clear();
  return scope;
}

Scope Scope::WithControlDependencies(const std::vector<Operation>& operations) const {
  Scope scope = *this;
  for (const Operation& operation : operations) {
    if (operation.IsSet()) {
      scope.controls_.push_back(operation.node);
    } else {
      UpdateStatus(errors::InvalidArgument("a control dependency of scope '", path_, "' is unset"));
    }
  }
  return scope;
}

Scope Scope::WithNoControlDependencies() const {
  Scope scope = *this;
  scope.controls_.clear();
  return scope;
}

Scope Scope::WithDevice(std::string_view device) const {
  Scope scope = *this;
  scope.device_ = device;
  return scope;
}

Scope Scope::WithDeviceFunction(DeviceFunction function) const {
  Scope scope = *this;
  scope.device_function_ =
      function == nullptr ? nullptr : std::make_shared<const DeviceFunction>(std::move(function));
  return scope;
}

StatusOr<std::string> Scope::DeviceOf(std::string_view op, const AttrMap& attrs) const {
  if (device_function_ == nullptr) return device_;
  if (!colocation_.empty()) {
    const Node* const beside =
        state_->graph.FindNode(std::string_view(colocation_[0]).substr(kBeside.size()));
    if (beside != nullptr) return beside->requested_device();
  }
  NodeToPlace node{.op = std::string(op), .device = device_, .dtype = DataType::kInvalid, .shape = {}};
  if (const auto dtype = attrs.Get<DataType>("dtype"); dtype.ok()) node.dtype = *dtype;
  if (const auto shape = attrs.Get<PartialShape>("shape"); shape.ok()) node.shape = *shape;
  return (*device_function_)(node);
}

Scope Scope::ColocateWith(const Operation& operation) const {
  Scope scope = *this;
  if (!operation.IsSet()) {
    UpdateStatus(errors::InvalidArgument("the colocation target of scope '", path_, "' is unset"));
    return scope;
  }
  std::string place = StrCat(kBeside, operation.node->name());
  if (std::find(colocation_.begin(), colocation_.end(), place) == colocation_.end()) {
    scope.colocation_.push_back(std::move(place));
    std::sort(scope.colocation_.begin(), scope.colocation_.end());
  }
  return scope;
}

Scope Scope::WithNoColocation() const {
  Scope scope = *this;
  scope.colocation_.clear();
  return scope;
}

Scope Scope::OutsideControlFlow() const {
  Scope scope = WithNoControlDependencies();
  scope.context_ = nullptr;
  return scope;
}

Scope Scope::WithVariableScope(std::shared_ptr<const VariableScope> variables) const {
  Scope scope = *this;
  scope.variable_scope_ = std::move(variables);
  return scope;
}

const Status& Scope::status() const { return state_->status; }
void Scope::UpdateStatus(const Status& error) const { state_->status.Update(error); }
Graph& Scope::graph() const { return state_->graph; }
const std::string& Scope::path() const { return path_; }
const std::string& Scope::op_name() const { return op_name_; }
void Scope::ToGraphDef(tensorflow::GraphDef* def) const {
  if (def == nullptr) return UpdateStatus(errors::InvalidArgument("Scope::ToGraphDef: the graph is null"));
  ExportGraphDef(state_->graph, def);
}

std::string Scope::NameOf(const Output& tensor) {
  if (!tensor.IsSet()) return "";
  return TensorId{tensor.node->name(), tensor.index}.ToString();
}

std::string Scope::NameOf(const Operation& operation) {
  return operation.IsSet() ? operation.node->name() : "";
}

DataType Scope::TypeOf(const Output& tensor) {
  if (!tensor.IsSet() || tensor.index < 0 || tensor.index >= tensor.node->num_outputs()) {
    return DataType::kInvalid;
  }
  return BaseType(tensor.node->output_type(tensor.index));
}

PartialShape Scope::ShapeOf(const Output& tensor) const {
  if (TypeOf(tensor) == DataType::kInvalid) return PartialShape();
  return state_->shapes.OutputShape(*tensor.node, tensor.index);
}

StatusOr<Operation> Scope::FindOperation(std::string_view name) const {
  Node* node = state_->graph.FindNode(name);
  if (node == nullptr) return errors::NotFound("no node '", name, "' in the graph");
  return Operation(node);
}

}  // namespace millrace
