// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "compile/compile_options.h"
#include "compile/optimize/constant_evaluator.h"
#include "compile/place/placer.h"
#include "graph/graph.h"
#include "graph/shape_refiner.h"
#include "millrace/shape.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

namespace millrace {

// The input of the optimising passes: the options of the compilation, and its services.
struct OptimizeOptions {
  const CompileOptions& compile;
  ConstantEvaluator* evaluator = nullptr;  // null: nothing is folded, except known shapes
  HasKernelFn has_kernel{};                // empty: all nodes have one
  std::string client_device{};             // where constants are evaluated
  std::string client_device_type = "CPU";
  std::set<std::string, std::less<>> preserve{};  // nodes that must run even if their values are not used
};

// A tensor of the graph.
struct TensorRef {
  Node* node = nullptr;
  int output = 0;
  friend bool operator==(const TensorRef&, const TensorRef&) = default;
};

// Stateless, without references, not control flow, transfer or call of a function: two runs with the same
// inputs are equal, and one whose results are unused can be removed.
bool IsPure(const Node& node);
// A Const without control inputs, which is never dead.
bool IsFreeConst(const Node& node);
// Commutative, at least for its type: Add concatenates strings in order and sums numbers in any order.
bool TakesInputsInAnyOrder(const Node& node);
// Whether the node has control inputs.
bool HasControlInputs(const Node& node);
// The value of a Const, or of one that a constant Enter brings into a loop; null for other nodes. A Const
// with control inputs, or one in a loop, may be dead when the node is not.
const Tensor* ConstTensorOf(const Node& node);
// An Enter (of a value) that passes the same value to each iteration.
bool IsConstantEnter(const Node& node);
// Whether nodes that wait for the node run exactly if its outputs are alive. Not so for a Switch, of which
// one output is dead, and nothing may wait for a NextIteration.
bool CanBeWaitedFor(const Node& node);
// Input i of a node. REQUIRES: it is connected.
inline TensorRef InputOf(const Node& node, int i) {
  const Edge* edge = node.in_edges()[static_cast<size_t>(i)];
  return {edge->src, edge->src_output};
}
// Consumers of one output.
int CountConsumers(const Node& node, int output);

// Edits of a graph that preserve the visible behaviour of a step: order, devices, and which tensors are dead.
// One graph, one pass; removed nodes leave no dangling edges. One thread.
class Rewriter {
 public:
  Rewriter(Graph* graph, const OptimizeOptions& options) : graph_(graph), options_(options) {}

  Graph& graph() const { return *graph_; }
  const OptimizeOptions& options() const { return options_; }
  bool IsPreserved(const Node& node) const { return options_.preserve.contains(node.name()); }
  // True unless `node` may be removed once it has no consumers.
  bool MustStay(const Node& node) const;
  // A kernel for such a node exists where `like` runs.
  bool HasKernel(const Node& like, const NodeProps& props) const;

  // Shapes are inferred at the first call; those of nodes that the rewriter adds, when they are added.
  PartialShape ShapeOf(const TensorRef& tensor);
  const ShapeRefiner& shapes();
  // Whether a pure node cannot fail. This is known for nodes that pass values on or read shapes and,
  // where the shapes fit, for element-wise ops (except divisions of integers and similar ones) and products.
  bool CannotFail(const Node& node);
  // True when the values of the graph may be dead: some node decides at run time what runs.
  bool MayBeDead(const Node& node);

  // A node on the device of `like`, named after it. Null when the op isn't known, its attributes don't fit,
  // or no kernel does it there.
  Node* Add(const Node& like, std::string_view suffix, std::string_view op, AttrMap attrs,
            const std::vector<TensorRef>& inputs);
  // A constant on the device of `like` that is alive (or dead) when each of `after` is.
  Node* AddConst(const Node& like, std::string_view suffix, Tensor value, const std::vector<Node*>& after);
  // The control inputs of `node` except _SOURCE.
  static std::vector<Node*> ControlInputs(const Node& node);

  // Consumers of the tensor `from` use `to` instead. `to` must not depend on them.
  void MoveConsumers(const TensorRef& from, const TensorRef& to);
  // Consumers take to[i] instead of output i, control consumers of `node` wait for all of `to`, and the
  // consumers wait for the control inputs of `node`. Then `node` is removed, with inputs that only it needed.
  void Replace(Node* node, const std::vector<TensorRef>& to);
  // Whether Replace keeps the graph sound and doesn't make it larger: see the definition.
  bool CanReplace(const Node& node, const std::vector<TensorRef>& to);
  // Replace, if it can be done. Inputs of `node` that are not in `to` go into `dropped`: consumers wait for
  // them.
  bool TryReplace(Node* node, const std::vector<TensorRef>& to, const std::vector<TensorRef>& dropped = {});
  // `by` takes over the consumers and the control edges of `node`, which is removed. `dropped`
  // as above. REQUIRES: both have the same outputs; node is not preserved.
  void Substitute(Node* node, Node* by, const std::vector<TensorRef>& dropped = {});
  // Whether a consumer may replace `tensor` by a control edge.
  static bool CanDrop(const TensorRef& tensor) {
    return CanBeWaitedFor(*tensor.node) && !IsRefType(tensor.node->output_type(tensor.output));
  }
  // A node for control edges that is dead exactly when `tensor` is: its own, or an Identity of it on the
  // device of `like`. Null if there is none.
  Node* Anchor(const Node& like, const TensorRef& tensor);
  // Removes `first` if nothing needs it, and then nodes that only it needed.
  void RemoveUnused(Node* first);
  // Removes every node from which no required node can be reached. Returns their number.
  int RemoveDead();
  int removed() const { return removed_; }

 private:
  void InferShapes();
  bool ShapesFit(const Node& node);
  void FindDeadness();

  Graph* const graph_;
  const OptimizeOptions& options_;
  std::optional<ShapeRefiner> shapes_;
  std::vector<bool> may_be_dead_;  // by id, of the nodes that existed at the first question
  bool deadness_known_ = false;
  std::map<std::tuple<int, int, int>, int> anchors_;  // by node, output and device: ids
  int removed_ = 0;
};

}  // namespace millrace
