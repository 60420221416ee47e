// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/graph.h"

#include <utility>

#include "base/logging.h"
#include "base/strings.h"
#include "graph/function_library.h"
#include "op/function_attrs.h"

namespace millrace {
namespace {

// _SOURCE and _SINK need no registry: their op is always this NoOp.
const std::shared_ptr<const NodeProps>& NoOpProps() {
  static const auto* const props = [] {
    static OpRegistration op;
    op.def.name = "NoOp";
    op.traits.cheap = true;
    auto p = std::make_shared<NodeProps>();
    p->op = &op;
    return new std::shared_ptr<const NodeProps>(std::move(p));
  }();
  return *props;
}

}  // namespace

std::string TensorId::ToString() const {
  if (index == Edge::kControlSlot) return StrCat("^", name);
  return index == 0 ? std::string(name) : StrCat(name, ":", index);
}

TensorId ParseTensorId(std::string_view text) {
  if (text.starts_with('^')) return {text.substr(1), Edge::kControlSlot};
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return {text, 0};
  const std::string_view digits = text.substr(colon + 1);
  const std::optional<int32_t> index = digits.starts_with('-') ? std::nullopt : SafeStringToInt32(digits);
  if (!index) return {text, 0};
  return {text.substr(0, colon), *index};
}

bool IsLoopBackEdge(const Edge& edge) {
  if (!edge.dst->traits().is_control_flow || !edge.src->traits().is_control_flow) return false;
  return edge.dst->op_name().ends_with("Merge") && edge.src->op_name().ends_with("NextIteration");
}

namespace {

bool IsLonger(const std::vector<DataType>& types, const std::vector<DataType>& old) {
  return types.size() >= old.size() && std::equal(old.begin(), old.end(), types.begin());
}

// A longer list of types gives the node more inputs or outputs, after the existing ones.
void AppendTypes(const FunctionLibrary& functions, NodeProps* props) {
  auto made = NodeProps::Make(*props->op, props->attrs);
  if (!made.ok()) return;
  if (functions.Find(props->op->def.name) != nullptr) made = WithKeptTypes(*std::move(made));
  const NodeProps& longer = **made;
  if (!IsLonger(longer.input_types, props->input_types) ||
      !IsLonger(longer.output_types, props->output_types))
    return;
  props->input_types = longer.input_types;
  props->output_types = longer.output_types;
}

}  // namespace

void Node::SetAttr(std::string_view name, AttrValue value) {
  auto props = std::make_shared<NodeProps>(*props_);
  const bool is_list = value.As<std::vector<DataType>>() != nullptr;
  props->attrs.Set(name, std::move(value));
  if (is_list) AppendTypes(graph_->functions(), props.get());
  // Control edges follow the new slots.
  const auto more = static_cast<int>(props->input_types.size() - props_->input_types.size());
  if (more > 0) {
    const auto old = static_cast<uint32_t>(props_->input_types.size());
    const std::vector<Edge*> controls(in_edges_.begin() + old, in_edges_.end());
    in_edges_.resize(old);
    in_edges_.resize(old + static_cast<uint32_t>(more), nullptr);
    for (Edge* edge : controls) {
      edge->in_pos = static_cast<int>(in_edges_.size());
      in_edges_.push_back(edge);
    }
  }
  props_ = std::move(props);
}

void Node::EraseAttr(std::string_view name) {
  auto props = std::make_shared<NodeProps>(*props_);
  props->attrs.Erase(name);
  props_ = std::move(props);
}

StatusOr<const Edge*> Node::InputEdge(int i) const {
  if (i < 0 || i >= num_inputs()) {
    return errors::InvalidArgument("Invalid input_edge index: ", i, ", Node ", name_, " only has ",
                                   num_inputs(), " inputs.");
  }
  if (in_edges_[i] == nullptr) return errors::NotFound("not found input edge ", i);
  return static_cast<const Edge*>(in_edges_[i]);
}

const std::string& Node::requested_device() const { return graph_->device_name(requested_device_); }
const std::string& Node::assigned_device() const { return graph_->device_name(assigned_device_); }
void Node::set_requested_device(std::string_view device) { requested_device_ = graph_->InternDevice(device); }
void Node::set_assigned_device(std::string_view device) { assigned_device_ = graph_->InternDevice(device); }

Graph::Graph(const OpRegistry& ops, Bare) : ops_(ops), functions_(std::make_unique<FunctionLibrary>()) {
  device_names_.emplace_back();
  device_index_.emplace(device_names_.front(), 0);
}

Graph::Graph(const OpRegistry& ops) : Graph(ops, Bare{}) {
  nodes_.resize(2);
  NewNode("_SOURCE", NoOpProps(), kSourceId);
  NewNode("_SINK", NoOpProps(), kSinkId);
  AddControlEdgeUnchecked(source(), sink());
}

Graph::~Graph() = default;

StatusOr<const OpRegistration*> Graph::LookUpOp(std::string_view name) const {
  if (!functions_->empty()) {
    auto function = functions_->LookUp(name);
    if (function.ok()) return function;
  }
  return ops_.LookUp(name);
}

Node* Graph::NewNode(std::string_view name, std::shared_ptr<const NodeProps> props, int id) {
  Node* node = node_arena_.New();
  node->graph_ = this;
  node->id_ = id;
  node->name_ = name;
  node->in_edges_.resize(static_cast<uint32_t>(props->input_types.size()), nullptr);
  node->props_ = std::move(props);
  nodes_[id] = node;
  by_name_.Insert(node->name_, id);
  ++num_nodes_;
  return node;
}

StatusOr<Node*> Graph::AddNode(std::string_view name, std::string_view op, AttrMap attrs,
                               std::string_view device) {
  if (FindNode(name) != nullptr) {
    return errors::AlreadyExists("Node name '", name, "' already exists in the Graph");
  }
  if (last_props_ == nullptr || last_props_->op->def.name != op || last_attrs_ != attrs) {
    MR_ASSIGN_OR_RETURN(const OpRegistration* registration, LookUpOp(op));
    auto props = NodeProps::Make(*registration, attrs);
    if (!props.ok()) return props.status().WithContext(StrCat("; node '", name, "' (op ", op, ")"));
    last_props_ = functions_->Find(op) == nullptr ? *std::move(props) : WithKeptTypes(*std::move(props));
    last_attrs_ = std::move(attrs);
  }
  Node* node = AddNodeWithProps(name, last_props_);
  if (!device.empty()) node->set_requested_device(device);
  return node;
}

Node* Graph::AddNodeWithProps(std::string_view name, std::shared_ptr<const NodeProps> props) {
  nodes_.push_back(nullptr);
  return NewNode(name, std::move(props), static_cast<int>(nodes_.size()) - 1);
}

void Graph::RemoveNode(Node* node) {
  MR_CHECK(node->graph_ == this && node->IsOp());
  // From the back, so that no list is shuffled.
  for (int i = static_cast<int>(node->in_edges_.size()) - 1; i >= 0; --i) {
    if (node->in_edges_[i] != nullptr) RemoveEdge(node->in_edges_[i]);
  }
  while (!node->out_edges_.empty()) RemoveEdge(node->out_edges_.back());
  by_name_.Erase(node->name_, node->id_);
  nodes_[node->id_] = nullptr;
  --num_nodes_;
  // The object stays in the arena; its members are released.
  *node = Node();
}

void Graph::RemoveNodesFrom(int first_id) {
  for (int id = num_node_ids() - 1; id >= first_id; --id) {
    if (nodes_[id] != nullptr) RemoveNode(nodes_[id]);
    nodes_.pop_back();
  }
  while (!edges_.empty() && edges_.back() == nullptr) edges_.pop_back();
}

Edge* Graph::NewEdge(Node* src, int src_output, Node* dst, int dst_input) {
  Edge* edge = nullptr;
  if (free_edges_.empty()) {
    edge = edge_arena_.New();
  } else {
    edge = free_edges_.back();
    free_edges_.pop_back();
  }
  edge->src = src;
  edge->dst = dst;
  edge->src_output = src_output;
  edge->dst_input = dst_input;
  edge->id = static_cast<int>(edges_.size());
  edge->out_pos = static_cast<int>(src->out_edges_.size());
  edges_.push_back(edge);
  src->out_edges_.push_back(edge);
  return edge;
}

Edge* Graph::AddEdge(Node* src, int src_output, Node* dst, int dst_input) {
  MR_CHECK(src_output >= 0 && src_output < src->num_outputs());
  MR_CHECK(dst_input >= 0 && dst_input < dst->num_inputs() && dst->in_edges_[dst_input] == nullptr);
  Edge* edge = NewEdge(src, src_output, dst, dst_input);
  edge->in_pos = dst_input;
  dst->in_edges_[dst_input] = edge;
  return edge;
}

Edge* Graph::AddControlEdgeUnchecked(Node* src, Node* dst) {
  Edge* edge = NewEdge(src, Edge::kControlSlot, dst, Edge::kControlSlot);
  edge->in_pos = static_cast<int>(dst->in_edges_.size());
  dst->in_edges_.push_back(edge);
  return edge;
}

Edge* Graph::AddControlEdge(Node* src, Node* dst) {
  // Searches the shorter of the two lists.
  if (dst->control_in_edges().size() <= src->out_edges_.size()) {
    for (const Edge* edge : dst->control_in_edges()) {
      if (edge->src == src) return nullptr;
    }
  } else {
    for (const Edge* edge : src->out_edges_) {
      if (edge->IsControl() && edge->dst == dst) return nullptr;
    }
  }
  return AddControlEdgeUnchecked(src, dst);
}

void Graph::RemoveEdge(Edge* edge) {
  MR_CHECK(edge->id >= 0 && edges_[edge->id] == edge);
  SmallVector<Edge*, 2>& out = edge->src->out_edges_;
  out[edge->out_pos] = out.back();
  out[edge->out_pos]->out_pos = edge->out_pos;
  out.pop_back();
  SmallVector<Edge*, 2>& in = edge->dst->in_edges_;
  if (edge->IsControl()) {
    in[edge->in_pos] = in.back();
    in[edge->in_pos]->in_pos = edge->in_pos;
    in.pop_back();
  } else {
    in[edge->in_pos] = nullptr;
  }
  edges_[edge->id] = nullptr;
  *edge = Edge();
  free_edges_.push_back(edge);
}

void Graph::UpdateInput(Node* dst, int dst_input, Node* src, int src_output) {
  if (Edge* old = dst->in_edges_[dst_input]; old != nullptr) RemoveEdge(old);
  AddEdge(src, src_output, dst, dst_input);
}

Node* Graph::FindNode(std::string_view name) const {
  const int id = by_name_.Find(name, [this](int i) -> const std::string& { return nodes_[i]->name_; });
  return id < 0 ? nullptr : nodes_[id];
}

std::vector<Node*> Graph::OpNodes() const {
  std::vector<Node*> nodes;
  nodes.reserve(static_cast<size_t>(num_nodes_));
  for (size_t id = 2; id < nodes_.size(); ++id) {
    if (nodes_[id] != nullptr) nodes.push_back(nodes_[id]);
  }
  return nodes;
}

std::string Graph::NewName(std::string_view prefix) {
  std::string name(prefix);
  if (FindNode(name) == nullptr) return name;
  int& counter = name_counters_[name];
  do {
    name = StrCat(prefix, "_", ++counter);
  } while (FindNode(name) != nullptr);
  return name;
}

int Graph::InternDevice(std::string_view device) {
  if (const auto it = device_index_.find(device); it != device_index_.end()) return it->second;
  const int index = static_cast<int>(device_names_.size());
  device_names_.emplace_back(device);
  device_index_.emplace(device_names_.back(), index);
  return index;
}

void Graph::FixupNode(Node* node) {
  Edge* from_source = nullptr;
  bool has_input = false;
  for (Edge* edge : node->in_edges()) {
    if (edge == nullptr) continue;
    if (edge->src->IsSource()) {
      from_source = edge;
    } else {
      has_input = true;
    }
  }
  Edge* to_sink = nullptr;
  bool has_output = false;
  for (Edge* edge : node->out_edges()) {
    if (edge->dst->IsSink()) {
      to_sink = edge;
    } else {
      has_output = true;
    }
  }
  if (has_input && from_source != nullptr) RemoveEdge(from_source);
  if (!has_input && from_source == nullptr) AddControlEdgeUnchecked(source(), node);
  if (has_output && to_sink != nullptr) RemoveEdge(to_sink);
  if (!has_output && to_sink == nullptr) AddControlEdgeUnchecked(node, sink());
}

void Graph::FixupSourceAndSinkEdges() {
  for (size_t id = 2; id < nodes_.size(); ++id) {
    if (nodes_[id] != nullptr) FixupNode(nodes_[id]);
  }
}

void Graph::CopySettings(const Graph& from) {
  *functions_ = *from.functions_;
  versions_ = from.versions_;
  for (size_t i = 1; i < from.device_names_.size(); ++i) InternDevice(from.device_names_[i]);
}

Node* Graph::CopyNode(const Node& node, int id) {
  Node* copy = NewNode(node.name_, node.props_, id);
  copy->requested_device_ = node.requested_device_;
  copy->assigned_device_ = node.assigned_device_;
  return copy;
}

std::unique_ptr<Graph> Graph::Clone() const {
  std::unique_ptr<Graph> copy(new Graph(ops_, Bare{}));
  copy->CopySettings(*this);
  copy->nodes_.resize(nodes_.size());
  copy->by_name_.Reserve(static_cast<size_t>(num_nodes_));
  for (const Node* node : nodes_) {
    if (node != nullptr) copy->CopyNode(*node, node->id_);
  }
  copy->edges_.resize(edges_.size());
  for (const Edge* edge : edges_) {
    if (edge == nullptr) continue;
    Edge* e = copy->edge_arena_.New();
    *e = *edge;
    e->src = copy->nodes_[edge->src->id_];
    e->dst = copy->nodes_[edge->dst->id_];
    copy->edges_[edge->id] = e;
  }
  for (const Node* node : nodes_) {
    if (node == nullptr) continue;
    Node* n = copy->nodes_[node->id_];
    n->in_edges_.resize(node->in_edges_.size(), nullptr);
    for (const Edge* edge : node->in_edges_) {
      if (edge != nullptr) n->in_edges_[edge->in_pos] = copy->edges_[edge->id];
    }
    for (const Edge* edge : node->out_edges_) n->out_edges_.push_back(copy->edges_[edge->id]);
  }
  return copy;
}

std::unique_ptr<Graph> Graph::CloneSubset(const std::vector<bool>& keep, std::vector<int>* new_ids) const {
  auto copy = std::make_unique<Graph>(ops_);
  copy->CopySettings(*this);
  std::vector<const Node*> kept;
  std::vector<int> ids(nodes_.size(), -1);
  ids[kSourceId] = kSourceId;
  ids[kSinkId] = kSinkId;
  for (size_t id = 2; id < nodes_.size(); ++id) {
    if (!keep[id] || nodes_[id] == nullptr) continue;
    ids[id] = static_cast<int>(kept.size()) + 2;
    kept.push_back(nodes_[id]);
  }
  copy->nodes_.resize(kept.size() + 2);
  copy->by_name_.Reserve(kept.size() + 2);
  for (const Node* node : kept) copy->CopyNode(*node, ids[node->id_]);
  for (const Node* node : kept) {
    Node* dst = copy->nodes_[ids[node->id_]];
    for (const Edge* edge : node->in_edges_) {
      if (edge == nullptr || edge->src->IsSource() || ids[edge->src->id_] < 0) continue;
      Node* src = copy->nodes_[ids[edge->src->id_]];
      if (edge->IsControl()) {
        copy->AddControlEdgeUnchecked(src, dst);
      } else {
        copy->AddEdge(src, edge->src_output, dst, edge->dst_input);
      }
    }
  }
  if (new_ids != nullptr) *new_ids = std::move(ids);
  return copy;
}

std::unique_ptr<Graph> Graph::CloneInOrder(const std::vector<Node*>& order) const {
  auto copy = std::make_unique<Graph>(ops_);
  copy->CopySettings(*this);
  std::vector<Node*> copies(nodes_.size(), nullptr);
  copies[kSourceId] = copy->source();
  copies[kSinkId] = copy->sink();
  copy->nodes_.resize(order.size() + 2);
  copy->by_name_.Reserve(order.size() + 2);
  int id = 2;
  for (const Node* node : order) copies[node->id_] = copy->CopyNode(*node, id++);
  for (const Edge* edge : edges_) {
    if (edge == nullptr) continue;
    if (edge->IsControl()) {
      copy->AddControlEdgeUnchecked(copies[edge->src->id_], copies[edge->dst->id_]);
    } else {
      copy->AddEdge(copies[edge->src->id_], edge->src_output, copies[edge->dst->id_], edge->dst_input);
    }
  }
  return copy;
}

}  // namespace millrace
