// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/partition/partition.h"

#include <atomic>
#include <map>
#include <unordered_map>
#include <utility>

#include "compile/partition/control_loops.h"
#include "device/device_name.h"
#include "graph/function_names.h"
#include "millrace/tensor.h"

namespace millrace {
namespace {

// A tensor (or, with output -1, a node) and the device that needs it.
struct Transfer {
  int src = 0;
  int output = 0;
  int device = 0;  // index in the table of the partitioned graph
  friend bool operator==(const Transfer&, const Transfer&) = default;
};
struct TransferHash {
  size_t operator()(const Transfer& t) const {
    const uint64_t tensor = static_cast<uint64_t>(t.src) << 32 | static_cast<uint32_t>(t.output);
    return tensor * 0x9e3779b97f4a7c15u ^ static_cast<uint64_t>(t.device);
  }
};

class Partitioner {
 public:
  Partitioner(std::unique_ptr<Graph> graph, const PartitionOptions& options)
      : graph_(std::move(graph)), options_(options) {}

  StatusOr<std::vector<GraphPartition>> Run() {
    FindKeys();
    if (parts_.size() <= 1) {
      if (parts_.empty()) parts_[""];
      graph_->functions() = ReachableFunctions(*graph_, *graph_);
      std::vector<GraphPartition> whole(1);
      whole[0] = {parts_.begin()->first, std::move(graph_)};
      return whole;
    }
    for (const Node* node : nodes_) {
      if (node->has_assigned_device()) continue;
      return errors::Internal("Node '", node->name(), "' (op ", node->op_name(),
                              ") was never assigned to a device");
    }
    MR_ASSIGN_OR_RETURN(loops_, AddControlLoops(graph_.get()));
    FindKeys();
    CopyNodes();
    for (const Node* node : nodes_) MR_RETURN_IF_ERROR(CopyInputs(*node));
    std::vector<GraphPartition> result;
    for (auto& [key, part] : parts_) {
      part.graph->FixupSourceAndSinkEdges();
      part.graph->functions() = ReachableFunctions(*graph_, *part.graph);
      result.push_back({key, std::move(part.graph)});
    }
    return result;
  }

 private:
  struct Part {
    std::unique_ptr<Graph> graph;
    std::vector<int>
        devices;  // index in the table of this part, by index in the table of the whole; -1: not yet known
  };

  void FindKeys();
  void CopyNodes();
  int DeviceIn(Part* part, int device) const;
  Status CopyInputs(const Node& node);
  Status CopyRemoteInput(const Edge& edge, Node* dst);
  StatusOr<Node*> Receive(const Edge& edge);
  StatusOr<Node*> AddNode(const Node& near, int device, std::string_view op, AttrMap attrs);
  StatusOr<Node*> AddSend(const Edge& edge, const AttrMap& transfer);
  StatusOr<Node*> AddCast(const Edge& edge, int device, Node* src, int output, DataType to);
  bool Shortens(const Edge& edge) const {
    return options_.bfloat16_transfers && !edge.IsControl() &&
           BaseType(edge.src->output_type(edge.src_output)) == DataType::kFloat;
  }
  AttrMap TransferAttrs(const Edge& edge) const;
  Part& PartOf(int device) { return *part_of_device_[static_cast<size_t>(device)]; }
  Node* CopyOf(const Node& node) { return copies_[static_cast<size_t>(node.id())]; }

