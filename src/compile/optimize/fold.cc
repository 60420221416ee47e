// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/fold.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "graph/function_library.h"
#include "graph/shape_refiner.h"

namespace millrace {
namespace {

bool IsConst(const Node& node) { return node.op_name() == "Const"; }

bool IsPlain(DataType type) {
  return !IsRefType(type) && type != DataType::kResource && type != DataType::kVariant;
}

class Folder {
 public:
  Folder(Graph* graph, const FoldOptions& options) : graph_(graph), options_(options) {}

  StatusOr<int> Run() {
    MR_ASSIGN_OR_RETURN(order_, TopologicalOrder(*graph_));
    if (!HasWork()) return 0;
    InferShapesOfOrder();
    MR_RETURN_IF_ERROR(FoldMetadata());
    MarkConstants();
    MR_RETURN_IF_ERROR(Evaluate());
    graph_->FixupSourceAndSinkEdges();
    return replaced_;
  }

 private:
  using Output = std::pair<Node*, int>;

  bool HasWork() const;
  bool MayFold(const Node& node) const;
  bool InputsAreConstant(const Node& node) const;
  bool TooLarge(const Node& node) const;
  bool HasKernel(const Node& node) const {
    return !options_.has_kernel || options_.has_kernel(options_.client_device_type, node.props());
  }
  void InferShapesOfOrder();
  Status FoldMetadata();
  void MarkConstants();
  std::vector<Output> WantedOutputs() const;
  StatusOr<std::unique_ptr<Graph>> ConstantPart(const std::vector<Output>& wanted) const;
  Status Evaluate();
  Status Replace(Node* node, int output, Tensor value);
  void RemoveUnused(Node* node);
  bool is_constant(const Node& node) const {
    const auto id = static_cast<size_t>(node.id());
    return id < constant_.size() && constant_[id];
  }

  Graph* const graph_;
  const FoldOptions& options_;
  std::vector<Node*> order_;
  std::optional<ShapeRefiner> shapes_;
  std::vector<bool> constant_;  // by id
  int replaced_ = 0;
};

// A step that computes nothing from constants is the usual one and should cost next to nothing here.
bool Folder::HasWork() const {
  return std::any_of(order_.begin(), order_.end(), [](const Node* node) {
    if (node->traits().metadata_only) return true;
    if (!IsConst(*node)) return false;
    return std::any_of(node->out_edges().begin(), node->out_edges().end(),
                       [](const Edge* e) { return !e->IsControl() && e->dst->num_outputs() > 0; });
  });
}

// What shape inference can't see stays unknown: the graph was checked when it was imported.
void Folder::InferShapesOfOrder() {
  shapes_.emplace(*graph_);
  for (const Node* node : order_) {
    if (node->IsOp()) shapes_->AddNode(*node).IgnoreError("an unknown shape only means that less is folded");
  }
}

bool Folder::MayFold(const Node& node) const {
  const OpTraits& traits = node.traits();
  if (!node.IsOp() || node.num_outputs() == 0 || node.op_def().is_stateful || traits.never_fold ||
      traits.is_control_flow || traits.is_send || traits.is_recv || traits.is_variable ||
      traits.has_side_effects) {
    return false;
  }
  if (!graph_->functions().empty() && graph_->functions().Find(node.op_name()) != nullptr) return false;
  // A function in an attribute could do anything.
  for (const auto& [name, value] : node.attrs()) {
    if (value.As<NameAttrList>() != nullptr || value.As<std::vector<NameAttrList>>() != nullptr) return false;
  }
  const NodeProps& props = node.props();
  return std::all_of(props.output_types.begin(), props.output_types.end(), IsPlain) &&
         std::all_of(props.input_types.begin(), props.input_types.end(), IsPlain);
}

// Shape, Size and Rank of a tensor whose shape is known need no tensor at all.
Status Folder::FoldMetadata() {
  for (Node* node : order_) {
    if (!node->IsOp() || !node->traits().metadata_only || !MayFold(*node)) continue;
    const bool waits = std::any_of(node->control_in_edges().begin(), node->control_in_edges().end(),
                                   [](const Edge* e) { return e->src->IsOp(); });
    if (waits) continue;
    // Asked for all outputs first: replacing the last one removes the node.
    std::vector<StatusOr<Tensor>> values;
    for (int i = 0; i < node->num_outputs(); ++i) values.push_back(ConstantValue(*node, i, &*shapes_));
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i].ok()) MR_RETURN_IF_ERROR(Replace(node, static_cast<int>(i), *std::move(values[i])));
    }
  }
  MR_ASSIGN_OR_RETURN(order_, TopologicalOrder(*graph_));
  return Status();
}

// Constants that wait for something else are left alone: in loops and branches that is what keeps them in
// their place.
bool Folder::InputsAreConstant(const Node& node) const {
  for (const Edge* edge : node.in_edges()) {
    if (edge == nullptr) return false;
    if (edge->src->IsOp() && !is_constant(*edge->src)) return false;
  }
  return true;
}

bool Folder::TooLarge(const Node& node) const {
  for (int i = 0; i < node.num_outputs(); ++i) {
    const auto shape = shapes_->OutputShape(node, i).ToTensorShape();
    const auto size = static_cast<int64_t>(std::max<size_t>(DataTypeSize(node.output_type(i)), 1));
    if (shape.ok() && shape->num_elements() > options_.max_bytes / size) return true;
  }
  return false;
}

