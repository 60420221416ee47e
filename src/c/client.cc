// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/c/client.h"

#include "c/session.h"
#include "op/attr_codec.h"
#include "tensorflow/core/framework/attr_value.pb.h"

using millrace::DataType;
using millrace::Edge;
using millrace::MutexLock;
using millrace::Node;
using millrace::PartialShape;
using millrace::Status;
namespace errors = millrace::errors;

namespace millrace::c_api {
namespace {

Status CheckOperation(const TF_Graph* graph, TF_Operation* op) {
  if (graph == nullptr || op == nullptr) return NullArgument("The graph or the operation");
  const Node& node = *NodeOf(op);
  if (&node.graph() != &graph->graph) {
    return errors::InvalidArgument("Node ", node.name(), " was not found in the graph");
  }
  return Status();
}

// Runs `change` on a node of the graph with the mutex held, which the analysis of locks does not see inside
// it.
template <typename F>
void ChangeNode(TF_Graph* graph, TF_Operation* op, TF_Status* status, F&& change) {
  Enter(status, [&]() -> Status {
    MR_RETURN_IF_ERROR(CheckOperation(graph, op));
    MutexLock lock(graph->mu);
    graph->AwaitTurn();
    return change(*NodeOf(op));
  });
}

// Whether `from` needs what `to` computes, back edges of loops aside.
bool Reaches(const Node& from, const Node& to, int num_ids) {
  std::vector<bool> seen(static_cast<size_t>(num_ids), false);
  std::vector<const Node*> stack = {&from};
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    if (node == &to) return true;
    if (seen[static_cast<size_t>(node->id())]) continue;
    seen[static_cast<size_t>(node->id())] = true;
    for (const Edge* edge : node->in_edges()) {
      if (edge != nullptr && !IsLoopBackEdge(*edge)) stack.push_back(edge->src);
    }
  }
  return false;
}

Status CheckNewInput(const TF_Graph& graph, const TF_Output& src, Node& dst, int input)
    MR_REQUIRES(graph.mu) {
  MR_RETURN_IF_ERROR(CheckOutput(&graph.graph, src));
  if (input < 0 || input >= dst.num_inputs()) {
    return errors::OutOfRange("Node '", dst.name(), "' (type: '", dst.op_name(),
                              "', num of inputs: ", dst.num_inputs(), ") does not have input ", input);
  }
  const DataType given = NodeOf(src.oper)->output_type(src.index);
  const DataType wanted = dst.input_type(input);
  if (given != wanted && (IsRefType(wanted) || BaseType(given) != wanted)) {
    return errors::InvalidArgument("Input ", input, " of node ", dst.name(), " was passed ",
                                   DataTypeName(given), " from ", NodeOf(src.oper)->name(), ":", src.index,
                                   " incompatible with expected ", DataTypeName(wanted), ".");
  }
  const Node& from = *NodeOf(src.oper);
  Edge edge;
  edge.src = NodeOf(src.oper);
  edge.dst = &dst;
  if (!IsLoopBackEdge(edge) && Reaches(from, dst, graph.graph.num_node_ids())) {
    return errors::InvalidArgument("Input ", input, " of node ", dst.name(), " cannot be ", from.name(), ":",
                                   src.index, ": that would close a cycle");
  }
  return Status();
}

// A longer list of types must not declare inputs that are not connected.
Status CheckNoMoreInputs(const Node& node, std::string_view attr_name, const millrace::AttrValue& value) {
  AttrMap attrs = node.attrs();
  attrs.Set(attr_name, value);
  const auto props = NodeProps::Make(node.op(), std::move(attrs));
  if (!props.ok() || (*props)->input_types.size() <= static_cast<size_t>(node.num_inputs())) return Status();
  return errors::InvalidArgument("Attribute '", attr_name, "' of node '", node.name(), "' requires ",
                                 (*props)->input_types.size(), " inputs, but the node has ",
                                 node.num_inputs());
}

}  // namespace
}  // namespace millrace::c_api

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): entry points of this library

void Millrace_AddControlInput(TF_Graph* graph, TF_Operation* op, TF_Operation* input, TF_Status* status) {
  ChangeNode(graph, op, status, [&](Node& node) MR_NO_THREAD_SAFETY_ANALYSIS -> Status {
    MR_RETURN_IF_ERROR(CheckOperation(graph, input));
    graph->graph.AddControlEdge(NodeOf(input), &node);
    return Status();
  });
}

void Millrace_RemoveAllControlInputs(TF_Graph* graph, TF_Operation* op, TF_Status* status) {
  ChangeNode(graph, op, status, [&](Node& node) MR_NO_THREAD_SAFETY_ANALYSIS {
    const auto controls = node.control_in_edges();
    for (Edge* edge : std::vector<Edge*>(controls.begin(), controls.end())) {
      if (!edge->src->IsSource()) graph->graph.RemoveEdge(edge);
    }
    return Status();
  });
}