  std::unique_ptr<Graph> graph_;
  const PartitionOptions& options_;
  ControlLoops loops_;
  std::vector<Node*> nodes_;
  std::map<std::string, Part> parts_;
  std::vector<Part*> part_of_device_;  // by device index; null for devices without nodes
  std::vector<Node*> copies_;          // by id in graph_
  std::unordered_map<Transfer, Node*, TransferHash> received_;
};

void Partitioner::FindKeys() {
  parts_.clear();
  part_of_device_.clear();
  nodes_ = graph_->OpNodes();
  for (const Node* node : nodes_) {
    const auto device = static_cast<size_t>(node->assigned_device_index());
    if (device >= part_of_device_.size()) part_of_device_.resize(device + 1, nullptr);
    if (part_of_device_[device] != nullptr) continue;
    const std::string& name = node->assigned_device();
    part_of_device_[device] = &parts_[options_.key ? options_.key(name) : DeviceKey(name)];
  }
}

int Partitioner::DeviceIn(Part* part, int device) const {
  const auto i = static_cast<size_t>(device);
  if (i >= part->devices.size()) part->devices.resize(i + 1, -1);
  if (part->devices[i] < 0) part->devices[i] = part->graph->InternDevice(graph_->device_name(device));
  return part->devices[i];
}

void Partitioner::CopyNodes() {
  for (auto& [key, part] : parts_) {
    part.graph = std::make_unique<Graph>(graph_->ops());
    part.graph->set_versions(graph_->versions());
  }
  copies_.resize(static_cast<size_t>(graph_->num_node_ids()), nullptr);
  for (const Node* node : nodes_) {
    Part& part = PartOf(node->assigned_device_index());
    Node* copy = part.graph->AddNodeWithProps(node->name(), node->shared_props());
    copy->set_assigned_device_index(DeviceIn(&part, node->assigned_device_index()));
    copy->set_requested_device_index(DeviceIn(&part, node->requested_device_index()));
    copies_[static_cast<size_t>(node->id())] = copy;
  }
}

Status Partitioner::CopyInputs(const Node& node) {
  Node* dst = CopyOf(node);
  for (const Edge* edge : node.in_edges()) {
    if (edge == nullptr || edge->src->IsSource()) continue;
    Node* src = CopyOf(*edge->src);
    if (&src->graph() != &dst->graph()) {
      MR_RETURN_IF_ERROR(CopyRemoteInput(*edge, dst));
    } else if (edge->IsControl()) {
      dst->graph().AddControlEdgeUnchecked(src, dst);
    } else {
      dst->graph().AddEdge(src, edge->src_output, dst, edge->dst_input);
    }
  }
  return Status();
}

Status Partitioner::CopyRemoteInput(const Edge& edge, Node* dst) {
  if (!edge.IsControl() && IsRefType(dst->input_type(edge.dst_input))) {
    return errors::InvalidArgument("Input ", edge.dst_input, " of node '", dst->name(), "' (op ",
                                   dst->op_name(), ") is a reference to '", edge.src->name(),
                                   "' on another device: ", edge.src->assigned_device(), " and ",
                                   edge.dst->assigned_device());
  }
  const Transfer transfer{edge.src->id(), edge.src_output, edge.dst->assigned_device_index()};
  Node*& received = received_[transfer];
  if (received == nullptr) {
    MR_ASSIGN_OR_RETURN(received, Receive(edge));
  }
  if (edge.IsControl()) {
    dst->graph().AddControlEdge(received, dst);
  } else {
    dst->graph().AddEdge(received, 0, dst, edge.dst_input);
  }
  return Status();
}

// A node in the part of `device`. Its name is that of the node `near` with a number that is unique in this
// process: a cache of kernels by name must not confuse two transfers.
StatusOr<Node*> Partitioner::AddNode(const Node& near, int device, std::string_view op, AttrMap attrs) {
  static std::atomic<uint64_t> number{0};
  Part& part = PartOf(device);
  std::string name;
  do {
    // Relaxed: only distinctness matters.
    name = StrCat(near.name(), "/_", number.fetch_add(1, std::memory_order_relaxed));
  } while (graph_->FindNode(name) != nullptr);
  MR_ASSIGN_OR_RETURN(Node * node, part.graph->AddNode(name, op, std::move(attrs)));
  node->set_assigned_device_index(DeviceIn(&part, device));
  return node;
}

AttrMap Partitioner::TransferAttrs(const Edge& edge) const {
  const std::string& from = edge.src->assigned_device();
  AttrMap attrs;
  attrs.Set("tensor_name", StrCat("edge_", edge.id, "_", edge.src->name()));
  attrs.Set("send_device", from);
  attrs.Set("send_device_incarnation",
            static_cast<int64_t>(options_.incarnation ? options_.incarnation(from) : uint64_t{1}));
  attrs.Set("recv_device", edge.dst->assigned_device());
  attrs.Set("client_terminated", false);
  return attrs;
}

// For a control edge, an empty constant that waits for the source is sent.
StatusOr<Node*> Partitioner::AddSend(const Edge& edge, const AttrMap& transfer) {
  const int device = edge.src->assigned_device_index();
  Node* src = CopyOf(*edge.src);
  int output = edge.src_output;
  if (edge.IsControl()) {
    AttrMap attrs;
    attrs.Set("dtype", DataType::kFloat);
    attrs.Set("value", Tensor(DataType::kFloat, TensorShape({0})));
    MR_ASSIGN_OR_RETURN(Node * empty, AddNode(*edge.src, device, "Const", std::move(attrs)));
    empty->graph().AddControlEdge(src, empty);
    src = empty;
    output = 0;
  } else if (Shortens(edge)) {
    MR_ASSIGN_OR_RETURN(src, AddCast(edge, device, src, output, DataType::kBfloat16));
    output = 0;
  }
  AttrMap attrs = transfer;
  attrs.Set("T", BaseType(src->output_type(output)));
  MR_ASSIGN_OR_RETURN(Node * send, AddNode(*edge.src, device, "_Send", std::move(attrs)));
  send->graph().AddEdge(src, output, send, 0);
  return send;
}

StatusOr<Node*> Partitioner::AddCast(const Edge& edge, int device, Node* src, int output, DataType to) {
  AttrMap attrs;
  attrs.Set("SrcT", BaseType(src->output_type(output)));
  attrs.Set("DstT", to);
  // Truncates instead of rounding, as TensorFlow does for transfers.
  attrs.Set("Truncate", true);
  MR_ASSIGN_OR_RETURN(Node * cast, AddNode(*edge.src, device, "Cast", std::move(attrs)));
  cast->graph().AddEdge(src, output, cast, 0);
  return cast;
}

// Sends the source of `edge` to the device of its destination; returns the node there with the value, or the
// node that represents the source in control edges.
StatusOr<Node*> Partitioner::Receive(const Edge& edge) {
  const AttrMap transfer = TransferAttrs(edge);
  MR_ASSIGN_OR_RETURN(const Node* send, AddSend(edge, transfer));
  const int device = edge.dst->assigned_device_index();
  AttrMap attrs = transfer;
  attrs.Set("tensor_type", send->input_type(0));
  if (loops_.may_be_dead) attrs.Set(ControlLoops::kMayBeDeadAttr, true);
  MR_ASSIGN_OR_RETURN(Node * recv, AddNode(*edge.src, device, "_Recv", std::move(attrs)));
  if (const Node* pivot = loops_.PivotFor(*edge.src, device); pivot != nullptr) {
    recv->graph().AddControlEdge(CopyOf(*pivot), recv);
  }
  if (Shortens(edge)) return AddCast(edge, device, recv, 0, DataType::kFloat);
  if (!edge.IsControl()) return recv;
  AttrMap identity;
  identity.Set("T", DataType::kFloat);
  MR_ASSIGN_OR_RETURN(Node * gate, AddNode(*edge.src, device, "Identity", std::move(identity)));
  gate->graph().AddEdge(recv, 0, gate, 0);
  return gate;
}

}  // namespace

std::string DeviceKey(std::string_view device) { return std::string(device); }

std::string TaskKey(std::string_view device) {
  std::string task;
  std::string local;
  return SplitDeviceName(device, &task, &local) ? task : std::string(device);
}

StatusOr<std::vector<GraphPartition>> PartitionGraph(std::unique_ptr<Graph> graph,
                                                     const PartitionOptions& options) {
  return Partitioner(std::move(graph), options).Run();
}

}  // namespace millrace
