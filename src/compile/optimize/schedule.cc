// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/schedule.h"

#include <algorithm>
#include <array>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>

namespace millrace {
namespace {

// Larger graphs run in the order in which they were built, so that compilation stays linear.
constexpr int kMaxNodes = 100'000;
// Assumed values of unknown sizes, which are mostly batch sizes: an order that is better for one may be worse
// for another.
constexpr std::array<int64_t, 3> kUnknownDims = {32, 1, 1024};
// The order is only changed if that saves this much for one of them: the memory that kernels use internally
// is unknown.
constexpr int64_t kLeastPercent = 5;
constexpr int64_t kMaxBytes = int64_t{1} << 50;
constexpr int64_t kMaxReportedKib = int64_t{1} << 30;  // counts of all passes are added in an int

// Sizes of tensors, and which tensors share memory.
class Model {
 public:
  Model(const std::vector<Node*>& order, const ShapeRefiner& shapes, int64_t unknown_dim) {
    int ids = 0;
    for (const Node* node : order) ids = std::max(ids, node->id() + 1);
    first_.assign(static_cast<size_t>(ids), 0);
    for (const Node* node : order) {
      first_[static_cast<size_t>(node->id())] = static_cast<int>(owner_.size());
      for (int i = 0; i < node->num_outputs(); ++i) {
        const auto me = static_cast<int>(owner_.size());
        owner_.push_back(me);
        bytes_.push_back(Counts(*node) ? BytesOf(*node, i, shapes, unknown_dim) : 0);
        uses_.push_back(0);
        // A view uses the memory of its input.
        if (node->traits().aliasing && node->num_inputs() > 0) {
          const int shared = NumberOf(*node->in_edges()[0]);
          if (shared >= 0) owner_.back() = owner_[static_cast<size_t>(shared)];
        }
      }
    }
    for (const Node* node : order) {
      for (const Edge* edge : node->data_in_edges()) {
        if (NumberOf(*edge) >= 0) ++uses_[OwnerOf(*edge)];
      }
    }
  }

  size_t OwnerOf(const Edge& edge) const {
    return static_cast<size_t>(owner_[static_cast<size_t>(NumberOf(edge))]);
  }
  size_t OwnerOf(const Node& node, int output) const {
    return static_cast<size_t>(owner_[static_cast<size_t>(first_[static_cast<size_t>(node.id())] + output)]);
  }
  size_t NumberOf(const Node& node, int output) const {
    return static_cast<size_t>(first_[static_cast<size_t>(node.id())] + output);
  }
  int64_t bytes(size_t tensor) const { return bytes_[tensor]; }
  const std::vector<int>& uses() const { return uses_; }

 private:
  static bool Counts(const Node& node) {
    return !node.traits().is_variable && node.op_name() != "Const" && node.op_name() != "_Arg";
  }
  int NumberOf(const Edge& edge) const {
    if (!edge.src->IsOp()) return -1;
    return first_[static_cast<size_t>(edge.src->id())] + edge.src_output;
  }
  static int64_t BytesOf(const Node& node, int output, const ShapeRefiner& shapes, int64_t unknown_dim) {
    if (IsRefType(node.output_type(output))) return 0;
    const PartialShape shape = shapes.OutputShape(node, output);
    if (shape.unknown_rank()) return 0;
    auto bytes = static_cast<int64_t>(DataTypeSize(node.output_type(output)));
    for (const int64_t dim : shape.dims()) {
      const int64_t size = dim < 0 ? unknown_dim : dim;
      if (size == 0) return 0;
      if (bytes > kMaxBytes / size) return kMaxBytes;
      bytes *= size;
    }
    return bytes;
  }

  std::vector<int> first_;      // by node id: the number of its output 0
  std::vector<int> owner_;      // by tensor: the tensor whose memory it uses
  std::vector<int64_t> bytes_;  // by tensor: of its own memory
  std::vector<int> uses_;       // by owner: inputs that read it, directly or through views
};

// Simulates running nodes.
class Simulation {
 public:
  explicit Simulation(const Model& model) : model_(model), left_(model.uses()) {}

  void Run(const Node& node) {
    int64_t reusable = 0;
    for (const Edge* edge : node.data_in_edges()) {
      if (edge->src->IsOp() && --left_[model_.OwnerOf(*edge)] == 0) freed_.push_back(model_.OwnerOf(*edge));
    }
    if (node.traits().elementwise) {
      for (const size_t tensor : freed_) reusable = std::max(reusable, model_.bytes(tensor));
    }
    int64_t needed = 0;
    for (int i = 0; i < node.num_outputs(); ++i) {
      const size_t tensor = model_.NumberOf(node, i);
      if (model_.OwnerOf(node, i) != tensor) continue;
      needed += model_.bytes(tensor);
    }
    live_ += needed;
    peak_ = std::max(peak_, live_ - (reusable == needed ? reusable : 0));
    for (const size_t tensor : freed_) live_ -= model_.bytes(tensor);
    freed_.clear();
    for (int i = 0; i < node.num_outputs(); ++i) {
      const size_t tensor = model_.NumberOf(node, i);
      if (model_.OwnerOf(node, i) == tensor && left_[tensor] == 0) live_ -= model_.bytes(tensor);
    }
  }

