// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "autodiff/add_gradients.h"
#include "autodiff/gradient_context.h"
#include "autodiff/loop_gradient.h"
#include "autodiff/loops.h"

namespace millrace {

// One call of AddGradients: walks from the ys to the xs, a level at a time. A level is what runs once, or the
// body of a loop; seen from its level, a loop is one node that takes what its Enters take and gives what its
// Exits give. Node ids below num_ids_ are those of the graph as it was.
class Backprop {
 public:
  static constexpr int kMaxLoopDepth = 64;

  Backprop(Graph& graph, const std::vector<Output>& ys, const std::vector<Output>& xs,
           const GradientOptions& options, std::string scope);
  Status Run(const std::vector<Output>& grad_ys, std::vector<Output>* grads);

 private:
  static size_t Id(const Node* node) { return static_cast<size_t>(node->id()); }

  // What of the graph matters, and in which order.
  void CollectAncestors();
  void MarkBetween();
  bool IsNotDifferentiable(const Node& node) const;
  Status FindLevels();
  void CountConsumers();
  Node* BasePivot() const;
  bool Counts(const Edge& edge) const;
  Status ShapesBehind(Node* node);

  // The walk over one level.
  struct Level {
    Loop* loop = nullptr;  // null: what runs once
    GradientFrame* frame = nullptr;
    std::deque<Node*> ready;
    size_t done = 0;
  };
  Status SeedYs(const std::vector<Output>& grad_ys);
  Status Walk(Level& level);
  Status Visit(Level& level, Node& node);
  Status SumUp(const Node& node, int output);
  Status Deliver(const Node& node, const GradientContext& context);
  void Release(Level& level, const Node& node);
  Status LeaveBase();
  void SetPlace(const Level& level, const std::string& scope, const std::string& device);

  // loop_backprop.cc: the gradient of one loop.
  struct LoopWork;
  Status Differentiate(Level& level, Loop& loop);
  StatusOr<std::vector<bool>> WantedVariables(const Loop& loop);
  Status BeginVariables(Level& level, LoopWork& work);
  Status EndVariables(Level& level, LoopWork& work);
  Status AccumulateConstants(Level& level, LoopWork& work);
  StatusOr<Output> InitialGradient(Level& level, const Loop::Variable& variable);
  Output ZerosOf(const Output& like, const PartialShape& shape, DataType dtype);
  void Contribute(const Node& enter, const Output& grad);

  size_t Slot(const Node* node, int output) const {
    return static_cast<size_t>(first_output_[Id(node)] + output);
  }
  Output SumOf(const Output& x) const {
    return between_[Id(x.node)] ? sums_[Slot(x.node, x.index)] : Output();
  }

  Graph& graph_;
  const std::vector<Output>& ys_;
  const std::vector<Output>& xs_;
  const GradientRegistry& registry_;
  const std::string scope_;
  const std::unique_ptr<ShapeRefiner> own_shapes_;
  ShapeRefiner& shapes_;
  GraphBuilder builder_;
  const size_t num_ids_;

  std::unique_ptr<LoopForest> loops_;                // null when no loop is between
  Loop* base_ = nullptr;                             // where the ys are
  std::map<Loop*, std::vector<Loop*>> inner_;        // loops between, by what encloses them
  std::map<Loop*, std::vector<Node*>> level_nodes_;  // nodes between but those of frames, by level
  std::map<Loop*, int> pending_exits_;
  GradientFrame base_frame_;

  std::vector<Node*> ancestors_;
  // By node id.
  std::vector<bool> between_;
  std::vector<int> pending_;
  std::vector<int> first_output_;
  // By output slot.
  std::vector<std::vector<Output>> contributions_;
  std::vector<Output> sums_;
};

// InvalidArgument, saying which list it is of, for what is no tensor of the graph.
Status CheckOutput(const Graph& graph, const Output& tensor, const char* what);
// Whether gradients flow through tensors of this type. Of a resource, the gradient is that of what it holds.
bool CarriesGradient(DataType type);

}  // namespace millrace
