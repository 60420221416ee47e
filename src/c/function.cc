// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "c/function.h"

#include <algorithm>
#include <set>

#include "graph/function_body.h"
#include "graph/function_library.h"
#include "tensorflow/core/framework/function.pb.h"

TF_Function::TF_Function() : def(std::make_unique<tensorflow::FunctionDef>()) {}
TF_Function::~TF_Function() = default;

using millrace::FunctionParts;
using millrace::MutexLock;
using millrace::Status;
namespace errors = millrace::errors;

namespace millrace::c_api {
namespace {

Status CheckTensor(const Graph& graph, const TF_Output& tensor) {
  if (tensor.oper == nullptr) return errors::InvalidArgument("Node is null");
  const Node& node = *NodeOf(tensor.oper);
  if (&node.graph() != &graph) {
    return errors::InvalidArgument(
        "Node with id ", node.id(),
        " is different from the passed in node. Does it belong to a different graph?");
  }
  if (tensor.index >= 0 && tensor.index < node.num_outputs()) return Status();
  return errors::OutOfRange("Node '", node.name(), "' (type: '", node.op_name(),
                            "', num of outputs: ", node.num_outputs(), ") does not have output ",
                            tensor.index);
}

// A tensor of the graph that is no reference.
Status CheckEnd(const Graph& graph, const TF_Output& tensor, const char* kind, int i,
                const std::string& function) {
  Status status = CheckTensor(graph, tensor);
  if (status.ok() && IsRefType(NodeOf(tensor.oper)->output_type(tensor.index))) {
    const Node& node = *NodeOf(tensor.oper);
    status = errors::InvalidArgument("Output ", tensor.index, " of node '", node.name(),
                                     "' has a reference type ", DataTypeName(node.output_type(tensor.index)));
  }
  return status.WithContext(
      StrCat("\n\tEncountered while processing ", kind, " ", i, " into function '", function, "'"));
}

struct FunctionCall {
  int num_opers;
  const TF_Operation* const* opers;
  int ninputs;
  const TF_Output* inputs;
  int noutputs;
  const TF_Output* outputs;
  const char* const* output_names;
  int ncontrols;
  const TF_Operation* const* controls;
  const char* const* control_names;
};

Status CheckCall(const FunctionCall& call) {
  if (call.ninputs < 0 || call.noutputs < 0 || call.ncontrols < 0 || call.num_opers < -1) {
    return errors::InvalidArgument("The number of inputs, outputs or operations is negative");
  }
  if ((call.ninputs > 0 && call.inputs == nullptr) || (call.noutputs > 0 && call.outputs == nullptr) ||
      (call.ncontrols > 0 && call.controls == nullptr) || (call.num_opers > 0 && call.opers == nullptr)) {
    return NullArgument("An array of inputs, outputs or operations");
  }
  return Status();
}

Status ReadEnds(const Graph& graph, const FunctionCall& call, FunctionParts* parts) {
  std::set<std::pair<const Node*, int>> seen;
  for (int i = 0; i < call.ninputs; ++i) {
    const TF_Output& input = call.inputs[i];
    MR_RETURN_IF_ERROR(CheckEnd(graph, input, "input", i, parts->name));
    Node* node = NodeOf(input.oper);
    if (!seen.insert({node, input.index}).second) {
      return errors::InvalidArgument("TF_Output ", node->name(), ":", input.index,
                                     " appears more than once in the input list");
    }
    parts->inputs.push_back({node, input.index});
  }
  for (int i = 0; i < call.noutputs; ++i) {
    MR_RETURN_IF_ERROR(CheckEnd(graph, call.outputs[i], "output", i, parts->name));
    parts->outputs.push_back({NodeOf(call.outputs[i].oper), call.outputs[i].index});
  }
  if (call.output_names != nullptr) {
    MR_ASSIGN_OR_RETURN(parts->output_names, NamesOf(call.output_names, call.noutputs));
  }
  for (int i = 0; i < call.ncontrols; ++i) {
    if (call.controls[i] == nullptr) return NullArgument("A control output");
    parts->controls.push_back(NodeOf(call.controls[i]));
  }
  if (call.control_names != nullptr) {
    MR_ASSIGN_OR_RETURN(parts->control_names, NamesOf(call.control_names, call.ncontrols));
  }
  return Status();
}

Status ReadBody(const Graph& graph, const FunctionCall& call, FunctionParts* parts) {
  std::set<const Node*> inputs;
  for (const Output& input : parts->inputs) inputs.insert(input.node);
  if (call.num_opers >= 0) {
    for (int i = 0; i < call.num_opers; ++i) {
      const Node* node = NodeOf(call.opers[i]);
      if (node == nullptr || &node->graph() != &graph) {
        return errors::InvalidArgument("Operation ", i, " of the body is not in the graph");
      }
      parts->body.push_back(node);
    }
    return Status();
  }
  for (const Node* node : graph.OpNodes()) {
    if (!inputs.contains(node)) {
      parts->body.push_back(node);
    } else if (node->num_outputs() != 1) {
      return errors::InvalidArgument(
          "When `num_opers` is set to -1, nodes referenced in `inputs` must have a single output. Node ",
          node->name(), " has ", node->num_outputs(), " outputs. Encountered while creating function '",
          parts->name, "'");
    }
  }
  return Status();
}

// Adds functions to a graph; the graph is unchanged on error.
Status AddFunctions(Graph& graph, const tensorflow::FunctionDefLibrary& library) {
  const FunctionLibrary before = graph.functions();
  Status status = graph.functions().AddLibrary(library);
  for (const tensorflow::FunctionDef& def : library.function()) {
    if (!status.ok()) break;
    const std::string& name = def.signature().name();
    if (before.Find(name) != nullptr) continue;
    if (graph.ops().LookUp(name).ok()) {
      status = errors::InvalidArgument("Cannot add function '", name,
                                       "' because an op with the same name already exists.");
      break;
    }
    status = ValidateFunction(graph.functions(), graph.ops(), def);
    // Functions that it calls may follow.
    if (status.code() == ErrorCode::kNotFound) status = Status();
  }
  if (!status.ok()) graph.functions() = before;
  return status;
}

}  // namespace
}  // namespace millrace::c_api

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): entry points of this library