void Folder::MarkConstants() {
  constant_.assign(static_cast<size_t>(graph_->num_node_ids()), false);
  for (const Node* node : order_) {
    if (!MayFold(*node) || !InputsAreConstant(*node)) continue;
    if (!IsConst(*node) && (node->num_inputs() == 0 || TooLarge(*node) || !HasKernel(*node))) continue;
    constant_[static_cast<size_t>(node->id())] = true;
  }
}

// Outputs of computed constants that something not constant consumes.
std::vector<Folder::Output> Folder::WantedOutputs() const {
  std::vector<Output> wanted;
  std::vector<bool> seen;
  for (Node* node : order_) {
    if (!node->IsOp() || !is_constant(*node) || IsConst(*node)) continue;
    seen.assign(static_cast<size_t>(node->num_outputs()), false);
    for (const Edge* edge : node->out_edges()) {
      if (edge->IsControl() || is_constant(*edge->dst) || seen[static_cast<size_t>(edge->src_output)])
        continue;
      seen[static_cast<size_t>(edge->src_output)] = true;
      wanted.emplace_back(node, edge->src_output);
    }
  }
  return wanted;
}

StatusOr<std::unique_ptr<Graph>> Folder::ConstantPart(const std::vector<Output>& wanted) const {
  std::vector<bool> keep(static_cast<size_t>(graph_->num_node_ids()), false);
  std::vector<const Node*> queue;
  const auto visit = [&](const Node* node) {
    if (!node->IsOp() || keep[static_cast<size_t>(node->id())]) return;
    keep[static_cast<size_t>(node->id())] = true;
    queue.push_back(node);
  };
  for (const Output& output : wanted) visit(output.first);
  for (size_t next = 0; next < queue.size(); ++next) {
    for (const Edge* edge : queue[next]->in_edges()) visit(edge->src);
  }
  std::vector<int> new_ids;
  std::unique_ptr<Graph> part = graph_->CloneSubset(keep, &new_ids);
  const int client = part->InternDevice(options_.client_device);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto [node, output] = wanted[i];
    AttrMap attrs;
    attrs.Set("T", node->output_type(output));
    attrs.Set("index", static_cast<int64_t>(i));
    const std::string name = part->NewName(StrCat("_retval_", node->name(), "_", output, "_", i));
    MR_ASSIGN_OR_RETURN(Node * result, part->AddNode(name, "_Retval", std::move(attrs)));
    part->AddEdge(part->node(new_ids[static_cast<size_t>(node->id())]), output, result, 0);
  }
  for (Node* node : part->OpNodes()) node->set_assigned_device_index(client);
  part->FixupSourceAndSinkEdges();
  return part;
}

Status Folder::Evaluate() {
  const std::vector<Output> wanted = WantedOutputs();
  if (wanted.empty()) return Status();
  MR_ASSIGN_OR_RETURN(std::unique_ptr<Graph> part, ConstantPart(wanted));
  auto values = options_.evaluator->Evaluate(std::move(part), static_cast<int>(wanted.size()));
  if (!values.ok() || values->size() != wanted.size()) return Status();
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto [node, output] = wanted[i];
    Tensor& value = (*values)[i];
    const bool fits = static_cast<int64_t>(value.num_bytes()) <= options_.max_bytes && value.IsInitialized();
    if (!fits || value.dtype() != node->output_type(output)) continue;
    MR_RETURN_IF_ERROR(Replace(node, output, std::move(value)));
  }
  return Status();
}

// Points the consumers of an output at a constant. A value with no consumer left takes its node with it.
Status Folder::Replace(Node* node, int output, Tensor value) {
  std::vector<Edge*> edges;
  for (Edge* edge : node->out_edges()) {
    if (edge->src_output == output) edges.push_back(edge);
  }
  if (edges.empty()) return Status();
  AttrMap attrs;
  attrs.Set("dtype", value.dtype());
  attrs.Set("value", std::move(value));
  const std::string name = graph_->NewName(StrCat(node->name(), "/__cf__", output));
  MR_ASSIGN_OR_RETURN(Node * constant, graph_->AddNode(name, "Const", std::move(attrs)));
  constant->set_assigned_device_index(node->assigned_device_index());
  for (Edge* edge : edges) {
    Node* dst = edge->dst;
    const int input = edge->dst_input;
    graph_->RemoveEdge(edge);
    graph_->AddEdge(constant, 0, dst, input);
  }
  ++replaced_;
  RemoveUnused(node);
  return Status();
}

// Removes `first` and what it alone needed. Who waits for a constant waits for nothing, so such control edges
// go, too.
void Folder::RemoveUnused(Node* first) {
  std::vector<Node*> queue = {first};
  while (!queue.empty()) {
    Node* node = queue.back();
    queue.pop_back();
    if (!node->IsOp() || !MayFold(*node) || options_.preserve.contains(node->name())) continue;
    const bool constant = is_constant(*node);
    const bool used = std::any_of(node->out_edges().begin(), node->out_edges().end(), [&](const Edge* e) {
      return e->dst->IsOp() && !(constant && e->IsControl());
    });
    if (used) continue;
    std::vector<Node*> inputs;
    for (const Edge* edge : node->in_edges()) {
      if (edge != nullptr && std::find(inputs.begin(), inputs.end(), edge->src) == inputs.end()) {
        inputs.push_back(edge->src);
      }
    }
    graph_->RemoveNode(node);
    queue.insert(queue.end(), inputs.begin(), inputs.end());
  }
}

}  // namespace

StatusOr<int> FoldConstants(Graph* graph, const FoldOptions& options) { return Folder(graph, options).Run(); }

}  // namespace millrace
