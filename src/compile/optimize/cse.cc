// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/cse.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/hash.h"
#include "compile/optimize/rewriter.h"

namespace millrace {
namespace {

// An input as a number: edges with equal numbers carry the same value.
uint64_t InputNumber(const Edge& edge) {
  return static_cast<uint64_t>(edge.src->id()) << 32 | static_cast<uint32_t>(edge.src_output);
}

bool MayMerge(const Node& node) { return IsPure(node) && !node.traits().never_fold; }

// Hashes of attribute values that are equal if the values are. Everything is hashed, so that many constants
// which differ only at their ends don't have to be compared with each other.
struct AttrHash {
  uint64_t operator()(const std::monostate&) const { return 0; }
  uint64_t operator()(const EmptyList&) const { return 0; }
  uint64_t operator()(int64_t v) const { return static_cast<uint64_t>(v); }
  uint64_t operator()(bool v) const { return v ? 1 : 0; }
  uint64_t operator()(float v) const { return std::bit_cast<uint32_t>(v); }
  uint64_t operator()(DataType v) const { return static_cast<uint64_t>(v); }
  uint64_t operator()(const std::string& v) const { return Hash64(v); }
  uint64_t operator()(const AttrPlaceholder& v) const { return Hash64(v.name); }
  uint64_t operator()(const NameAttrList& v) const { return Hash64(v.name); }
  uint64_t operator()(const PartialShape& v) const { return v.unknown_rank() ? 1 : Sizes(v.dims()); }
  uint64_t operator()(const std::shared_ptr<const Tensor>& v) const { return (*this)(*v); }
  uint64_t operator()(const Tensor& t) const {
    const uint64_t hash = HashCombine(static_cast<uint64_t>(t.dtype()), Sizes(t.shape().dims()));
    if (!t.IsInitialized() || t.num_elements() == 0) return hash;
    if (t.dtype() == DataType::kString) {
      uint64_t h = hash;
      for (const std::string& s : t.flat<std::string>()) h = Hash64(s, h);
      return h;
    }
    if (DataTypeSize(t.dtype()) == 0) return hash;
    return Hash64({static_cast<const char*>(t.raw_data()), t.num_bytes()}, hash);
  }
  template <typename T>
  uint64_t operator()(const std::vector<T>& list) const {
    uint64_t hash = list.size();
    for (const auto& v : list) hash = HashCombine(hash, (*this)(v));
    return hash;
  }
  static uint64_t Sizes(std::span<const int64_t> sizes) {
    uint64_t hash = sizes.size();
    for (const int64_t size : sizes) hash = HashCombine(hash, static_cast<uint64_t>(size));
    return hash;
  }
};

uint64_t HashOf(const NodeProps& props) {
  uint64_t hash = reinterpret_cast<uintptr_t>(props.op);
  for (const auto& [name, value] : props.attrs)
    hash = HashCombine(Hash64(name, hash), std::visit(AttrHash{}, value.variant()));
  return hash;
}

// Nodes by hash, several of which may be equal. Only grows.
class SeenNodes {
 public:
  // REQUIRES: called once, before anything else; at most `count` insertions follow.
  void Reserve(size_t count) { slots_.resize(std::bit_ceil(count * 2 + 1)); }
  void Insert(uint64_t hash, Node* node) {
    size_t i = hash & (slots_.size() - 1);
    while (slots_[i].node != nullptr) i = (i + 1) & (slots_.size() - 1);
    slots_[i] = {hash, node};
  }
  // The first node with this hash for which `equal` is true; null if there is none.
  template <typename Equal>
  Node* Find(uint64_t hash, const Equal& equal) const {
    for (size_t i = hash & (slots_.size() - 1); slots_[i].node != nullptr;
         i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i].hash == hash && equal(*slots_[i].node)) return slots_[i].node;
    }
    return nullptr;
  }

 private:
  struct Slot {
    uint64_t hash = 0;
    Node* node = nullptr;
  };
  std::vector<Slot> slots_;
};

class Merger {
 public:
  explicit Merger(Graph* graph) : graph_(graph) {}

  StatusOr<int> Run() {
    MR_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(*graph_));
    seen_.Reserve(order.size());
    int merged = 0;
    for (Node* node : order) {
      if (!node->IsOp() || !MayMerge(*node)) continue;
      FillInputs(*node, &inputs_);
      const uint64_t hash = Hash(*node, inputs_);
      Node* equivalent = FindEquivalent(*node, hash);
      if (equivalent == nullptr) {
        seen_.Insert(hash, node);
        continue;
      }
      Replace(node, equivalent);
      ++merged;
    }
    if (merged > 0) graph_->FixupSourceAndSinkEdges();
    return merged;
  }

 private:
  // Data inputs (sorted if the op is commutative), then control inputs (sorted, without _SOURCE).
  static void FillInputs(const Node& node, std::vector<uint64_t>* inputs) {
    inputs->clear();
    for (const Edge* edge : node.data_in_edges()) inputs->push_back(InputNumber(*edge));
    if (TakesInputsInAnyOrder(node)) std::sort(inputs->begin(), inputs->end());
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

  Node* FindEquivalent(const Node& node, uint64_t hash) {
    return seen_.Find(hash, [&](const Node& other) {
      if (&other.op() != &node.op() || other.assigned_device_index() != node.assigned_device_index())
        return false;
      if (&other.props() != &node.props() && other.attrs() != node.attrs()) return false;
      FillInputs(other, &other_inputs_);
      return inputs_ == other_inputs_;
    });
  }

  void Replace(Node* node, Node* equivalent) {
    while (!node->out_edges().empty()) {
      Edge* edge = node->out_edges().back();
      Node* dst = edge->dst;
      const int output = edge->src_output;
      const int input = edge->dst_input;
      graph_->RemoveEdge(edge);
      if (!dst->IsOp()) continue;
      if (output == Edge::kControlSlot) {
        graph_->AddControlEdge(equivalent, dst);
      } else {
        graph_->AddEdge(equivalent, output, dst, input);
      }
    }
    graph_->RemoveNode(node);
  }

  Graph* const graph_;
  SeenNodes seen_;
  std::vector<uint64_t> inputs_, other_inputs_;
  const NodeProps* last_props_ = nullptr;
  uint64_t last_hash_ = 0;
};

}  // namespace

StatusOr<int> EliminateCommonSubexpressions(Graph* graph) { return Merger(graph).Run(); }

}  // namespace millrace
