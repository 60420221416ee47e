// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/functions.h"

#include "cc/scope_state.h"
#include "graph/function_library.h"
#include "graph/function_writer.h"
#include "millrace/ops.h"
#include "tensorflow/core/framework/function.pb.h"

namespace millrace {
namespace {

Status Write(const Scope& scope, const Scope& inner, FunctionParts parts, GraphFunction* function) {
  MR_RETURN_IF_ERROR(scope.status());
  MR_RETURN_IF_ERROR(inner.status());
  for (const Output& output : parts.outputs) {
    if (!output.IsSet()) return errors::InvalidArgument("a result of function '", parts.name, "' is unset");
    function->types.push_back(Scope::TypeOf(output));
    function->shapes.push_back(inner.ShapeOf(output));
  }
  for (const Node* node : inner.graph().OpNodes()) {
    function->is_stateful |= node->op_def().is_stateful;
    const auto is_input = [&](const Output& input) { return input.node == node; };
    if (std::none_of(parts.inputs.begin(), parts.inputs.end(), is_input)) {
      parts.body.push_back(node);
      // Nodes with side effects run in every call, even if no result is used.
      if (node->op_def().is_stateful && node->num_outputs() == 0) {
        parts.controls.push_back(node);
        parts.control_names.push_back(node->name());
      }
    }
  }
  parts.append_hash = true;
  tensorflow::FunctionDef def;
  MR_RETURN_IF_ERROR(WriteFunction(parts, &def));
  MR_RETURN_IF_ERROR(scope.graph().functions().Merge(inner.graph().functions()));
  MR_RETURN_IF_ERROR(scope.graph().functions().Add(def));
  function->name.name = def.signature().name();
  return Status();
}

}  // namespace

GraphFunction MakeGraphFunction(const Scope& scope, const std::string& name,
                                const std::vector<DataType>& types, const std::vector<PartialShape>& shapes,
                                const FunctionBodyFn& body) {
  GraphFunction function;
  if (!scope.ok()) return function;
  if (name.empty()) scope.UpdateStatus(errors::InvalidArgument("MakeGraphFunction: a function has no name"));
  if (!scope.ok()) return function;
  if (body == nullptr || (!shapes.empty() && shapes.size() != types.size())) {
    scope.UpdateStatus(body == nullptr
                           ? errors::InvalidArgument("The function '", name, "' has no body")
                           : errors::InvalidArgument("The function '", name, "' has ", types.size(),
                                                     " types of arguments and ", shapes.size(), " shapes"));
    return function;
  }
  function.argument_types = types;
  const Scope inner = Scope::NewRootScope();
  inner.state().random_seed = scope.state().random_seed;
  FunctionParts parts;
  parts.name = name;
  const auto add_parameter = [&](DataType type, const PartialShape& shape) {
    return Output(ops::Placeholder(inner.WithOpName("arg"), type, ops::Placeholder::Shape(shape)));
  };
  for (size_t i = 0; i < types.size(); ++i)
    parts.inputs.push_back(add_parameter(types[i], shapes.empty() ? PartialShape() : shapes[i]));
  const std::vector<Output> arguments = parts.inputs;
  inner.state().capture = [&](const Output& tensor) -> StatusOr<Output> {
    const auto& captured = function.captured;
    const auto found = std::find(captured.begin(), captured.end(), tensor);
    const auto at = static_cast<size_t>(found - captured.begin());
    if (found != captured.end()) return parts.inputs[types.size() + at];
    Output outer = tensor;
    if (&tensor.node->graph() != &scope.graph()) {
      if (!scope.state().capture) {
        return errors::InvalidArgument("'", tensor.node->name(), "' belongs to another graph");
      }
      MR_ASSIGN_OR_RETURN(outer, scope.state().capture(tensor));
    }
    if (IsRefType(tensor.node->output_type(tensor.index))) {
      return errors::InvalidArgument("a function can't take '", tensor.node->name(), "', a reference");
    }
    const Output parameter = add_parameter(Scope::TypeOf(outer), scope.ShapeOf(outer));
    MR_RETURN_IF_ERROR(inner.status());
    parts.inputs.push_back(parameter);
    function.captured.push_back(outer);
    return parameter;
  };
  parts.outputs = body(inner, arguments);
  for (Output& output : parts.outputs) {
    // A result that is captured or a parameter passes through a node.
    if (output.IsSet()) output = ops::Identity(inner, output);
  }
  inner.state().capture = nullptr;
  const Status status = Write(scope, inner, parts, &function);
  if (!status.ok()) {
    scope.UpdateStatus(status.WithContext(StrCat("; in function '", name, "'")));
    // Calls then return as many unset outputs.
    function = {};
    function.types.resize(parts.outputs.size(), DataType::kInvalid);
    function.shapes.resize(parts.outputs.size());
  }
  return function;
}

std::vector<Output> CallFunction(const Scope& scope, const GraphFunction& function,
                                 const std::vector<Input>& arguments) {
  std::vector<Output> results(function.types.size());
  if (!scope.ok()) return results;
  std::vector<Input> inputs;
  Status wrong =
      !function.IsSet() ? errors::InvalidArgument("CallFunction: the function is unset")
      : arguments.size() != function.argument_types.size()
          ? errors::InvalidArgument("The function '", function.name.name, "' takes ",
                                    function.argument_types.size(), " arguments, got ", arguments.size())
          : Status();
  for (size_t i = 0; i < arguments.size() && wrong.ok(); ++i) {
    const Literal* const literal = arguments[i].literal();
    const DataType type =
        literal != nullptr ? literal->tensor().dtype() : Scope::TypeOf(arguments[i].output());
    if (type != function.argument_types[i]) {
      wrong = errors::InvalidArgument("Argument ", i, " of the function '", function.name.name, "' is ",
                                      function.argument_types[i], ", got ", type);
    }
    inputs.push_back(arguments[i]);
  }
  scope.UpdateStatus(wrong);
  if (!wrong.ok()) return results;
  inputs.insert(inputs.end(), function.captured.begin(), function.captured.end());
  const std::string& name = scope.op_name();
  // Two calls of a stateless function with equal arguments are computed once.
  OpMaker maker(name.empty() ? scope.WithOpName("call") : scope,
                function.is_stateful ? "StatefulPartitionedCall" : "PartitionedCall", {});
  maker.Add(InputList(std::move(inputs)));
  maker.SetAttr("Tout", function.types);
  maker.SetAttr("f", function.name);
  Node* const node = maker.Finish();
  for (size_t i = 0; i < results.size() && node != nullptr; ++i) {
    results[i] = {node, static_cast<int>(i)};
    scope.UpdateStatus(scope.state().shapes.MergeOutput(*node, static_cast<int>(i), function.shapes[i]));
  }
  return results;
}

}  // namespace millrace
