// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/cse.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/hash.h"

namespace millrace {
namespace {

// An input as a number: the edges of one node with the same numbers bring the same values.
uint64_t InputNumber(const Edge& edge) {
  return static_cast<uint64_t>(edge.src->id()) << 32 | static_cast<uint32_t>(edge.src_output);
}

bool MayMerge(const Node& node) {
  const OpTraits& traits = node.traits();
  if (node.op_def().is_stateful || traits.never_fold || traits.is_control_flow || traits.is_send ||
      traits.is_recv || traits.is_variable || traits.has_side_effects) {
    return false;
  }
  for (const Edge* edge : node.data_in_edges()) {
    if (edge == nullptr || IsRefType(edge->src->output_type(edge->src_output))) return false;
  }
  const std::vector<DataType>& outputs = node.props().output_types;
  return std::none_of(outputs.begin(), outputs.end(),
                      [](DataType t) { return IsRefType(t) || t == DataType::kResource; });
}

// Equal for equal attributes. Of tensors only type, shape and the first bytes count: a large constant is not
// read whole for each look.
uint64_t HashOf(const AttrValue& value) {
  uint64_t hash = value.variant().index();
  if (const auto* tensor = value.As<std::shared_ptr<const Tensor>>()) {
    constexpr size_t kMaxBytes = 64;
    const Tensor& t = **tensor;
    hash = HashCombine(hash, static_cast<uint64_t>(t.dtype()));
    for (const int64_t size : t.shape().dims()) hash = HashCombine(hash, static_cast<uint64_t>(size));
    // Equal numbers have equal bytes save for zeros and the like, so floating point is left out, as are
    // strings.
    if ((IsIntegerType(t.dtype()) || t.dtype() == DataType::kBool) && t.IsInitialized()) {
      hash = Hash64({static_cast<const char*>(t.raw_data()), std::min(t.num_bytes(), kMaxBytes)}, hash);
    } else if (t.dtype() == DataType::kFloat && t.num_elements() > 0 && t.IsInitialized()) {
      const float first = t.data<float>()[0];
      if (first == first && first != 0) hash = HashCombine(hash, std::bit_cast<uint32_t>(first));
    }
    return hash;
  }
  if (const auto* s = value.As<std::string>()) return Hash64(*s, hash);
  if (const auto* i = value.As<int64_t>()) return HashCombine(hash, static_cast<uint64_t>(*i));
  if (const auto* b = value.As<bool>()) return HashCombine(hash, *b ? 1 : 0);
  if (const auto* t = value.As<DataType>()) return HashCombine(hash, static_cast<uint64_t>(*t));
  if (const auto* list = value.As<std::vector<int64_t>>()) {
    for (const int64_t i : *list) hash = HashCombine(hash, static_cast<uint64_t>(i));
  }
  return hash;
}

uint64_t HashOf(const NodeProps& props) {
  uint64_t hash = reinterpret_cast<uintptr_t>(props.op);
  for (const auto& [name, value] : props.attrs) hash = HashCombine(Hash64(name, hash), HashOf(value));
  return hash;
}

class Merger {
 public:
  explicit Merger(Graph* graph) : graph_(graph) {}

  StatusOr<int> Run() {
    MR_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(*graph_));
    int merged = 0;
    for (Node* node : order) {
      if (!node->IsOp() || !MayMerge(*node)) continue;
      FillInputs(*node, &inputs_);
      const uint64_t hash = Hash(*node, inputs_);
      Node* twin = FindTwin(*node, hash);
      if (twin == nullptr) {
        seen_.emplace(hash, node);
        continue;
      }
      Replace(node, twin);
      ++merged;
    }
    if (merged > 0) graph_->FixupSourceAndSinkEdges();
    return merged;
  }

 private:
  // Data inputs (sorted when their order has no meaning), then control inputs (sorted, _SOURCE left out).
  static void FillInputs(const Node& node, std::vector<uint64_t>* inputs) {
    inputs->clear();
    for (const Edge* edge : node.data_in_edges()) inputs->push_back(InputNumber(*edge));
    if (node.op_def().is_commutative) std::sort(inputs->begin(), inputs->end());
    const auto data = static_cast<std::ptrdiff_t>(inputs->size());
    for (const Edge* edge : node.control_in_edges()) {
      if (!edge->src->IsSource()) inputs->push_back(InputNumber(*edge));
    }
    std::sort(inputs->begin() + data, inputs->end());
    inputs->erase(std::unique(inputs->begin() + data, inputs->end()), inputs->end());
  }

  uint64_t Hash(const Node& node, const std::vector<uint64_t>& inputs) {
    if (&node.props() != last_props_) {
      last_props_ = &node.props();
      last_hash_ = HashOf(node.props());
    }
    uint64_t hash = HashCombine(last_hash_, static_cast<uint64_t>(node.assigned_device_index()));
    for (const uint64_t input : inputs) hash = HashCombine(hash, input);
    return hash;
  }

  Node* FindTwin(const Node& node, uint64_t hash) {
    const auto [first, last] = seen_.equal_range(hash);
    for (auto it = first; it != last; ++it) {
      Node* other = it->second;
      if (&other->op() != &node.op() || other->assigned_device_index() != node.assigned_device_index())
        continue;
      if (&other->props() != &node.props() && other->attrs() != node.attrs()) continue;
      FillInputs(*other, &other_inputs_);
      if (inputs_ == other_inputs_) return other;
    }
    return nullptr;
  }

  void Replace(Node* node, Node* twin) {
    while (!node->out_edges().empty()) {
      Edge* edge = node->out_edges().back();
      Node* dst = edge->dst;
      const int output = edge->src_output;
      const int input = edge->dst_input;
      graph_->RemoveEdge(edge);
      if (!dst->IsOp()) continue;
      if (output == Edge::kControlSlot) {
        graph_->AddControlEdge(twin, dst);
      } else {
        graph_->AddEdge(twin, output, dst, input);
      }
    }
    graph_->RemoveNode(node);
  }

  Graph* const graph_;
  std::unordered_multimap<uint64_t, Node*> seen_;
  std::vector<uint64_t> inputs_, other_inputs_;
  const NodeProps* last_props_ = nullptr;
  uint64_t last_hash_ = 0;
};

}  // namespace

StatusOr<int> EliminateCommonSubexpressions(Graph* graph) { return Merger(graph).Run(); }

}  // namespace millrace
