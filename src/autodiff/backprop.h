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
#include "autodiff/slices.h"

namespace millrace {

// One call of AddGradients: walks from the ys to the xs, level by level. A level consists of the nodes that
// run once, or of the body of a loop; in the level around it, a loop is one node with the inputs of its
// Enters and the outputs of its Exits. Node ids below num_ids_ are those of the graph before the call.
class Backprop {
 public:
  static constexpr int kMaxLoopDepth = 64;

  // `unique_scope`: a scope that no other computation has; names of new nodes begin with `scope`.
  Backprop(Graph& graph, const std::vector<Output>& ys, const std::vector<Output>& xs,
           const GradientOptions& options, std::string scope, std::string unique_scope);
  // With `dense` all gradients are tensors.
  Status Run(const std::vector<GradientValue>& grad_ys, bool dense, std::vector<GradientValue>* grads);
  // Whether there are nodes that the client may hold.
  bool HasAdopted() const { return builder_.HasAdopted(); }

 private:
  static size_t Id(const Node* node) { return static_cast<size_t>(node->id()); }

  // The part of the graph between ys and xs, and its order.
  void CollectAncestors();
  void MarkBetween();
  bool Carries(DataType type) const;
  bool IsNotDifferentiable(const Node& node) const;
  bool MayBeNotDifferentiable(const Node& node) const;
  Status FindLevels();
  void CountConsumers();
  Node* BasePivot() const;
  bool Counts(const Edge& edge) const;
  Status ShapesBehind(Node* node);

  // The walk over one level.
  struct Level {
    Loop* loop = nullptr;  // null: the nodes that run once
    GradientFrame* frame = nullptr;
    std::deque<Node*> ready;
    size_t done = 0;
  };
  Status SeedYs(const std::vector<GradientValue>& grad_ys);
  Status CheckSeed(const GradientValue& grad, const Output& y);
  Output FirstGradient(const Output& y, size_t number);
  Status Walk(Level& level);
  Status Visit(Level& level, Node& node);
  Status CallGradient(Level& level, Node& node, std::vector<GradientValue> grads,
                      const std::vector<bool>& wanted);
  Status Deliver(const Node& node, std::vector<GradientValue> grads, const std::vector<bool>& wanted);
  Status Finish(bool dense, std::vector<GradientValue>* grads);
  void Release(Level& level, const Node& node);
  Status LeaveBase();
  // The next nodes are named under the scope or `what` in it, and belong to the frame of `node`.
  void SetPlace(const Level& level, const Node& node, const std::string& what = {});
  void SetScope(const Node& node, const std::string& what = {});

  // gradient_sums.cc: the gradients of one tensor.
  Status SumUp(const Node& node, int output);
  GradientValue Aggregate(const Output& of, std::vector<GradientValue> parts);
  Output AddDense(const Output& of, std::vector<Output> parts);
  Output AddByDevice(std::vector<Output> parts);
  Output AddPairwise(const std::vector<Output>& parts);
  bool ColocatesWithNew() const;
  std::vector<GradientValue> Gate(const Node& node, std::vector<GradientValue> grads);
  void KeepInBranch(Level& level, Node& node, std::vector<GradientValue>* grads);

  // loop_backprop.cc: the gradient of one loop.
  struct LoopWork;
  Status Differentiate(Level& level, Loop& loop);
  StatusOr<std::vector<bool>> WantedVariables(const Loop& loop);
  Status BeginVariables(Level& level, LoopWork& work);
  Status EndVariables(Level& level, LoopWork& work);
  Status AccumulateConstants(Level& level, LoopWork& work);
  Status AccumulateConstant(Level& body, LoopWork& work, const Node& enter, const Output& grad);
  Status AccumulateSlices(Level& body, LoopWork& work, const Node& enter, const IndexedSlices& grad);
  StatusOr<Output> InitialGradient(Level& level, const Loop::Variable& variable);
  Output ZerosOf(const Output& like, const PartialShape& shape, DataType dtype);
  void Contribute(const Node& enter, const GradientValue& grad);

  size_t Slot(const Node* node, int output) const {
    return static_cast<size_t>(first_output_[Id(node)] + output);
  }
  GradientValue SumOf(const Output& x) const {
    return between_[Id(x.node)] ? sums_[Slot(x.node, x.index)] : GradientValue();
  }
  // The sum as a tensor.
  Output DenseSumOf(const Output& x) { return DenseGradient(builder_, SumOf(x), x); }

  Graph& graph_;
  const std::vector<Output>& ys_;
  const std::vector<Output>& xs_;
  const GradientOptions& options_;
  const GradientRegistry& registry_;
  const std::string scope_;
  const GradientContext::Computation computation_;
  const std::unique_ptr<ShapeRefiner> own_shapes_;
  ShapeRefiner& shapes_;
  GraphBuilder builder_;
  const size_t num_ids_;

  std::unique_ptr<LoopForest> loops_;                // null when there is no loop between ys and xs
  Loop* base_ = nullptr;                             // the loop of the ys
  std::map<Loop*, std::vector<Loop*>> inner_;        // loops between ys and xs, by the enclosing one
  std::map<Loop*, std::vector<Node*>> level_nodes_;  // nodes between ys and xs outside of frames, by level
  std::map<Loop*, int> pending_exits_;
  GradientFrame base_frame_;

  std::vector<Node*> ancestors_;
  // By node id.
  std::vector<bool> between_;
  std::vector<bool> stops_;
  std::vector<int> pending_;
  std::vector<int> first_output_;
  // By output slot.
  std::vector<std::vector<GradientValue>> contributions_;
  std::vector<GradientValue> sums_;
};

// InvalidArgument, naming the list, for an entry that is not a tensor of the graph.
Status CheckOutput(const Graph& graph, const Output& tensor, const char* what);
// Whether gradients flow through tensors of this type. The gradient of a resource is that of its value.
bool CarriesGradient(DataType type);
// "loc:@name" for the colocation with the node, or that of the node itself.
std::vector<std::string> ColocationOf(const Node& node);

}  // namespace millrace
