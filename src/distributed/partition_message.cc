// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/partition_message.h"

#include <utility>

#include "graph/graph_import.h"
#include "kernel/rendezvous.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace millrace {
namespace {

// An attribute of stateful nodes: the prefix of the names under which their state is kept.
constexpr std::string_view kScopeAttr = "_state_scope";

AttrMap TransferAttrs(const std::string& tensor, const std::string& device, uint64_t incarnation) {
  AttrMap attrs;
  attrs.Set("tensor_name", tensor);
  attrs.Set("send_device", device);
  attrs.Set("send_device_incarnation", static_cast<int64_t>(incarnation));
  attrs.Set("recv_device", device);
  attrs.Set("client_terminated", true);
  return attrs;
}

}  // namespace

StatusOr<BorderKeys> UseKeysForFeedsAndFetches(Graph* graph,
                                               const std::function<uint64_t(std::string_view)>& incarnation) {
  BorderKeys keys;
  for (Node* node : graph->OpNodes()) {
    const bool is_feed = node->op_name() == "_Arg";
    if (!is_feed && node->op_name() != "_Retval") continue;
    MR_ASSIGN_OR_RETURN(const int64_t slot, node->Attr<int64_t>("index"));
    const std::string& device = node->assigned_device();
    const std::string tensor = StrCat(is_feed ? "feed" : "fetch", "_", slot, ":0");
    const uint64_t sender = incarnation(device);
    AttrMap attrs = TransferAttrs(tensor, device, sender);
    const std::string key = Rendezvous::Key::Make(device, sender, device, tensor).text;
    (is_feed ? keys.feeds : keys.fetches)[key] = static_cast<int>(slot);
    if (is_feed) {
      attrs.Set("tensor_type", node->output_type(0));
    } else {
      attrs.Set("T", node->input_type(0));
    }
    const std::string name = graph->NewName(is_feed ? "_recv_feed" : "_send_fetch");
    MR_ASSIGN_OR_RETURN(Node * made, graph->AddNode(name, is_feed ? "_Recv" : "_Send", std::move(attrs)));
    made->set_assigned_device(device);
    for (const Edge* edge : node->in_edges()) {
      if (edge == nullptr) continue;
      if (edge->IsControl()) {
        graph->AddControlEdge(edge->src, made);
      } else {
        graph->AddEdge(edge->src, edge->src_output, made, 0);
      }
    }
    struct Use {
      Node* node;
      int slot;
    };
    std::vector<Use> uses;
    for (const Edge* edge : node->out_edges()) uses.push_back({edge->dst, edge->dst_input});
    graph->RemoveNode(node);
    for (const Use& use : uses) {
      if (use.slot == Edge::kControlSlot) {
        graph->AddControlEdge(made, use.node);
      } else {
        graph->AddEdge(made, 0, use.node, use.slot);
      }
    }
  }
  return keys;
}

void PartitionToRequest(const PartitionSpec& spec, tensorflow::RegisterGraphRequest* request) {
  ExportGraphDef(*spec.graph, request->mutable_graph_def());
  request->mutable_graph_options()->set_enable_bfloat16_sendrecv(spec.bfloat16_transfers);
  if (spec.scope.empty()) return;
  for (tensorflow::NodeDef& node : *request->mutable_graph_def()->mutable_node()) {
    (*node.mutable_attr())[std::string(kScopeAttr)].set_s(spec.scope);
  }
}

StatusOr<PartitionSpec> PartitionFromRequest(tensorflow::RegisterGraphRequest request) {
  PartitionSpec spec;
  spec.graph = std::make_unique<Graph>(OpRegistry::Global());
  spec.bfloat16_transfers = request.graph_options().enable_bfloat16_sendrecv();
  ImportOptions options;
  options.allow_internal_ops = true;
  options.allow_removed_ops = true;  // the session has accepted them
  options.validate_shapes = false;
  MR_RETURN_IF_ERROR(ImportGraphDef(std::move(*request.mutable_graph_def()), options, spec.graph.get()));
  for (Node* node : spec.graph->OpNodes()) {
    if (node->requested_device().empty())
      return errors::InvalidArgument("Node '", node->name(), "' of a partition has no device");
    node->set_assigned_device(node->requested_device());
    if (!spec.scope.empty() || node->attrs().Find(kScopeAttr) == nullptr) continue;
    MR_ASSIGN_OR_RETURN(spec.scope, node->Attr<std::string>(kScopeAttr));
  }
  return spec;
}

}  // namespace millrace
