// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <climits>

#include "cli/trace/trace_reader.h"
#include "cli/trace/wire.h"
#include "proto/message_types.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace::cli {
namespace {

constexpr uint32_t kRunMetadataPartitionGraph = 3;
constexpr uint32_t kGraphNode = 1;
constexpr uint32_t kNodeName = 1, kNodeOp = 2, kNodeInput = 3, kNodeDevice = 4, kNodeAttr = 5;
constexpr size_t kMostGraphNodes = 4'000'000;

bool IsSend(std::string_view op) { return op == "_Send" || op == "_HostSend"; }
bool IsRecv(std::string_view op) { return op == "_Recv" || op == "_HostRecv"; }

// Identifies a transfer on both sides.
Status ReadTransferKey(std::string_view node_bytes, std::string* key) {
  constexpr size_t kMostBytes = size_t{1} << 16;
  if (node_bytes.size() > kMostBytes) return errors::ResourceExhausted("a transfer node is too large");
  tensorflow::NodeDef node;
  if (!node.ParseFromArray(node_bytes.data(), static_cast<int>(node_bytes.size()))) {
    return errors::DataLoss("malformed message: a node of a graph");
  }
  for (const char* const attr : {"send_device", "recv_device", "tensor_name"}) {
    const auto it = node.attr().find(attr);
    if (it != node.attr().end()) *key += it->second.s();
    *key += ';';
  }
  return Status();
}

Status ReadNode(std::string_view bytes, DependencyGraph* graph) {
  if (graph->size() >= kMostGraphNodes)
    return errors::ResourceExhausted("more than ", kMostGraphNodes, " nodes");
  std::string_view name, op, device;
  MR_RETURN_IF_ERROR(ForEachField(bytes, [&](uint32_t number, std::string_view field) {
    if (number == kNodeName) name = field;
    if (number == kNodeOp) op = field;
    if (number == kNodeDevice) device = field;
    return Status();
  }));
  const int32_t node = graph->AddNode(name, op, device);
  MR_RETURN_IF_ERROR(ForEachField(bytes, [&](uint32_t number, std::string_view field) {
    if (number == kNodeInput) graph->AddInput(node, field);
    return Status();
  }));
  if (!IsSend(op) && !IsRecv(op)) return Status();
  std::string key;
  MR_RETURN_IF_ERROR(ReadTransferKey(bytes, &key));
  if (IsSend(op)) {
    graph->AddSend(node, std::move(key));
  } else {
    graph->AddRecv(node, std::move(key));
  }
  return Status();
}

Status ReadGraph(std::string_view bytes, DependencyGraph* graph) {
  MR_RETURN_IF_ERROR(ForEachField(bytes, [&](uint32_t number, std::string_view field) {
    return number == kGraphNode ? ReadNode(field, graph) : Status();
  }));
  graph->FinishGraph();
  return Status();
}

Status ReadGraphText(std::string_view text, DependencyGraph* graph) {
  tensorflow::GraphDef def;
  TextError error;
  if (!ParseMessageText(text, UnknownFields::kSkipped, &def, &error)) {
    return errors::InvalidArgument("not a GraphDef, neither serialised nor as text: ", error.ToString());
  }
  std::string bytes;
  if (def.ByteSizeLong() > INT_MAX || !def.SerializeToString(&bytes)) {
    return errors::ResourceExhausted("a graph of more than 2 GiB");
  }
  return ReadGraph(bytes, graph);
}

}  // namespace

Status ReadPartitionGraphs(std::string_view run_metadata, DependencyGraph* graph) {
  MR_RETURN_IF_ERROR(ForEachField(run_metadata, [&](uint32_t number, std::string_view field) {
    return number == kRunMetadataPartitionGraph ? ReadGraph(field, graph) : Status();
  }));
  graph->FinishTransfers();
  return Status();
}

Status ReadGraphFile(std::string_view bytes, DependencyGraph* graph) {
  DependencyGraph read;
  // A text is rarely a valid message, and never one with nodes.
  if (Status status = ReadGraph(bytes, &read); !status.ok() || read.empty()) {
    read = DependencyGraph();
    if (status.code() == ErrorCode::kResourceExhausted) return status;
    MR_RETURN_IF_ERROR(ReadGraphText(bytes, &read));
  }
  if (read.empty()) return errors::InvalidArgument("a graph without nodes");
  read.FinishTransfers();
  *graph = std::move(read);
  return Status();
}

}  // namespace millrace::cli