void Millrace_SetAttr(TF_Graph* graph, TF_Operation* op, const char* attr_name, const void* proto,
                      size_t proto_len, TF_Status* status) {
  ChangeNode(graph, op, status, [&](Node& node) MR_NO_THREAD_SAFETY_ANALYSIS -> Status {
    if (attr_name == nullptr) return NullArgument("The name");
    tensorflow::AttrValue value;
    if (!Parse(proto, proto_len, &value)) return errors::InvalidArgument("Unparseable AttrValue proto");
    MR_ASSIGN_OR_RETURN(millrace::AttrValue attr, millrace::AttrValueFromProto(value, attr_name));
    graph->refiner.ForgetLast();
    const int outputs = node.num_outputs();
    if (attr.As<std::vector<DataType>>() != nullptr)
      MR_RETURN_IF_ERROR(CheckNoMoreInputs(node, attr_name, attr));
    node.SetAttr(attr_name, std::move(attr));
    return node.num_outputs() == outputs ? Status() : graph->refiner.AddNode(node);
  });
}

void Millrace_ClearAttr(TF_Graph* graph, TF_Operation* op, const char* attr_name, TF_Status* status) {
  ChangeNode(graph, op, status, [&](Node& node) MR_NO_THREAD_SAFETY_ANALYSIS -> Status {
    if (attr_name == nullptr) return NullArgument("The name");
    graph->refiner.ForgetLast();
    node.EraseAttr(attr_name);
    return Status();
  });
}

void Millrace_SetRequestedDevice(TF_Graph* graph, TF_Operation* op, const char* device, TF_Status* status) {
  ChangeNode(graph, op, status, [&](Node& node) {
    node.set_requested_device(OrEmpty(device));
    return Status();
  });
}

void Millrace_UpdateInput(TF_Graph* graph, TF_Output new_src, TF_Input dst, TF_Status* status) {
  ChangeNode(graph, dst.oper, status, [&](Node& node) MR_NO_THREAD_SAFETY_ANALYSIS -> Status {
    MR_RETURN_IF_ERROR(CheckNewInput(*graph, new_src, node, dst.index));
    graph->refiner.ForgetLast();
    graph->graph.UpdateInput(&node, dst.index, NodeOf(new_src.oper), new_src.index);
    return Status();
  });
}

int Millrace_OperationId(const TF_Operation* op) { return op == nullptr ? -1 : NodeOf(op)->id(); }

int Millrace_GraphNumIds(TF_Graph* graph) {
  return graph == nullptr ? 0 : graph->num_node_ids.load(std::memory_order_acquire);
}

TF_Operation* Millrace_OperationOfId(TF_Graph* graph, int id) {
  if (graph == nullptr || id < 2) return nullptr;
  MutexLock lock(graph->mu);
  return id < graph->graph.num_node_ids() ? OperationOf(graph->graph.node(id)) : nullptr;
}

unsigned char Millrace_GetHandleShapeAndType(TF_Graph* graph, TF_Output output, TF_DataType* dtype,
                                             int64_t* dims, int max_dims, int* num_dims) {
  return EnterOr<unsigned char>(0, [&]() -> unsigned char {
    if (graph == nullptr || dtype == nullptr || num_dims == nullptr) return 0;
    MutexLock lock(graph->mu);
    if (!CheckOutput(&graph->graph, output).ok()) return 0;
    PartialShape shape;
    DataType type = DataType::kInvalid;
    if (!graph->refiner.OutputHandle(*NodeOf(output.oper), output.index, &shape, &type)) return 0;
    *dtype = static_cast<TF_DataType>(type);
    *num_dims = shape.rank();
    for (int i = 0; dims != nullptr && i < shape.rank() && i < max_dims; ++i) dims[i] = shape.dim(i);
    return 1;
  });
}

void Millrace_SetHandleShapeAndType(TF_Graph* graph, TF_Output output, TF_DataType dtype, const int64_t* dims,
                                    int num_dims, TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (graph == nullptr) return NullArgument("The graph");
    MR_ASSIGN_OR_RETURN(PartialShape shape, MakeShape(dims, num_dims));
    MutexLock lock(graph->mu);
    graph->AwaitTurn();
    MR_RETURN_IF_ERROR(CheckOutput(&graph->graph, output));
    graph->refiner.SetOutputHandle(*NodeOf(output.oper), output.index, shape, TypeOf(dtype));
    return Status();
  });
}

void Millrace_SetMinConsumer(TF_Graph* graph, int min_consumer) {
  if (graph == nullptr) return;
  MutexLock lock(graph->mu);
  graph->AwaitTurn();
  millrace::GraphVersions versions = graph->graph.versions();
  versions.min_consumer = min_consumer;
  graph->graph.set_versions(std::move(versions));
}

void Millrace_ExtendSession(TF_Session* session, TF_Status* status) {
  Enter(status, [&] { return session == nullptr ? NullArgument("The session") : ExtendSession(*session); });
}

int Millrace_SessionNumIds(const TF_Session* session) {
  return session == nullptr ? 0 : session->seen_node_ids.load(std::memory_order_acquire);
}

void Millrace_CancelSteps(TF_Session* session) {
  if (session != nullptr) session->session->CancelSteps();
}
