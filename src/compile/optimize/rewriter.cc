// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/rewriter.h"

#include <algorithm>
#include <utility>

#include "compile/optimize/arithmetic_rules.h"
#include "graph/constant_value.h"
#include "graph/frames.h"
#include "graph/function_library.h"
#include "op/shape_inference.h"

namespace millrace {
namespace {

bool IsValue(DataType type) { return !IsRefType(type) && type != DataType::kResource; }

bool TakesReference(const Node& node) {
  return std::any_of(node.data_in_edges().begin(), node.data_in_edges().end(), [](const Edge* e) {
    return e == nullptr || IsRefType(e->src->output_type(e->src_output));
  });
}

}  // namespace

bool IsPure(const Node& node) {
  const OpTraits& t = node.traits();
  if (!node.IsOp() || node.op_def().is_stateful || t.is_control_flow || t.is_send || t.is_recv ||
      t.is_variable || t.has_side_effects || WritesDumps(node)) {
    return false;
  }
  const NodeProps& props = node.props();
  if (!std::all_of(props.output_types.begin(), props.output_types.end(), IsValue) || TakesReference(node)) {
    return false;
  }
  const FunctionLibrary& functions = node.graph().functions();
  return functions.empty() || functions.Find(node.op_name()) == nullptr;
}

bool TakesInputsInAnyOrder(const Node& node) {
  return node.op_def().is_commutative ||
         (node.traits().associative && node.output_type(0) != DataType::kString);
}

bool HasControlInputs(const Node& node) {
  return std::any_of(node.control_in_edges().begin(), node.control_in_edges().end(),
                     [](const Edge* e) { return e->src->IsOp(); });
}

bool IsConstantEnter(const Node& node) {
  return node.traits().is_control_flow && node.op_name() == "Enter" &&
         node.attrs().Get<bool>("is_constant").value_or(false);
}

bool CanBeWaitedFor(const Node& node) {
  const Flow flow = FlowOf(node);
  return flow != Flow::kSwitch && flow != Flow::kNext;
}

const Tensor* ConstTensorOf(const Node& node) {
  const Node* from = &node;
  while (IsConstantEnter(*from)) from = InputOf(*from, 0).node;
  if (from != &node) return ConstTensorOf(*from);
  if (node.op_name() != "Const") return nullptr;
  const AttrValue* value = node.attrs().Find("value");
  const auto* tensor = value == nullptr ? nullptr : value->As<std::shared_ptr<const Tensor>>();
  return tensor == nullptr || !(*tensor)->IsInitialized() ? nullptr : tensor->get();
}

bool IsFreeConst(const Node& node) { return node.op_name() == "Const" && !HasControlInputs(node); }

int CountConsumers(const Node& node, int output) {
  return static_cast<int>(std::count_if(node.out_edges().begin(), node.out_edges().end(),
                                        [output](const Edge* e) { return e->src_output == output; }));
}

bool Rewriter::MustStay(const Node& node) const {
  return !(IsPure(node) || (node.traits().is_control_flow && node.num_outputs() > 0)) || IsPreserved(node);
}

bool Rewriter::HasKernel(const Node& like, const NodeProps& props) const {
  if (!options_.has_kernel) return true;
  // "/job:a/replica:0/task:0/device:TYPE:N"; no device means the client's.
  std::string_view device = like.assigned_device();
  std::string_view type = options_.client_device_type;
  if (const size_t at = device.rfind("device:"); at != std::string_view::npos) {
    device.remove_prefix(at + 7);
    type = device.substr(0, device.find(':'));
  }
  return options_.has_kernel(type, props);
}

void Rewriter::InferShapes() {
  shapes_.emplace(*graph_);
  const auto order = TopologicalOrder(*graph_);
  if (!order.ok()) return;
  for (const Node* node : *order) {
    if (node->IsOp()) shapes_->AddNode(*node).IgnoreError("an unknown shape only prevents some rewrites");
  }
}

const ShapeRefiner& Rewriter::shapes() {
  if (!shapes_) InferShapes();
  return *shapes_;
}

PartialShape Rewriter::ShapeOf(const TensorRef& tensor) {
  return shapes().OutputShape(*tensor.node, tensor.output);
}

// Element-wise: known compatible shapes, or equal shapes, even if unknown.
bool Rewriter::ShapesFit(const Node& node) {
  std::optional<TensorShape> shape;
  int unknown = 0;
  for (int i = 0; i < node.num_inputs(); ++i) {
    const auto input = ShapeOf(InputOf(node, i)).ToTensorShape();
    if (!input.ok()) {
      ++unknown;
      continue;
    }
    const auto both = shape ? BroadcastShapes(*shape, *input) : StatusOr<TensorShape>(*input);
    if (!both.ok()) return false;
    shape = *both;
  }
  return unknown == 0 || (unknown == 1 && (!shape || shape->rank() == 0));
}

bool Rewriter::CannotFail(const Node& node) {
  const OpTraits& traits = node.traits();
  if (node.op_name() == "Const") return true;
  if (traits.never_fold || traits.only_checks) return false;
  if (traits.forwards || traits.metadata_only) return true;
  if (node.op_name() == "MatMul") {
    // Inference has no result for incompatible matrices.
    return std::all_of(node.data_in_edges().begin(), node.data_in_edges().end(),
                       [this](const Edge* e) {
                         return ShapeOf({e->src, e->src_output}).ToTensorShape().ok();
                       }) &&
           shapes().OutputShape(node, 0).ToTensorShape().ok();
  }
  if (!traits.elementwise) return false;
  // Division of integers by zero, and negative powers, are errors.
  const bool integers =
      std::any_of(node.props().input_types.begin(), node.props().input_types.end(),
                  [](DataType t) { return arithmetic::IsExact(t) && t != DataType::kBool; });
  const bool any_number = !integers || node.num_inputs() == 1 || traits.associative ||
                          traits.right_unit == Unit::kZero || node.output_type(0) == DataType::kBool;
  return any_number && ShapesFit(node);
}

// All consumers of control-flow nodes or of values from outside may be dead.
void Rewriter::FindDeadness() {
  deadness_known_ = true;
  may_be_dead_.assign(static_cast<size_t>(graph_->num_node_ids()), false);
  std::vector<const Node*> queue;
  for (const Node* node : graph_->OpNodes()) {
    if (!node->traits().is_control_flow && !node->traits().is_recv) continue;
    may_be_dead_[static_cast<size_t>(node->id())] = true;
    queue.push_back(node);
  }
  while (!queue.empty()) {
    const Node* node = queue.back();
    queue.pop_back();
    for (const Edge* edge : node->out_edges()) {
      if (!edge->dst->IsOp() || may_be_dead_[static_cast<size_t>(edge->dst->id())]) continue;
      may_be_dead_[static_cast<size_t>(edge->dst->id())] = true;
      queue.push_back(edge->dst);
    }
  }
}

bool Rewriter::MayBeDead(const Node& node) {
  if (!deadness_known_) FindDeadness();
  const auto id = static_cast<size_t>(node.id());
  if (id < may_be_dead_.size()) return may_be_dead_[id];
  // A node that was added since is as dead as its inputs.
  return std::any_of(node.in_edges().begin(), node.in_edges().end(),
                     [this](const Edge* e) { return e != nullptr && e->src->IsOp() && MayBeDead(*e->src); });
}

Node* Rewriter::Add(const Node& like, std::string_view suffix, std::string_view op, AttrMap attrs,
                    const std::vector<TensorRef>& inputs) {
  const auto registration = graph_->LookUpOp(op);
  if (!registration.ok()) return nullptr;
  auto props = NodeProps::Make(**registration, std::move(attrs));
  if (!props.ok() || (*props)->input_types.size() != inputs.size() || !HasKernel(like, **props))
    return nullptr;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].node->output_type(inputs[i].output) != (*props)->input_types[i]) return nullptr;
  }
  Node* node = graph_->AddNodeWithProps(graph_->NewName(StrCat(like.name(), "/", suffix)), *std::move(props));
  node->set_requested_device_index(like.requested_device_index());
  node->set_assigned_device_index(like.assigned_device_index());
  for (size_t i = 0; i < inputs.size(); ++i)
    graph_->AddEdge(inputs[i].node, inputs[i].output, node, static_cast<int>(i));
  if (shapes_) shapes_->AddNode(*node).IgnoreError("an unknown shape only prevents some rewrites");
  return node;
}

