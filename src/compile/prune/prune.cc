// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/prune/prune.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace millrace {
namespace {

// Placeholders of older graphs could not declare "scalar"; an empty shape meant "unknown".
constexpr int kScalarPlaceholders = 22;

bool IsPlaceholder(const Node& node) { return node.op_name().starts_with("Placeholder"); }

struct Endpoint {
  const Node* node = nullptr;
  int output = 0;
};

uint64_t Key(int node_id, int output) {
  return static_cast<uint64_t>(node_id) << 32 | static_cast<uint32_t>(output);
}

// An edge of the full graph that a feed replaces. A control edge has slot -1.
struct Cut {
  int src = 0;  // ids in the full graph
  int dst = 0;
  int slot = 0;
  int feed = 0;
};

class Pruner {
 public:
  Pruner(const Graph& full, const RunSignature& signature, const PruneOptions& options)
      : full_(full), signature_(signature), options_(options) {}

  StatusOr<PrunedGraph> Run() {
    MR_RETURN_IF_ERROR(FindFeeds());
    MR_RETURN_IF_ERROR(FindConnections());
    MR_RETURN_IF_ERROR(FindFetches());
    MR_RETURN_IF_ERROR(FindTargets());
    if (signature_.fetches.empty() && signature_.targets.empty()) {
      return errors::InvalidArgument("Must specify at least one target to fetch or execute.");
    }
    WalkBack();
    graph_ = full_.CloneSubset(keep_, &new_ids_);
    MR_RETURN_IF_ERROR(AddFeeds());
    MR_RETURN_IF_ERROR(AddFetches());
    graph_->FixupSourceAndSinkEdges();
    result_.graph = std::move(graph_);
    return std::move(result_);
  }

 private:
  Status FindFeeds();
  Status FindConnections();
  Status FindFetches();
  Status FindTargets();
  void WalkBack();
  void Visit(const Node* node) {
    if (keep_[static_cast<size_t>(node->id())]) return;
    keep_[static_cast<size_t>(node->id())] = true;
    queue_.push_back(node);
  }
  // Visits the inputs of feed `feed`: none, unless it is a connection.
  void VisitFeed(int feed);
  // InvalidArgument if the source of the next connection needs `to`.
  Status CheckNoCycle(const Endpoint& from, const Node* to) const;
  // The connection that replaces the source of connection `c`, as a feed, or -1. Feeds and earlier
  // connections do not replace it.
  int FeedOfSource(int c) const {
    const Endpoint& from = sources_[static_cast<size_t>(c)];
    const int feed = FeedOf(*from.node, from.output);
    return feed > num_feeds() + c ? feed : -1;
  }
  int num_feeds() const { return static_cast<int>(signature_.feeds.size()); }
  StatusOr<Node*> ConnectionNode(int c);
  // The feed that replaces the source of `edge`, or -1. Connections count as feeds after the last feed.
  int FeedOf(const Edge& edge) const;
  int FeedOf(const Node& node, int output) const {
    const auto it = feed_of_.find(Key(node.id(), output));
    return it == feed_of_.end() ? -1 : it->second;
  }
  EndpointInfo FeedInfo(const Endpoint& feed) const;
  StatusOr<Node*> FeedNode(int feed);
  Status AddFeeds();
  Status AddFetches();
  void SetTransferAttrs(const std::string& tensor_name, AttrMap* attrs) const;
  StatusOr<Node*> AddBorderNode(const std::string& name, std::string_view op, AttrMap attrs);

  const Graph& full_;
  const RunSignature& signature_;
  const PruneOptions& options_;
  PrunedGraph result_;

  std::vector<Endpoint> feeds_, fetches_;  // after the feeds the endpoints that the connections replace
  std::vector<Endpoint> sources_;          // of the connections
  std::unordered_map<uint64_t, int> feed_of_;
  std::vector<const Node*> queue_;  // roots first, then their inputs
  std::vector<bool> keep_;
  std::vector<Cut> cuts_;
  std::vector<bool> connected_;  // connections in use