TF_Function* TF_GraphToFunctionWithControlOutputs(
    const TF_Graph* fn_body, const char* fn_name, unsigned char append_hash_to_fn_name, int num_opers,
    const TF_Operation* const* opers, int ninputs, const TF_Output* inputs, int noutputs,
    const TF_Output* outputs, const char* const* output_names, int ncontrol_outputs,
    const TF_Operation* const* control_outputs, const char* const* control_output_names,
    const TF_FunctionOptions* /*opts*/, const char* description, TF_Status* status) {
  TF_Function* result = nullptr;
  Enter(status, [&]() -> Status {
    if (fn_body == nullptr || fn_name == nullptr) return NullArgument("The graph or the name");
    const FunctionCall call = {
        num_opers, opers,        ninputs,          inputs,          noutputs,
        outputs,   output_names, ncontrol_outputs, control_outputs, control_output_names};
    MR_RETURN_IF_ERROR(CheckCall(call));
    FunctionParts parts;
    parts.name = fn_name;
    parts.description = OrEmpty(description);
    parts.append_hash = append_hash_to_fn_name != 0;
    auto function = std::make_unique<TF_Function>();
    MutexLock lock(const_cast<TF_Graph*>(fn_body)->mu);
    MR_RETURN_IF_ERROR(ReadEnds(fn_body->graph, call, &parts));
    MR_RETURN_IF_ERROR(ReadBody(fn_body->graph, call, &parts));
    MR_RETURN_IF_ERROR(WriteFunction(parts, function->def.get()));
    result = function.release();
    return Status();
  });
  return result;
}

TF_Function* TF_GraphToFunction(const TF_Graph* fn_body, const char* fn_name,
                                unsigned char append_hash_to_fn_name, int num_opers,
                                const TF_Operation* const* opers, int ninputs, const TF_Output* inputs,
                                int noutputs, const TF_Output* outputs, const char* const* output_names,
                                const TF_FunctionOptions* opts, const char* description, TF_Status* status) {
  return TF_GraphToFunctionWithControlOutputs(fn_body, fn_name, append_hash_to_fn_name, num_opers, opers,
                                              ninputs, inputs, noutputs, outputs, output_names, 0, nullptr,
                                              nullptr, opts, description, status);
}

