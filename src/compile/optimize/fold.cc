// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/fold.h"

#include <algorithm>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/frames.h"
#include "graph/shape_refiner.h"

namespace millrace {
namespace {

bool IsConst(const Node& node) { return node.op_name() == "Const"; }

bool IsPlain(DataType type) {
  return !IsRefType(type) && type != DataType::kResource && type != DataType::kVariant;
}

bool IsInteger(DataType type) { return type == DataType::kInt32 || type == DataType::kInt64; }

// A constant that waits for more than this many nodes isn't worth its edges.
constexpr size_t kMaxWaits = 8;
// The constants that one call adds have at most this many times the limit of one tensor.
constexpr int64_t kTotalFactor = 16;
// The limit of the results of one call, as a multiple of the limit of one tensor: all of them may be in
// memory at once.
constexpr int64_t kComputedFactor = 64;
// The number of failed evaluations after which the call stops evaluating.
constexpr int kMaxFailures = 32;

class Folder {
 public:
  Folder(Graph* graph, const OptimizeOptions& options)
      : graph_(graph),
        options_(options),
        rewriter_(graph, options),
        bytes_left_(options.compile.max_folded_constant_bytes * kTotalFactor),
        computed_left_(options.compile.max_folded_constant_bytes * kComputedFactor) {}

  StatusOr<int> Fold() {
    if (options_.evaluator == nullptr || !HasConstants()) return 0;
    MR_ASSIGN_OR_RETURN(order_, TopologicalOrder(*graph_));
    MarkConstants();
    MR_RETURN_IF_ERROR(Evaluate());
    return Done();
  }

  StatusOr<int> Shapes() {
    if (!HasMetadata()) return 0;
    MR_ASSIGN_OR_RETURN(order_, TopologicalOrder(*graph_));
    FoldShapes();
    return Done();
  }

 private:
  // The outputs for which a constant waits: output kControlSlot of a node, or one output of a Switch, without
  // duplicates.
  using Waits = std::vector<TensorRef>;

  bool HasConstants() const;
  bool HasMetadata() const;
  int Done();
  bool MayFold(const Node& node) const;
  bool FitsBounds(Node* node);
  bool HasKernel(const Node& node) const {
    return !options_.has_kernel || options_.has_kernel(options_.client_device_type, node.props());
  }
  void FoldShapes();
  std::optional<std::vector<Node*>> WaitsOfKnown(Node* node);
  bool IsCarrier(const Node& node) const;
  bool MayCarry(const Node& node) const;
  void MarkConstants();
  std::optional<Waits> WaitsOfConstant(const Node& node) const;
  std::optional<std::vector<Node*>> NodesToWaitFor(const Node& constant);
  std::vector<TensorRef> WantedOutputs() const;
  StatusOr<std::unique_ptr<Graph>> ConstantPart(std::span<const TensorRef> wanted) const;
  Status Evaluate();
  Status EvaluateSome(std::span<const TensorRef> wanted, int* failures_left,
                      std::vector<std::optional<Tensor>>* values);
  void DropEmptyWaits();
  void Replace(Node* node, std::vector<std::pair<int, Tensor>> values, const std::vector<Node*>& waits);
  // Whether the node is a constant, or forwards one.
  bool is_constant(const Node& node) const {
    const auto id = static_cast<size_t>(node.id());
    return id < constant_.size() && constant_[id];
  }
  const Waits& waits_of(const Node& node) const {
    static const Waits* const kNone = new Waits;
    const auto it = waits_.find(node.id());
    return it == waits_.end() ? *kNone : it->second;
  }

