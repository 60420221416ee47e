// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "c/internal.h"
#include "graph/graph_import.h"
#include "tensorflow/core/framework/node_def.pb.h"

using millrace::Edge;
using millrace::MutexLock;
using millrace::Node;
using millrace::Status;
namespace errors = millrace::errors;

namespace millrace::c_api {
namespace {

Mutex& GraphMutex(const Node& node) { return static_cast<TF_Graph*>(node.graph().client())->mu; }

// The number of tensors of an argument; -1 after an error.
int ListLength(TF_Operation* oper, const char* arg_name, bool inputs, TF_Status* status) {
  int length = -1;
  Enter(status, [&]() -> Status {
    if (oper == nullptr || arg_name == nullptr) return NullArgument("The operation or the name");
    const Node& node = *NodeOf(oper);
    std::vector<ArgRange> ranges;
    MR_RETURN_IF_ERROR(
        InferArgRanges(inputs ? node.op_def().inputs : node.op_def().outputs, node.attrs(), &ranges));
    for (const ArgRange& range : ranges) {
      if (range.name != arg_name) continue;
      length = range.end - range.begin;
      return Status();
    }
    return errors::InvalidArgument(inputs ? "Input" : "Output", " arg '", arg_name, "' not found");
  });
  return length;
}

// Calls fn(edge) for the consumers of a tensor, under the mutex of the graph.
template <typename F>
void ForConsumers(const TF_Output& output, F&& fn) {
  if (output.oper == nullptr || output.index < 0) return;
  const Node& node = *NodeOf(output.oper);
  MutexLock lock(GraphMutex(node));
  for (const Edge* edge : node.out_edges()) {
    if (edge->src_output == output.index) fn(*edge);
  }
}

template <typename F>
void ForControlNeighbours(TF_Operation* oper, bool in, F&& fn) {
  if (oper == nullptr) return;
  const Node& node = *NodeOf(oper);
  MutexLock lock(GraphMutex(node));
  for (const Edge* edge : in ? node.control_in_edges() : node.out_edges()) {
    Node* other = in ? edge->src : edge->dst;
    if (edge->IsControl() && other->IsOp()) fn(other);
  }
}

int CountControl(TF_Operation* oper, bool in) {
  int count = 0;
  ForControlNeighbours(oper, in, [&](Node*) { ++count; });
  return count;
}

int CopyControl(TF_Operation* oper, bool in, TF_Operation** result, int max) {
  int count = 0;
  ForControlNeighbours(oper, in, [&](Node* node) {
    if (count < max && result != nullptr) result[count] = OperationOf(node);
    ++count;
  });
  return count;
}

}  // namespace
}  // namespace millrace::c_api

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): entry points of this library

const char* TF_OperationName(TF_Operation* oper) {
  return oper == nullptr ? nullptr : NodeOf(oper)->name().c_str();
}

const char* TF_OperationOpType(TF_Operation* oper) {
  return oper == nullptr ? nullptr : NodeOf(oper)->op_name().c_str();
}

const char* TF_OperationDevice(TF_Operation* oper) {
  return oper == nullptr ? nullptr : NodeOf(oper)->requested_device().c_str();
}

int TF_OperationNumOutputs(TF_Operation* oper) { return oper == nullptr ? 0 : NodeOf(oper)->num_outputs(); }

TF_DataType TF_OperationOutputType(TF_Output oper_out) {
  if (!CheckOutput(nullptr, oper_out).ok()) return static_cast<TF_DataType>(0);
  return static_cast<TF_DataType>(NodeOf(oper_out.oper)->output_type(oper_out.index));
}

int TF_OperationOutputListLength(TF_Operation* oper, const char* arg_name, TF_Status* status) {
  return ListLength(oper, arg_name, /*inputs=*/false, status);
}

int TF_OperationNumInputs(TF_Operation* oper) { return oper == nullptr ? 0 : NodeOf(oper)->num_inputs(); }

TF_DataType TF_OperationInputType(TF_Input oper_in) {
  if (oper_in.index < 0 || oper_in.index >= TF_OperationNumInputs(oper_in.oper)) {
    return static_cast<TF_DataType>(0);
  }
  return static_cast<TF_DataType>(NodeOf(oper_in.oper)->input_type(oper_in.index));
}

int TF_OperationInputListLength(TF_Operation* oper, const char* arg_name, TF_Status* status) {
  return ListLength(oper, arg_name, /*inputs=*/true, status);
}

TF_Output TF_OperationInput(TF_Input oper_in) {
  if (oper_in.index < 0 || oper_in.index >= TF_OperationNumInputs(oper_in.oper)) return {nullptr, -1};
  const Node& node = *NodeOf(oper_in.oper);
  MutexLock lock(GraphMutex(node));
  const Edge* edge = node.in_edges()[static_cast<size_t>(oper_in.index)];
  return edge == nullptr ? TF_Output{nullptr, -1} : TF_Output{OperationOf(edge->src), edge->src_output};
}

int TF_OperationOutputNumConsumers(TF_Output oper_out) {
  int count = 0;
  ForConsumers(oper_out, [&](const Edge&) { ++count; });
  return count;
}

int TF_OperationOutputConsumers(TF_Output oper_out, TF_Input* consumers, int max_consumers) {
  int count = 0;
  ForConsumers(oper_out, [&](const Edge& edge) {
    if (count < max_consumers && consumers != nullptr) {
      consumers[count] = {OperationOf(edge.dst), edge.dst_input};
    }
    ++count;
  });
  return count;
}

int TF_OperationNumControlInputs(TF_Operation* oper) { return CountControl(oper, true); }

int TF_OperationGetControlInputs(TF_Operation* oper, TF_Operation** control_inputs, int max_control_inputs) {
  return CopyControl(oper, true, control_inputs, max_control_inputs);
}

int TF_OperationNumControlOutputs(TF_Operation* oper) { return CountControl(oper, false); }

int TF_OperationGetControlOutputs(TF_Operation* oper, TF_Operation** control_outputs,
                                  int max_control_outputs) {
  return CopyControl(oper, false, control_outputs, max_control_outputs);
}

void TF_OperationToNodeDef(TF_Operation* oper, TF_Buffer* output_node_def, TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (oper == nullptr) return NullArgument("The operation");
    const Node& node = *NodeOf(oper);
    tensorflow::NodeDef def;
    {
      MutexLock lock(GraphMutex(node));
      millrace::ExportNodeDef(node, &def);
    }
    return ToBuffer(def, output_node_def);
  });
}