Node* Rewriter::AddConst(const Node& like, std::string_view suffix, Tensor value,
                         const std::vector<Node*>& after) {
  AttrMap attrs;
  attrs.Set("dtype", value.dtype());
  attrs.Set("value", std::move(value));
  auto props = graph_->LookUpOp("Const");
  if (!props.ok()) return nullptr;
  auto made = NodeProps::Make(**props, std::move(attrs));
  if (!made.ok()) return nullptr;
  Node* node = graph_->AddNodeWithProps(graph_->NewName(StrCat(like.name(), "/", suffix)), *std::move(made));
  node->set_assigned_device_index(like.assigned_device_index());
  for (Node* wait : after) graph_->AddControlEdge(wait, node);
  if (shapes_) shapes_->AddNode(*node).IgnoreError("an unknown shape only prevents some rewrites");
  return node;
}

std::vector<Node*> Rewriter::ControlInputs(const Node& node) {
  std::vector<Node*> inputs;
  for (const Edge* edge : node.control_in_edges()) {
    if (edge->src->IsOp()) inputs.push_back(edge->src);
  }
  return inputs;
}

void Rewriter::MoveConsumers(const TensorRef& from, const TensorRef& to) {
  std::vector<Edge*> edges;
  for (Edge* edge : from.node->out_edges()) {
    if (edge->src_output == from.output) edges.push_back(edge);
  }
  for (Edge* edge : edges) {
    Node* dst = edge->dst;
    const int input = edge->dst_input;
    graph_->RemoveEdge(edge);
    graph_->AddEdge(to.node, to.output, dst, input);
  }
}