  Graph* const graph_;
  const OptimizeOptions& options_;
  Rewriter rewriter_;
  std::vector<Node*> order_;
  std::vector<bool> constant_;            // by id
  std::vector<bool> carrier_;             // by id
  std::unordered_map<int, Waits> waits_;  // of constants that wait for something, by id
  int64_t bytes_left_;
  int64_t computed_left_;
  int replaced_ = 0;
};

// Most steps compute nothing from constants, and should cost almost nothing here.
bool Folder::HasConstants() const {
  for (int id = 2; id < graph_->num_node_ids(); ++id) {
    const Node* node = graph_->node(id);
    if (node == nullptr || !IsConst(*node)) continue;
    if (std::any_of(node->out_edges().begin(), node->out_edges().end(),
                    [](const Edge* e) { return !e->IsControl() && e->dst->num_outputs() > 0; })) {
      return true;
    }
  }
  return false;
}

bool Folder::HasMetadata() const {
  for (int id = 2; id < graph_->num_node_ids(); ++id) {
    const Node* node = graph_->node(id);
    if (node != nullptr && node->traits().metadata_only) return true;
  }
  return false;
}

int Folder::Done() {
  graph_->FixupSourceAndSinkEdges();
  return replaced_;
}

bool Folder::MayFold(const Node& node) const {
  if (!IsPure(node) || node.num_outputs() == 0 || node.traits().never_fold) return false;
  // A function in an attribute may have any effect.
  for (const auto& [name, value] : node.attrs()) {
    if (value.As<NameAttrList>() != nullptr || value.As<std::vector<NameAttrList>>() != nullptr) return false;
  }
  const NodeProps& props = node.props();
  return std::all_of(props.output_types.begin(), props.output_types.end(), IsPlain) &&
         std::all_of(props.input_types.begin(), props.input_types.end(), IsPlain);
}

// The nodes for which a constant must wait although its value is known without its inputs: if inputs may be
// dead, it must be dead (and belong to a frame) with them.
std::optional<std::vector<Node*>> Folder::WaitsOfKnown(Node* node) {
  std::vector<Node*> waits = Rewriter::ControlInputs(*node);
  if (!rewriter_.MayBeDead(*node)) return waits;
  for (int i = 0; i < node->num_inputs(); ++i) {
    const TensorRef input = InputOf(*node, i);
    if (IsFreeConst(*input.node)) continue;
    // Waiting for a Switch is not waiting for one of its branches.
    waits.push_back(rewriter_.Anchor(*node, input));
    if (waits.back() == nullptr) return std::nullopt;
  }
  return waits;
}

// Shape, Size and Rank of a tensor of known shape need no tensor, nor do ops that select known sizes from a
// shape with unknown ones.
void Folder::FoldShapes() {
  std::vector<bool> from_shape(static_cast<size_t>(graph_->num_node_ids()), false);
  for (Node* node : order_) {
    if (!node->IsOp() || node->num_outputs() == 0 || !IsInteger(node->output_type(0))) continue;
    bool ask = node->traits().metadata_only;
    for (const Edge* edge : node->data_in_edges()) {
      const auto id = static_cast<size_t>(edge->src->id());
      ask |= id >= from_shape.size() || from_shape[id];  // added constants come from shapes
    }
    if (!ask || !MayFold(*node)) continue;
    from_shape[static_cast<size_t>(node->id())] = true;
    std::vector<bool> used(static_cast<size_t>(node->num_outputs()), false);
    for (const Edge* edge : node->out_edges()) {
      if (!edge->IsControl()) used[static_cast<size_t>(edge->src_output)] = true;
    }
    std::vector<std::pair<int, Tensor>> known;
    for (int i = 0; i < node->num_outputs(); ++i) {
      if (!used[static_cast<size_t>(i)]) continue;
      auto value = ConstantValue(*node, i, &rewriter_.shapes());
      if (value.ok() && value->dtype() == node->output_type(i)) known.emplace_back(i, *std::move(value));
    }
    if (known.empty()) continue;
    const std::optional<std::vector<Node*>> waits = WaitsOfKnown(node);
    if (!waits) continue;
    Replace(node, std::move(known), *waits);
    rewriter_.RemoveUnused(node);
  }
}

// Whether a node with constant inputs may be computed. An unknown size of a result may depend on an input
// that is not computed yet (of Fill, Range, …); then the node waits for the next round.
bool Folder::FitsBounds(Node* node) {
  int64_t bytes = 0;
  for (int i = 0; i < node->num_outputs(); ++i) {
    const auto shape = rewriter_.ShapeOf({node, i}).ToTensorShape();
    if (!shape.ok()) {
      const OpTraits& traits = node->traits();
      if (traits.elementwise || traits.forwards || traits.metadata_only || !node->op().shape_fn) continue;
      if (!std::all_of(node->data_in_edges().begin(), node->data_in_edges().end(),
                       [](const Edge* e) { return IsConst(*e->src); }))
        return false;
      continue;
    }
    const auto size = static_cast<int64_t>(std::max<size_t>(DataTypeSize(node->output_type(i)), 1));
    if (shape->num_elements() > options_.compile.max_folded_constant_bytes / size) return false;
    bytes += shape->num_elements() * size;
    if (bytes > computed_left_) return false;
  }
  computed_left_ -= bytes;
  return true;
}

// The nodes for which the inputs and the node itself wait; nullopt if there are too many. A consumer of a
// constant waits for the same nodes as the constant; a consumer of a Switch or an Enter waits for these.
std::optional<Folder::Waits> Folder::WaitsOfConstant(const Node& node) const {
  Waits waits;
  for (const Edge* edge : node.in_edges()) {
    if (!edge->src->IsOp()) continue;
    if (is_constant(*edge->src) && !IsCarrier(*edge->src)) {
      const Waits& more = waits_of(*edge->src);
      waits.insert(waits.end(), more.begin(), more.end());
    } else {
      waits.push_back({edge->src, CanBeWaitedFor(*edge->src) ? Edge::kControlSlot : edge->src_output});
    }
    if (waits.size() > 4 * kMaxWaits) return std::nullopt;
  }
  std::sort(waits.begin(), waits.end(), [](const TensorRef& a, const TensorRef& b) {
    return a.node->id() != b.node->id() ? a.node->id() < b.node->id() : a.output < b.output;
  });
  waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
  if (waits.size() > kMaxWaits) return std::nullopt;
  return waits;
}

// Whether a node carries a constant to each iteration of a loop or to a branch, or forwards it there. Such
// nodes do not become constants themselves.
bool Folder::IsCarrier(const Node& node) const {
  const auto id = static_cast<size_t>(node.id());
  return id < carrier_.size() && carrier_[id];
}

bool Folder::MayCarry(const Node& node) const {
  if (!node.IsOp()) return false;
  if (FlowOf(node) == Flow::kSwitch || IsConstantEnter(node)) return true;
  return node.traits().forwards && node.num_inputs() == 1 && MayFold(node) &&
         IsCarrier(*InputOf(node, 0).node);
}

void Folder::MarkConstants() {
  constant_.assign(static_cast<size_t>(graph_->num_node_ids()), false);
  carrier_.assign(constant_.size(), false);
  for (Node* node : order_) {
    const auto id = static_cast<size_t>(node->id());
    if (MayCarry(*node)) {
      const TensorRef data = InputOf(*node, 0);
      carrier_[id] = is_constant(*data.node) && IsPlain(data.node->output_type(data.output));
      constant_[id] = carrier_[id];
      if (carrier_[id]) continue;
    }
    if (!MayFold(*node)) continue;
    const bool inputs = std::all_of(node->data_in_edges().begin(), node->data_in_edges().end(),
                                    [this](const Edge* e) { return is_constant(*e->src); });
    if (!inputs) continue;
    if (!IsConst(*node) && (node->num_inputs() == 0 || !HasKernel(*node))) continue;
    std::optional<Waits> waits = WaitsOfConstant(*node);
    if (!waits || (!IsConst(*node) && !FitsBounds(node))) continue;
    constant_[id] = true;
    if (!waits->empty()) waits_[node->id()] = *std::move(waits);
  }
}

// Outputs of computed constants that are inputs of other nodes.
std::vector<TensorRef> Folder::WantedOutputs() const {
  std::vector<TensorRef> wanted;
  std::vector<bool> seen;
  for (Node* node : order_) {
    if (!node->IsOp() || !is_constant(*node) || IsConst(*node) || IsCarrier(*node)) continue;
    seen.assign(static_cast<size_t>(node->num_outputs()), false);
    for (const Edge* edge : node->out_edges()) {
      if (edge->IsControl() || seen[static_cast<size_t>(edge->src_output)]) continue;
      if (is_constant(*edge->dst) && !IsCarrier(*edge->dst)) continue;
      seen[static_cast<size_t>(edge->src_output)] = true;
      wanted.push_back({node, edge->src_output});
    }
  }
  return wanted;
}

StatusOr<std::unique_ptr<Graph>> Folder::ConstantPart(std::span<const TensorRef> wanted) const {
  std::vector<bool> keep(static_cast<size_t>(graph_->num_node_ids()), false);
  std::vector<Node*> queue;
  const auto visit = [&](Node* node) {
    if (!node->IsOp() || keep[static_cast<size_t>(node->id())]) return;
    keep[static_cast<size_t>(node->id())] = true;
    queue.push_back(node);
  };
  for (const TensorRef& tensor : wanted) visit(tensor.node);
  for (size_t next = 0; next < queue.size(); ++next) {
    const auto inputs = queue[next]->data_in_edges();
    for (const Edge* edge : inputs.first(IsCarrier(*queue[next]) ? 1 : inputs.size())) visit(edge->src);
  }
  std::vector<int> new_ids;
  std::unique_ptr<Graph> part = graph_->CloneSubset(keep, &new_ids);
  const auto copy_of = [&](const Node& node) { return part->node(new_ids[static_cast<size_t>(node.id())]); };
  // A consumer of a carrier gets the constant from the carrier's source.
  for (const Node* node : queue) {
    if (IsCarrier(*node)) continue;
    for (int i = 0; i < node->num_inputs(); ++i) {
      TensorRef from = InputOf(*node, i);
      if (!IsCarrier(*from.node)) continue;
      while (IsCarrier(*from.node)) from = InputOf(*from.node, 0);
      part->UpdateInput(copy_of(*node), i, copy_of(*from.node), from.output);
    }
  }
  for (const Node* node : queue) {
    if (IsCarrier(*node)) part->RemoveNode(copy_of(*node));
  }
  const int client = part->InternDevice(options_.client_device);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto [node, output] = wanted[i];
    AttrMap attrs;
    attrs.Set("T", node->output_type(output));
    attrs.Set("index", static_cast<int64_t>(i));
    const std::string name = part->NewName(StrCat("_retval_", node->name(), "_", output, "_", i));
    MR_ASSIGN_OR_RETURN(Node * result, part->AddNode(name, "_Retval", std::move(attrs)));
    part->AddEdge(copy_of(*node), output, result, 0);
  }
  for (Node* node : part->OpNodes()) node->set_assigned_device_index(client);
  part->FixupSourceAndSinkEdges();
  return part;
}

// A failed computation, which may be in a branch that is never taken, does not prevent the others: these are
// found by bisection. Failed ones have no value.
Status Folder::EvaluateSome(std::span<const TensorRef> wanted, int* failures_left,
                            std::vector<std::optional<Tensor>>* values) {
  MR_ASSIGN_OR_RETURN(std::unique_ptr<Graph> part, ConstantPart(wanted));
  auto some = options_.evaluator->Evaluate(std::move(part), static_cast<int>(wanted.size()));
  if (some.ok() && some->size() == wanted.size()) {
    for (Tensor& value : *some) values->emplace_back(std::move(value));
    return Status();
  }
  if (wanted.size() == 1 || --*failures_left < 0) {
    values->resize(values->size() + wanted.size());
    return Status();
  }
  const size_t half = wanted.size() / 2;
  MR_RETURN_IF_ERROR(EvaluateSome(wanted.first(half), failures_left, values));
  return EvaluateSome(wanted.subspan(half), failures_left, values);
}

Status Folder::Evaluate() {
  const std::vector<TensorRef> wanted = WantedOutputs();
  if (wanted.empty()) return Status();
  std::vector<std::optional<Tensor>> values;
  int failures_left = kMaxFailures;
  MR_RETURN_IF_ERROR(EvaluateSome(wanted, &failures_left, &values));
  if (std::none_of(values.begin(), values.end(), [](const auto& v) { return v.has_value(); }))
    return Status();
  DropEmptyWaits();
  for (size_t i = 0; i < wanted.size();) {
    Node* const node = wanted[i].node;
    std::vector<std::pair<int, Tensor>> known;
    for (; i < wanted.size() && wanted[i].node == node; ++i) {
      std::optional<Tensor>& value = values[i];
      const int output = wanted[i].output;
      if (value && static_cast<int64_t>(value->num_bytes()) <= options_.compile.max_folded_constant_bytes &&
          value->IsInitialized() && value->dtype() == node->output_type(output))
        known.emplace_back(output, *std::move(value));
    }
    if (known.empty()) continue;
    const std::optional<std::vector<Node*>> waits = NodesToWaitFor(*node);
    if (waits) Replace(node, std::move(known), *waits);
  }
  // Only now, as a wanted output may belong to a node that was replaced by another one first.
  for (const TensorRef& tensor : wanted) rewriter_.RemoveUnused(tensor.node);
  return Status();
}

std::optional<std::vector<Node*>> Folder::NodesToWaitFor(const Node& constant) {
  std::vector<Node*> nodes;
  for (const TensorRef& wait : waits_of(constant)) {
    Node* node = wait.output == Edge::kControlSlot ? wait.node : rewriter_.Anchor(constant, wait);
    if (node == nullptr) return std::nullopt;
    nodes.push_back(node);
  }
  return nodes;
}

// Removes control inputs from constants that wait for nothing.
void Folder::DropEmptyWaits() {
  std::vector<Edge*> edges;
  for (const Node* node : order_) {
    if (!node->IsOp() || !is_constant(*node) || IsCarrier(*node) || !waits_of(*node).empty()) continue;
    for (Edge* edge : node->out_edges()) {
      if (edge->IsControl() && edge->dst->IsOp()) edges.push_back(edge);
    }
  }
  for (Edge* edge : edges) graph_->RemoveEdge(edge);
}

// Replaces outputs by constants in their consumers, and, once no output is used, in control outputs.
void Folder::Replace(Node* node, std::vector<std::pair<int, Tensor>> values,
                     const std::vector<Node*>& waits) {
  std::vector<Node*> constants(static_cast<size_t>(node->num_outputs()), nullptr);
  Node* last = nullptr;
  for (auto& [output, value] : values) {
    bytes_left_ -= static_cast<int64_t>(value.num_bytes());
    if (bytes_left_ < 0) break;
    Node* constant = rewriter_.AddConst(*node, StrCat("__cf__", output), std::move(value), waits);
    if (constant == nullptr) continue;
    constants[static_cast<size_t>(output)] = last = constant;
    ++replaced_;
  }
  if (last == nullptr) return;
  const std::vector<Edge*> edges(node->out_edges().begin(), node->out_edges().end());
  std::vector<Edge*> waiting;
  bool used = rewriter_.IsPreserved(*node);
  for (Edge* edge : edges) {
    if (edge->IsControl()) {
      if (edge->dst->IsOp()) waiting.push_back(edge);
    } else if (Node* constant = constants[static_cast<size_t>(edge->src_output)]; constant != nullptr) {
      graph_->UpdateInput(edge->dst, edge->dst_input, constant, 0);
    } else {
      used = true;
    }
  }
  if (used) return;
  for (Edge* edge : waiting) {
    Node* dst = edge->dst;
    graph_->RemoveEdge(edge);
    if (!waits.empty()) graph_->AddControlEdge(last, dst);
  }
}

}  // namespace

StatusOr<int> FoldConstants(Graph* graph, const OptimizeOptions& options) {
  return Folder(graph, options).Fold();
}

StatusOr<int> MaterializeShapes(Graph* graph, const OptimizeOptions& options) {
  return Folder(graph, options).Shapes();
}

}  // namespace millrace