  // The change of the memory in use if `node` ran now.
  int64_t Growth(const Node& node) const {
    int64_t growth = 0;
    for (int i = 0; i < node.num_outputs(); ++i) {
      const size_t tensor = model_.NumberOf(node, i);
      if (model_.OwnerOf(node, i) == tensor && left_[tensor] > 0) growth += model_.bytes(tensor);
    }
    const auto edges = node.data_in_edges();
    for (size_t i = 0; i < edges.size() && i < kMaxInputsSeen; ++i) {
      if (!edges[i]->src->IsOp()) continue;
      const size_t owner = model_.OwnerOf(*edges[i]);
      int mine = 0;
      bool first = true;
      for (size_t j = 0; j < edges.size() && j < kMaxInputsSeen; ++j) {
        if (!edges[j]->src->IsOp() || model_.OwnerOf(*edges[j]) != owner) continue;
        first &= j >= i;
        ++mine;
      }
      if (first && left_[owner] == mine) growth -= model_.bytes(owner);
    }
    return growth;
  }

  int64_t peak() const { return peak_; }

 private:
  static constexpr size_t kMaxInputsSeen = 16;
  const Model& model_;
  std::vector<int> left_;
  std::vector<size_t> freed_;
  int64_t live_ = 0;
  int64_t peak_ = 0;
};

int64_t Peak(const std::vector<Node*>& order, const Model& model) {
  Simulation simulation(model);
  for (const Node* node : order) simulation.Run(*node);
  return simulation.peak();
}

// Always takes the ready node that increases memory the least; among equals the one that became ready last,
// then the first in `order`. The increase of a waiting node only decreases, as others consume their inputs:
// the node is then entered again.
class GreedyOrder {
 public:
  GreedyOrder(const std::vector<Node*>& order, const Model& model, int ids)
      : order_(order),
        simulation_(model),
        waiting_(static_cast<size_t>(ids), 0),
        place_(static_cast<size_t>(ids), 0) {}

  std::vector<Node*> Make() {
    for (size_t i = 0; i < order_.size(); ++i) {
      const auto id = static_cast<size_t>(order_[i]->id());
      place_[id] = static_cast<int>(i);
      for (const Edge* edge : order_[i]->in_edges()) waiting_[id] += edge->src->IsOp() ? 1 : 0;
    }
    for (Node* node : order_) {
      if (waiting_[static_cast<size_t>(node->id())] == 0) Push(node);
    }
    while (!ready_.empty()) {
      Node* node = std::get<3>(ready_.top());
      ready_.pop();
      if (waiting_[static_cast<size_t>(node->id())] == 0) Take(node);
    }
    return std::move(result_);
  }

 private:
  static constexpr size_t kMaxSharers = 8;
  static constexpr int kDone = -1;

  void Push(Node* node) {
    ready_.emplace(simulation_.Growth(*node), -static_cast<int>(result_.size()),
                   place_[static_cast<size_t>(node->id())], node);
  }

  void Take(Node* node) {
    simulation_.Run(*node);
    result_.push_back(node);
    waiting_[static_cast<size_t>(node->id())] = kDone;
    for (const Edge* edge : node->out_edges()) {
      if (edge->dst->IsOp() && --waiting_[static_cast<size_t>(edge->dst->id())] == 0) Push(edge->dst);
    }
    for (const Edge* edge : node->data_in_edges()) {
      if (!edge->src->IsOp() || edge->src->out_edges().size() > kMaxSharers) continue;
      for (const Edge* other : edge->src->out_edges()) {
        if (other->dst->IsOp() && waiting_[static_cast<size_t>(other->dst->id())] == 0) Push(other->dst);
      }
    }
  }

  using Entry = std::tuple<int64_t, int, int, Node*>;  // growth, -time, place in order
  const std::vector<Node*>& order_;
  Simulation simulation_;
  std::vector<int> waiting_;
  std::vector<int> place_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready_;
  std::vector<Node*> result_;
};

// The largest saving of an order in any model; 0 if another model needs more, or if it isn't worth it.
int64_t Saved(const std::vector<Node*>& order, const std::vector<Node*>& better,
              const std::vector<Model>& models) {
  int64_t most = 0;
  for (const Model& model : models) {
    const int64_t before = Peak(order, model);
    const int64_t saved = before - Peak(better, model);
    if (saved < 0) return 0;
    if (saved > before / 100 * kLeastPercent) most = std::max(most, saved);
  }
  return most;
}

}  // namespace

int64_t PeakBytes(const std::vector<Node*>& order, const ShapeRefiner& shapes, int64_t unknown_dim) {
  return Peak(order, Model(order, shapes, unknown_dim));
}

StatusOr<int> ScheduleForMemory(std::unique_ptr<Graph>* graph) {
  if ((*graph)->num_nodes() > kMaxNodes) return 0;
  MR_ASSIGN_OR_RETURN(std::vector<Node*> order, TopologicalOrderById(**graph));
  std::erase_if(order, [](const Node* node) { return !node->IsOp(); });
  ShapeRefiner shapes(**graph);
  for (const Node* node : order) {
    if (node->traits().is_control_flow) return 0;
    shapes.AddNode(*node).IgnoreError("unknown values are not counted");
  }
  std::vector<Model> models;
  for (const int64_t dim : kUnknownDims) models.emplace_back(order, shapes, dim);
  for (const Model& model : models) {
    const std::vector<Node*> better = GreedyOrder(order, model, (*graph)->num_node_ids()).Make();
    if (better.size() != order.size()) return 0;
    const int64_t saved = Saved(order, better, models);
    if (saved == 0) continue;
    *graph = (*graph)->CloneInOrder(better);
    return static_cast<int>(std::clamp<int64_t>(saved / 1024, 1, kMaxReportedKib));
  }
  return 0;
}

}  // namespace millrace