const char* TF_FunctionName(TF_Function* func) {
  return func == nullptr ? nullptr : func->def->signature().name().c_str();
}

void TF_GraphCopyFunction(TF_Graph* g, const TF_Function* func, const TF_Function* grad, TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (g == nullptr) return NullArgument("The graph");
    if (func == nullptr) {
      return errors::InvalidArgument("'func' argument to TF_GraphCopyFunction cannot be null");
    }
    tensorflow::FunctionDefLibrary library;
    *library.add_function() = *func->def;
    if (grad != nullptr) {
      *library.add_function() = *grad->def;
      tensorflow::GradientDef* gradient = library.add_gradient();
      gradient->set_function_name(func->def->signature().name());
      gradient->set_gradient_func(grad->def->signature().name());
    }
    MutexLock lock(g->mu);
    return AddFunctions(g->graph, library);
  });
}

int TF_GraphNumFunctions(TF_Graph* g) {
  if (g == nullptr) return 0;
  return EnterOr(0, [&] {
    MutexLock lock(g->mu);
    return static_cast<int>(g->graph.functions().Names().size());
  });
}

int TF_GraphGetFunctions(TF_Graph* g, TF_Function** funcs, int max_func, TF_Status* status) {
  std::vector<std::unique_ptr<TF_Function>> found;
  const bool ok = Enter(status, [&]() -> Status {
    if (g == nullptr) return NullArgument("The graph");
    if (max_func > 0 && funcs == nullptr) return NullArgument("The array of functions");
    MutexLock lock(g->mu);
    for (const std::string& name : g->graph.functions().Names()) {
      if (static_cast<int>(found.size()) >= max_func) break;
      found.push_back(std::make_unique<TF_Function>());
      *found.back()->def = *g->graph.functions().Find(name);
    }
    return Status();
  });
  if (!ok) return 0;
  for (size_t i = 0; i < found.size(); ++i) funcs[i] = found[i].release();
  return static_cast<int>(found.size());
}

void TF_FunctionToFunctionDef(TF_Function* func, TF_Buffer* output_func_def, TF_Status* status) {
  Enter(status, [&] {
    return func == nullptr ? NullArgument("The function") : ToBuffer(*func->def, output_func_def);
  });
}

TF_Function* TF_FunctionImportFunctionDef(const void* proto, size_t proto_len, TF_Status* status) {
  TF_Function* result = nullptr;
  Enter(status, [&]() -> Status {
    auto function = std::make_unique<TF_Function>();
    if (!Parse(proto, proto_len, function->def.get())) {
      return errors::InvalidArgument("Invalid FunctionDef given to TF_FunctionImportFunctionDef");
    }
    result = function.release();
    return Status();
  });
  return result;
}

void TF_FunctionSetAttrValueProto(TF_Function* func, const char* attr_name, const void* proto,
                                  size_t proto_len, TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (func == nullptr || attr_name == nullptr) return NullArgument("The function or the name");
    tensorflow::AttrValue value;
    if (!Parse(proto, proto_len, &value)) {
      return errors::InvalidArgument("Unparseable AttrValue proto passed to TF_FunctionSetAttrValueProto");
    }
    (*func->def->mutable_attr())[attr_name] = value;
    return Status();
  });
}

void TF_FunctionGetAttrValueProto(TF_Function* func, const char* attr_name, TF_Buffer* output_attr_value,
                                  TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (func == nullptr || attr_name == nullptr) return NullArgument("The function or the name");
    const auto found = func->def->attr().find(attr_name);
    if (found == func->def->attr().end()) {
      return errors::InvalidArgument("Function '", func->def->signature().name(), "' has no attr named '",
                                     attr_name, "'.");
    }
    return ToBuffer(found->second, output_attr_value);
  });
}

void TF_DeleteFunction(TF_Function* func) { delete func; }