  std::unique_ptr<Graph> graph_;
  std::vector<int> new_ids_;
  std::vector<Node*> feed_nodes_;
};

EndpointInfo Pruner::FeedInfo(const Endpoint& feed) const {
  EndpointInfo info{BaseType(feed.node->output_type(feed.output)), PartialShape()};
  if (!IsPlaceholder(*feed.node) || options_.shapes == FeedShapes::kAny) return info;
  info.shape = feed.node->attrs().Get<PartialShape>("shape").value_or(PartialShape());
  if (info.shape.rank() == 0 && full_.versions().producer < kScalarPlaceholders) info.shape = PartialShape();
  return info;
}

Status NoSuchTensor(const std::string& name) {
  const TensorId id = ParseTensorId(name);
  return errors::InvalidArgument(
      "Tensor ", id.name, ":", id.index,
      ", specified in either feed_devices or fetch_devices was not found in the Graph");
}

Status NoSuchOutput(const Node& node, int output) {
  return errors::OutOfRange("Node '", node.name(), "' (type: '", node.op_name(),
                            "', num of outputs: ", node.num_outputs(), ") does not have output ", output);
}

Status Pruner::FindFeeds() {
  for (const std::string& name : signature_.feeds) {
    const TensorId id = ParseTensorId(name);
    const Node* node = id.index < 0 ? nullptr : full_.FindNode(id.name);
    if (node == nullptr || !node->IsOp()) {
      return NoSuchTensor(name);
    }
    if (id.index >= node->num_outputs()) return NoSuchOutput(*node, id.index);
    if (!feed_of_.emplace(Key(node->id(), id.index), static_cast<int>(feeds_.size())).second) {
      return errors::InvalidArgument("Endpoint \"", name, "\" fed more than once.");
    }
    feeds_.push_back({node, id.index});
    result_.feeds.push_back(FeedInfo(feeds_.back()));
  }
  feed_nodes_.resize(feeds_.size(), nullptr);
  return Status();
}

Status Pruner::FindConnections() {
  for (const auto& [from_tensor, to_tensor] : signature_.connections) {
    const TensorId from = ParseTensorId(from_tensor);
    const Node* const source = from.index < 0 ? nullptr : full_.FindNode(from.name);
    if (source == nullptr || !source->IsOp()) {
      return errors::InvalidArgument("Requested tensor connection from unknown node: \"", to_tensor, "\".");
    }
    if (from.index >= source->num_outputs()) {
      return errors::InvalidArgument("Requested tensor connection from unknown edge: \"", to_tensor,
                                     "\" (actual number of outputs = ", source->num_outputs(), ").");
    }
    sources_.push_back({source, from.index});
  }
  for (size_t i = 0; i < sources_.size(); ++i) {
    const std::string& name = signature_.connections[i].second;
    const TensorId id = ParseTensorId(name);
    const Node* const node = id.index < 0 ? nullptr : full_.FindNode(id.name);
    if (node == nullptr || !node->IsOp())
      return errors::NotFound("FeedInputs: unable to find feed output ", name);
    if (id.index >= node->num_outputs()) {
      return errors::InvalidArgument("FeedInputs: ", name, " should have output index < ",
                                     node->num_outputs());
    }
    MR_RETURN_IF_ERROR(CheckNoCycle(sources_[i], node));
    if (!feed_of_.emplace(Key(node->id(), id.index), static_cast<int>(feeds_.size())).second)
      return errors::InvalidArgument("Endpoint \"", name, "\" fed more than once.");
    feeds_.push_back({node, id.index});
  }
  connected_.resize(sources_.size(), false);
  feed_nodes_.resize(feeds_.size(), nullptr);
  return Status();
}

Status Pruner::CheckNoCycle(const Endpoint& from, const Node* to) const {
  std::vector<bool> seen(static_cast<size_t>(full_.num_node_ids()), false);
  std::vector<const Node*> stack;
  const auto visit = [&](const Node* node) {
    if (seen[static_cast<size_t>(node->id())]) return;
    seen[static_cast<size_t>(node->id())] = true;
    stack.push_back(node);
  };
  visit(from.node);
  while (!stack.empty()) {
    const Node* const node = stack.back();
    stack.pop_back();
    if (node == to) {
      return errors::InvalidArgument("Requested Tensor connection between nodes \"", to->name(), "\" and \"",
                                     from.node->name(), "\" would create a cycle.");
    }
    for (const Edge* edge : node->in_edges()) {
      if (edge == nullptr || edge->src->IsSource()) continue;
      int feed = FeedOf(*edge);
      if (feed < 0) visit(edge->src);
      while (feed >= num_feeds()) {
        const int c = feed - num_feeds();
        feed = FeedOfSource(c);
        if (feed < 0) visit(sources_[static_cast<size_t>(c)].node);
      }
    }
  }
  return Status();
}

Status Pruner::FindFetches() {
  for (const std::string& name : signature_.fetches) {
    const TensorId id = ParseTensorId(name);
    const Node* node = id.index < 0 ? nullptr : full_.FindNode(id.name);
    if (node == nullptr || !node->IsOp()) return NoSuchTensor(name);
    if (id.index >= node->num_outputs()) return NoSuchOutput(*node, id.index);
    fetches_.push_back({node, id.index});
    result_.fetches.push_back({BaseType(node->output_type(id.index)), PartialShape()});
  }
  return Status();
}

Status Pruner::FindTargets() {
  keep_.assign(static_cast<size_t>(full_.num_node_ids()), false);
  std::string missing;
  for (const std::string& name : signature_.targets) {
    const Node* node = full_.FindNode(ParseTensorId(name).name);
    if (node == nullptr || !node->IsOp()) {
      missing += StrCat(name, " ");
    } else {
      Visit(node);
    }
  }
  if (missing.empty()) return Status();
  return errors::NotFound("PruneForTargets: Some target nodes not found: ", missing);
}

int Pruner::FeedOf(const Edge& edge) const {
  if (feeds_.empty()) return -1;
  // Waiting for a placeholder is waiting for its value.
  if (edge.IsControl()) return IsPlaceholder(*edge.src) ? FeedOf(*edge.src, 0) : -1;
  return FeedOf(*edge.src, edge.src_output);
}

void Pruner::VisitFeed(int feed) {
  while (feed >= num_feeds()) {
    const int c = feed - num_feeds();
    if (connected_[static_cast<size_t>(c)]) return;
    connected_[static_cast<size_t>(c)] = true;
    feed = FeedOfSource(c);
    if (feed < 0) Visit(sources_[static_cast<size_t>(c)].node);
  }
}

void Pruner::WalkBack() {
  for (const Endpoint& fetch : fetches_) {
    const int feed = FeedOf(*fetch.node, fetch.output);
    if (feed < 0) Visit(fetch.node);
    VisitFeed(feed);
  }
  for (size_t next = 0; next < queue_.size(); ++next) {
    for (const Edge* edge : queue_[next]->in_edges()) {
      if (edge == nullptr || edge->src->IsSource()) continue;
      if (const int feed = FeedOf(*edge); feed >= 0) {
        cuts_.push_back({edge->src->id(), edge->dst->id(), edge->dst_input, feed});
        VisitFeed(feed);
      } else {
        Visit(edge->src);
      }
    }
  }
}

StatusOr<Node*> Pruner::AddBorderNode(const std::string& name, std::string_view op, AttrMap attrs) {
  MR_ASSIGN_OR_RETURN(Node * node, graph_->AddNode(graph_->NewName(name), op, std::move(attrs)));
  if (!options_.client_device.empty()) node->set_assigned_device(options_.client_device);
  return node;
}

void Pruner::SetTransferAttrs(const std::string& tensor_name, AttrMap* attrs) const {
  attrs->Set("tensor_name", tensor_name);
  attrs->Set("send_device", options_.client_device);
  attrs->Set("recv_device", options_.client_device);
  attrs->Set("send_device_incarnation", static_cast<int64_t>(options_.client_incarnation));
  attrs->Set("client_terminated", true);
}

StatusOr<Node*> Pruner::ConnectionNode(int c) {
  const auto [to, to_output] = feeds_[static_cast<size_t>(num_feeds() + c)];
  const auto [from, from_output] = sources_[static_cast<size_t>(c)];
  Node* src = nullptr;
  int src_output = 0;
  if (const int feed = FeedOfSource(c); feed >= 0) {
    MR_ASSIGN_OR_RETURN(src, FeedNode(feed));  // of a later connection, so the recursion ends
  } else {
    src = graph_->node(new_ids_[static_cast<size_t>(from->id())]);
    src_output = from_output;
  }
  AttrMap attrs;
  attrs.Set("T", BaseType(src->output_type(src_output)));
  const std::string name = StrCat("_identity_", to->name(), "_", to_output);
  MR_ASSIGN_OR_RETURN(Node * identity, graph_->AddNode(graph_->NewName(name), "Identity", std::move(attrs)));
  identity->set_requested_device(to->requested_device());
  identity->set_assigned_device(to->assigned_device());
  graph_->AddEdge(src, src_output, identity, 0);
  return identity;
}

// Created at the first use.
StatusOr<Node*> Pruner::FeedNode(int feed) {
  const auto i = static_cast<size_t>(feed);
  if (feed_nodes_[i] != nullptr) return feed_nodes_[i];
  if (feed >= num_feeds()) {
    MR_ASSIGN_OR_RETURN(feed_nodes_[i], ConnectionNode(feed - num_feeds()));
    return feed_nodes_[i];
  }
  const auto [node, output] = feeds_[i];
  AttrMap attrs;
  if (options_.convention == FeedConvention::kCallFrame) {
    attrs.Set("T", result_.feeds[i].dtype);
    attrs.Set("index", feed);
    // The session checks that a fed value has this shape.
    if (!result_.feeds[i].shape.unknown_rank()) attrs.Set("_shape", result_.feeds[i].shape);
    const std::string name = StrCat("_arg_", node->name(), "_", output, "_", feed);
    MR_ASSIGN_OR_RETURN(feed_nodes_[i], AddBorderNode(name, "_Arg", std::move(attrs)));
  } else {
    attrs.Set("tensor_type", result_.feeds[i].dtype);
    SetTransferAttrs(StrCat(node->name(), ":", output), &attrs);
    const std::string name = StrCat("_recv_", node->name(), "_", output);
    MR_ASSIGN_OR_RETURN(feed_nodes_[i], AddBorderNode(name, "_Recv", std::move(attrs)));
  }
  return feed_nodes_[i];
}

Status Pruner::AddFeeds() {
  for (const Cut& cut : cuts_) {
    MR_ASSIGN_OR_RETURN(Node * feed, FeedNode(cut.feed));
    Node* dst = graph_->node(new_ids_[static_cast<size_t>(cut.dst)]);
    if (cut.slot == Edge::kControlSlot) {
      for (Edge* edge : dst->control_in_edges()) {
        if (edge->src->id() != new_ids_[static_cast<size_t>(cut.src)]) continue;
        graph_->RemoveEdge(edge);
        break;
      }
      graph_->AddControlEdge(feed, dst);
      continue;
    }
    if (feed->output_type(0) != dst->input_type(cut.slot)) {  // the input is a reference
      return errors::InvalidArgument("Input ", cut.slot, " of node ", dst->name(), " was passed ",
                                     DataTypeName(feed->output_type(0)), " from ", feed->name(),
                                     ":0 incompatible with expected ",
                                     DataTypeName(dst->input_type(cut.slot)), ".");
    }
    graph_->UpdateInput(dst, cut.slot, feed, 0);
  }
  return Status();
}

Status Pruner::AddFetches() {
  for (size_t i = 0; i < fetches_.size(); ++i) {
    const auto [node, output] = fetches_[i];
    Node* src = graph_->node(std::max(0, new_ids_[static_cast<size_t>(node->id())]));
    int src_output = output;
    if (const int feed = FeedOf(*node, output); feed >= 0) {
      MR_ASSIGN_OR_RETURN(src, FeedNode(feed));
      src_output = 0;
      result_.fetches[i].dtype = src->output_type(0);
    }
    AttrMap attrs;
    attrs.Set("T", result_.fetches[i].dtype);
    std::string name;
    if (options_.convention == FeedConvention::kCallFrame) {
      attrs.Set("index", static_cast<int64_t>(i));
      name = StrCat("_retval_", node->name(), "_", output, "_", i);
    } else {
      SetTransferAttrs(StrCat(node->name(), ":", output), &attrs);
      name = StrCat("_send_", node->name(), "_", output);
    }
    const bool frame = options_.convention == FeedConvention::kCallFrame;
    MR_ASSIGN_OR_RETURN(Node * fetch, AddBorderNode(name, frame ? "_Retval" : "_Send", std::move(attrs)));
    graph_->AddEdge(src, src_output, fetch, 0);
  }
  return Status();
}

}  // namespace

StatusOr<PrunedGraph> PruneForRun(const Graph& full, const RunSignature& signature,
                                  const PruneOptions& options) {
  return Pruner(full, signature, options).Run();
}

}  // namespace millrace