Node* Rewriter::Anchor(const Node& like, const TensorRef& tensor) {
  if (CanBeWaitedFor(*tensor.node)) return tensor.node;
  if (IsRefType(tensor.node->output_type(tensor.output))) return nullptr;
  const int device = like.assigned_device_index();
  const auto fits = [&](const Node& user) {
    return user.op_name() == "Identity" && InputOf(user, 0) == tensor && !HasControlInputs(user) &&
           user.assigned_device_index() == device;
  };
  // The search is not repeated for each of many consumers.
  const auto [known, is_new] = anchors_.try_emplace({tensor.node->id(), tensor.output, device}, 0);
  if (!is_new) {
    Node* const anchor = graph_->node(known->second);
    if (anchor != nullptr && anchor->IsOp() && fits(*anchor)) return anchor;
  }
  Node* anchor = nullptr;
  for (const Edge* edge : tensor.node->out_edges()) {
    if (edge->dst->IsOp() && fits(*edge->dst)) anchor = edge->dst;
    if (anchor != nullptr) break;
  }
  if (anchor == nullptr) {
    AttrMap attrs;
    attrs.Set("T", tensor.node->output_type(tensor.output));
    anchor = Add(like, "anchor", "Identity", std::move(attrs), {tensor});
  }
  if (anchor != nullptr) known->second = anchor->id();
  return anchor;
}

// Control edges from the inputs multiply with the consumers; a Merge is alive if one of its data inputs is,
// whatever its control inputs, so that nothing can be moved from a data input to a control input of one;
// waiting for a Switch is not waiting for one of its branches; and all of several outputs are dead if one
// input is.
bool Rewriter::CanReplace(const Node& node, const std::vector<TensorRef>& to) {
  const bool several = std::any_of(to.begin(), to.end(), [&](const TensorRef& t) { return t != to[0]; });
  if (several && MayBeDead(node)) return false;
  size_t waits = 0;
  for (const Edge* edge : node.control_in_edges()) waits += edge->src->IsOp() ? 1 : 0;
  size_t consumers = 0;
  bool waited_for = false;
  bool feeds_merge = false;
  bool same_devices = true;
  const int device = node.assigned_device_index();
  for (const Edge* edge : node.out_edges()) {
    if (!edge->dst->IsOp()) continue;
    ++consumers;
    waited_for |= edge->IsControl();
    feeds_merge |= FlowOf(*edge->dst) == Flow::kMerge;
    same_devices &= edge->dst->assigned_device_index() == device;
  }
  if (waits > 0 && (feeds_merge || waits * consumers > waits + consumers)) return false;
  for (const TensorRef& tensor : to) {
    if (IsRefType(tensor.node->output_type(tensor.output))) return false;
    if (waited_for && !CanBeWaitedFor(*tensor.node)) return false;
    // Otherwise the node may be the one that transfers the value only once.
    if (tensor.node->assigned_device_index() != device && !same_devices) return false;
  }
  return !IsPreserved(node);
}

