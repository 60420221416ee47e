// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "autodiff/graph_builder.h"
#include "cc/control_flow_context.h"
#include "cc/scope_state.h"
#include "millrace/scope.h"

namespace millrace {

struct OpAttrs::Values {
  static NameAttrList FunctionOf(const FunctionName& function) {
    const Values* const own = function.attrs.values_.get();
    return {function.name, std::make_shared<const AttrMap>(own == nullptr ? AttrMap() : own->map)};
  }

  AttrMap map;
};

OpAttrs::Values& OpAttrs::Own() {
  if (values_ == nullptr) {
    values_ = std::make_shared<Values>();
  } else if (values_.use_count() > 1) {
    values_ = std::make_shared<Values>(*values_);
  }
  return *values_;
}

namespace {
// No op has an attribute of this name, so that OpMaker reports it.
const char* Named(const char* name) { return name == nullptr ? "(null)" : name; }
}  // namespace

void OpAttrs::Set(const char* name, std::string_view value) { Own().map.Set(Named(name), value); }
void OpAttrs::Set(const char* name, int64_t value) { Own().map.Set(Named(name), value); }
void OpAttrs::Set(const char* name, float value) { Own().map.Set(Named(name), value); }
void OpAttrs::Set(const char* name, bool value) { Own().map.Set(Named(name), value); }
void OpAttrs::Set(const char* name, DataType value) { Own().map.Set(Named(name), value); }
void OpAttrs::Set(const char* name, const PartialShape& value) { Own().map.Set(Named(name), value); }
void OpAttrs::Set(const char* name, const Tensor& value) { Own().map.Set(Named(name), value); }
void OpAttrs::Set(const char* name, const std::vector<std::string>& value) {
  Own().map.Set(Named(name), value);
}
void OpAttrs::Set(const char* name, const std::vector<int64_t>& value) { Own().map.Set(Named(name), value); }
void OpAttrs::Set(const char* name, const std::vector<float>& value) { Own().map.Set(Named(name), value); }
void OpAttrs::Set(const char* name, const std::vector<bool>& value) { Own().map.Set(Named(name), value); }
void OpAttrs::Set(const char* name, const std::vector<DataType>& value) { Own().map.Set(Named(name), value); }
void OpAttrs::Set(const char* name, const std::vector<PartialShape>& value) {
  Own().map.Set(Named(name), value);
}
void OpAttrs::Set(const char* name, const std::vector<Tensor>& value) { Own().map.Set(Named(name), value); }
void OpAttrs::Set(const char* name, const FunctionName& value) {
  Own().map.Set(Named(name), Values::FunctionOf(value));
}
void OpAttrs::Set(const char* name, const std::vector<FunctionName>& value) {
  std::vector<NameAttrList> functions;
  functions.reserve(value.size());
  for (const FunctionName& function : value) functions.push_back(Values::FunctionOf(function));
  Own().map.Set(Named(name), std::move(functions));
}

struct OpMaker::Parts {
  std::vector<InputArg> inputs;
  Node* node = nullptr;
  std::vector<ArgRange> outputs;
};

OpMaker::OpMaker(const Scope& scope, std::string_view op, OpAttrs attrs)
    : scope_(scope), op_(op), attrs_(std::move(attrs)), parts_(std::make_unique<Parts>()) {}
OpMaker::~OpMaker() = default;

namespace {

// A literal becomes a constant beside the node that uses it, with no control inputs or name of its own.
Output AsTensor(const Scope& scope, const Input& input) {
  if (input.literal() == nullptr) return input.output();
  return ops::Const(scope.WithOpName("").WithNoControlDependencies().WithNoColocation(), *input.literal());
}

Status CheckInput(const Graph& graph, const Output& tensor) {
  if (!tensor.IsSet()) return errors::InvalidArgument("an input is unset");
  if (&tensor.node->graph() != &graph) {
    return errors::InvalidArgument("input '", tensor.node->name(), "' belongs to another graph");
  }
  if (tensor.index < 0 || tensor.index >= tensor.node->num_outputs()) {
    return errors::OutOfRange("input '", tensor.node->name(), ":", tensor.index, "': the node has ",
                              tensor.node->num_outputs(), " outputs");
  }
  return Status();
}

}  // namespace

void OpMaker::Add(const Input& input) {
  if (!scope_.ok()) return;
  parts_->inputs.push_back({.tensors = {AsTensor(scope_, input)}, .is_list = false});
}

void OpMaker::Add(const InputList& inputs) {
  if (!scope_.ok()) return;
  InputArg argument{.tensors = {}, .is_list = true};
  for (const Input& input : inputs.inputs()) argument.tensors.push_back(AsTensor(scope_, input));
  parts_->inputs.push_back(std::move(argument));
}

Status OpMaker::CaptureInputs(const std::string& name) {
  Scope::State& state = scope_.state();
  Scope::Context* const context = scope_.context_.get();
  if (context == nullptr && state.contexts.empty()) return Status();
  for (const Node* control : scope_.controls_) {
    MR_RETURN_IF_ERROR(state.CheckUse({const_cast<Node*>(control), 0}, context, name));
  }
  for (InputArg& input : parts_->inputs) {
    for (Output& tensor : input.tensors) {
      if (context == nullptr) {
        MR_RETURN_IF_ERROR(state.CheckUse(tensor, nullptr, name));
      } else {
        MR_ASSIGN_OR_RETURN(tensor, context->Capture(tensor, name));
        MR_RETURN_IF_ERROR(state.CheckUse(tensor, context, name));
      }
    }
  }
  return Status();
}

Node* OpMaker::Finish() {
  if (!scope_.ok()) return nullptr;
  Scope::State& state = scope_.state();
  const bool own_name = scope_.op_name_ == "/";
  std::string name = scope_.op_name_.empty() ? std::string(op_) : scope_.op_name_;
  if (own_name) {
    name = scope_.path_;
  } else if (!scope_.path_.empty()) {
    name = StrCat(scope_.path_, "/", name);
  }
  const auto add = [&]() -> StatusOr<Node*> {
    if (state.finalized) {
      return errors::FailedPrecondition("Graph is finalized and cannot be modified.");
    }
    if (!IsValidNodeName(name)) return errors::InvalidArgument("'", name, "' is not a valid node name");
    for (InputArg& input : parts_->inputs) {
      for (Output& tensor : input.tensors) {
        if (state.capture && tensor.IsSet() && &tensor.node->graph() != &state.graph) {
          MR_ASSIGN_OR_RETURN(tensor, state.capture(tensor));
        }
        MR_RETURN_IF_ERROR(CheckInput(state.graph, tensor));
      }
    }
    for (const Node* control : scope_.controls_) {
      if (&control->graph() != &state.graph) {
        return errors::InvalidArgument("control input '", control->name(), "' belongs to another graph");
      }
    }
    AttrMap attrs = attrs_.values_ == nullptr ? AttrMap() : attrs_.values_->map;
    if (!scope_.colocation_.empty() && attrs.Find("_class") == nullptr) {
      attrs.Set("_class", scope_.colocation_);
    }
    if (!own_name || state.graph.FindNode(name) != nullptr) name = state.UniqueName(name);
    MR_RETURN_IF_ERROR(CaptureInputs(name));
    MR_ASSIGN_OR_RETURN(const std::string device, scope_.DeviceOf(op_, attrs));
    MR_ASSIGN_OR_RETURN(Node * node, AddCheckedNode(state.graph, state.shapes, name, op_, parts_->inputs,
                                                    std::move(attrs), device));
    for (Node* control : scope_.controls_) state.graph.AddControlEdge(control, node);
    if (scope_.context_ != nullptr) scope_.context_->Adopt(node);
    return node;
  };
  auto node = add();
  if (!node.ok()) {
    // The texts of shape functions name the node, in TensorFlow's form. A sentence that is continued loses
    // its full stop.
    std::string_view text = node.status().message();
    const bool named = text.find(StrCat("for '", name, "' (op: '")) != text.npos;
    if (!named && text.ends_with('.')) text.remove_suffix(1);
    scope_.UpdateStatus(named ? node.status()
                              : Status(node.status().code(),
                                       StrCat(text, "; while adding node '", name, "' (op: ", op_, ")")));
    return nullptr;
  }
  parts_->node = *node;
  scope_.UpdateStatus(InferArgRanges((*node)->op_def().outputs, (*node)->attrs(), &parts_->outputs));
  return *node;
}

Output OpMaker::output(int argument) const {
  const std::vector<Output> all = outputs(argument);
  return all.empty() ? Output() : all.front();
}

std::vector<Output> OpMaker::outputs(int argument) const {
  std::vector<Output> result;
  if (argument < 0 || argument >= static_cast<int>(parts_->outputs.size())) return result;
  const ArgRange& range = parts_->outputs[static_cast<size_t>(argument)];
  for (int i = range.begin; i < range.end; ++i) result.push_back({parts_->node, i});
  return result;
}

}  // namespace millrace
