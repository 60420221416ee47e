// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "autodiff/graph_builder.h"
#include "autodiff/guards.h"
#include "autodiff/loops.h"

namespace millrace {

// Where gradients are built: at the ys, or in the body of a backward loop.
struct GradientFrame {
  GradientFrame() : guards(boundary) {}
  GradientFrame(const GradientFrame&) = delete;
  GradientFrame& operator=(const GradientFrame&) = delete;

  GraphBuilder::Place backward;  // of the gradients …
  GraphBuilder::Place
      forward;  // … and of nodes that they need at the nodes that they belong to; the same at the base
  std::vector<Node*> added;                  // nodes of the backward loop's body
  std::unordered_set<const Node*> boundary;  // nodes that lead into the forward frame
  Guards guards;
};

// Builds the loop that computes the gradients of a loop: it counts the iterations of the forward loop down.
// At first the gradients in its body may use tensors of the forward loop directly. End() replaces these: loop
// invariants enter the backward loop; other tensors are stored, by the number of the iteration, in an array
// that the forward loop writes and the backward loop reads. As arrays can be differentiated, so can the
// whole.
class LoopGradient {
 public:
  // Names of the nodes of the backward loop, and of its frame.
  struct Names {
    std::string scope;
    std::string device;
    std::string frame;
  };
  // All arguments except the names must outlive this.
  LoopGradient(GraphBuilder& builder, const LoopForest& loops, const Loop& loop, GradientFrame& parent,
               const Names& names);

  GradientFrame& frame() { return frame_; }
  // Counts iterations in the forward loop, and makes the backward loop count down.
  void Begin();
  // Another variable of the backward loop, with an initial value in the parent; returns its number.
  size_t AddVariable(const Output& initial, const PartialShape& shape);
  // Its value in an iteration, its next value, and its value after the last iteration.
  Output Value(size_t variable) const { return variables_[variable].value; }
  void SetNext(size_t variable, const Output& next);
  Output Result(size_t variable);
  // Rows that each iteration of the backward loop appends: BeginRows makes the array, with the element
  // `first` of the parent; AddRows adds those of one iteration; EndRows returns all of them, concatenated, in
  // the parent.
  struct Rows {
    Output array;
    Output handle;  // in the body
    size_t flow = 0;
  };
  StatusOr<Rows> BeginRows(const Output& first);
  void AddRows(const Rows& rows, const Output& value);
  Output EndRows(const Rows& rows, const PartialShape& shape);
  // The next nodes are made next to the gradients of the parent.
  void PlaceInParent() { Place(parent_.backward); }
  // Replaces the tensors of the forward loop in the body. To be called last.
  Status End();

 private:
  struct Variable {
    Output merge;
    Output done;   // the Switch's outputs
    Output value;  // in the body
  };
  enum class Direction { kForward, kBackward };

  Output Add(const char* op, const std::vector<Output>& inputs, AttrMap attrs = {});
  Output AddList(const char* op, const std::vector<Output>& inputs);
  Output Int(int32_t value);
  Output Enter(Direction direction, const Output& tensor, bool is_constant);
  Variable Header(const Output& enter);
  Variable Cycle(const Output& enter, const Output& condition);
  void Close(const Variable& variable, const Output& next);
  void Place(const GraphBuilder::Place& place);
  const GraphBuilder::Place& ForwardParent();

  // The tensor of the backward body with the value of `tensor` in the same iteration of the forward body.
  StatusOr<Output> Image(const Output& tensor);
  StatusOr<Output> MakeImage(const Output& tensor);
  StatusOr<Output> Saved(const Output& tensor);
  // A tensor of the backward body that is dead in the iterations in which a branch of `guard` was not taken.
  StatusOr<Output> Guarded(Output image, const Guard& guard);
  Output Lift(Output tensor, const Guard& guard, const Output& handle);
  void BeginFlow();
  void EndFlow();
  // Replaces inputs of a node of the body by inputs from within the body. True when another node replaces it.
  StatusOr<bool> Bring(Node* node);
  // Compute the metadata of a tensor, and zeros of its shape, from known values of the forward loop, instead
  // of storing the tensor. False when that is not possible.
  StatusOr<bool> MoveMetadata(Node* node);
  StatusOr<bool> MoveZeros(Node* node);
  void Replace(Node* node, int output, const Output& by);
  bool IsLocal(const Node* node);
  bool IsInvariant(const Node& node) const;
  // Whether the node runs around the forward loop, not in it.
  bool IsOutside(const Node& node) const;

  GraphBuilder& builder_;
  const LoopForest& loops_;
  const Loop& loop_;
  GradientFrame& parent_;
  const std::string scope_;
  const std::string device_;
  const std::string frame_name_;
  GradientFrame frame_;
  std::optional<GraphBuilder::Place> forward_parent_;

  Output forward_index_;   // of the iteration, in the forward body
  Output backward_index_;  // the same in the backward body
  Output condition_;       // of the backward loop
  std::vector<Variable> variables_;

  // The flow of the arrays: through the forward loop, and at its end.
  Variable flow_;
  Output flow_in_backward_;
  std::vector<Output> flows_;  // after each write of one iteration

  std::map<std::pair<const Node*, int>, Output> images_;
  std::unordered_set<const Node*> local_;
  size_t num_local_ = 0;  // number of nodes of frame_.added that are in local_
};

}  // namespace millrace