void Rewriter::Replace(Node* node, const std::vector<TensorRef>& to) {
  const std::vector<Node*> waits = ControlInputs(*node);
  const std::vector<Edge*> edges(node->out_edges().begin(), node->out_edges().end());
  for (Edge* edge : edges) {
    Node* dst = edge->dst;
    if (!dst->IsOp()) continue;
    const int output = edge->src_output;
    const int input = edge->dst_input;
    graph_->RemoveEdge(edge);
    if (output == Edge::kControlSlot) {
      for (const TensorRef& tensor : to) {
        if (!IsFreeConst(*tensor.node)) graph_->AddControlEdge(tensor.node, dst);
      }
    } else {
      graph_->AddEdge(to[static_cast<size_t>(output)].node, to[static_cast<size_t>(output)].output, dst,
                      input);
    }
    for (Node* wait : waits) graph_->AddControlEdge(wait, dst);
  }
  RemoveUnused(node);
}

bool Rewriter::TryReplace(Node* node, const std::vector<TensorRef>& to,
                          const std::vector<TensorRef>& dropped) {
  if (!std::all_of(dropped.begin(), dropped.end(), CanDrop)) return false;
  std::vector<Edge*> added;
  for (const TensorRef& tensor : dropped) {
    if (IsFreeConst(*tensor.node)) continue;
    if (Edge* edge = graph_->AddControlEdge(tensor.node, node); edge != nullptr) added.push_back(edge);
  }
  if (CanReplace(*node, to)) {
    Replace(node, to);
    return true;
  }
  for (Edge* edge : added) graph_->RemoveEdge(edge);
  return false;
}

void Rewriter::Substitute(Node* node, Node* by, const std::vector<TensorRef>& dropped) {
  for (Node* wait : ControlInputs(*node)) graph_->AddControlEdge(wait, by);
  for (const TensorRef& tensor : dropped) {
    if (!IsFreeConst(*tensor.node)) graph_->AddControlEdge(tensor.node, by);
  }
  const std::vector<Edge*> edges(node->out_edges().begin(), node->out_edges().end());
  for (Edge* edge : edges) {
    Node* dst = edge->dst;
    if (!dst->IsOp()) continue;
    const int output = edge->src_output;
    const int input = edge->dst_input;
    graph_->RemoveEdge(edge);
    if (output == Edge::kControlSlot) {
      graph_->AddControlEdge(by, dst);
    } else {
      graph_->AddEdge(by, output, dst, input);
    }
  }
  RemoveUnused(node);
}

void Rewriter::RemoveUnused(Node* first) {
  std::vector<Node*> queue = {first};
  while (!queue.empty()) {
    Node* node = queue.back();
    queue.pop_back();
    if (!node->IsOp() || MustStay(*node)) continue;
    const bool used = std::any_of(node->out_edges().begin(), node->out_edges().end(),
                                  [](const Edge* e) { return e->dst->IsOp(); });
    if (used) continue;
    // A node may be in the queue twice; removed ones are no longer ops.
    for (const Edge* edge : node->in_edges()) {
      if (edge != nullptr && edge->src->IsOp()) queue.push_back(edge->src);
    }
    graph_->RemoveNode(node);
    ++removed_;
  }
}

int Rewriter::RemoveDead() {
  std::vector<bool> needed(static_cast<size_t>(graph_->num_node_ids()), false);
  std::vector<const Node*> queue;
  const std::vector<Node*> nodes = graph_->OpNodes();
  for (const Node* node : nodes) {
    if (!MustStay(*node)) continue;
    needed[static_cast<size_t>(node->id())] = true;
    queue.push_back(node);
  }
  while (!queue.empty()) {
    const Node* node = queue.back();
    queue.pop_back();
    for (const Edge* edge : node->in_edges()) {
      if (edge == nullptr || !edge->src->IsOp() || needed[static_cast<size_t>(edge->src->id())]) continue;
      needed[static_cast<size_t>(edge->src->id())] = true;
      queue.push_back(edge->src);
    }
  }
  int dead = 0;
  for (Node* node : nodes) {
    if (needed[static_cast<size_t>(node->id())]) continue;
    graph_->RemoveNode(node);
    ++dead;
  }
  removed_ += dead;
  return dead;
}

}  // namespace millrace
