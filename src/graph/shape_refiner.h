// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "millrace/shape.h"
#include "millrace/status.h"
#include "op/node_props.h"
#include "op/shape_inference.h"

namespace millrace {

// Computes an op without state from the values of its inputs.
using OpEvaluator = StatusOr<std::vector<Tensor>> (*)(std::string_view name,
                                                      const std::shared_ptr<const NodeProps>& props,
                                                      std::span<const Tensor> inputs);

// Infers the shapes of a graph's tensors, node by node as the graph grows. Constant inputs, and shapes
// computed from shapes (Shape, Pack, Concat, Slice …), are followed; with an evaluator also what is computed
// by other ops from constants and known shapes, as far as it is small. One thread.
class ShapeRefiner {
 public:
  explicit ShapeRefiner(const Graph& graph, OpEvaluator evaluator = nullptr);
  ~ShapeRefiner();

  // REQUIRES: the nodes behind its inputs were added. Errors carry TensorFlow's context:
  // " for 'm' (op: 'MatMul') with input shapes: [2,3], [4,5]."
  Status AddNode(const Node& node);
  // Merges what is known from elsewhere into the shape of an output.
  Status MergeOutput(const Node& node, int output, const PartialShape& shape);
  // Forgets the nodes with these ids and above, which may then stand for other nodes.
  void ForgetNodesFrom(int first_id);
  // Unknown for nodes that were not added.
  PartialShape OutputShape(const Node& node, int output) const;
  // Shape and type of the resource behind output `output`, if known.
  bool OutputHandle(const Node& node, int output, PartialShape* shape, DataType* dtype) const;
  // What is known of it from elsewhere.
  void SetOutputHandle(const Node& node, int output, const PartialShape& shape, DataType dtype);
  // To be called before the properties or inputs of a node change.
  void ForgetLast();
  // What the evaluator gives for a node with these inputs; it is kept. Null without an evaluator, and when it
  // fails.
  const std::vector<Tensor>* Evaluate(const Node& node, std::span<const Tensor> inputs) const;
  // What it gave before.
  const std::vector<Tensor>* Evaluated(const Node& node) const;
  bool evaluates() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The value of a tensor when it is known from the graph alone: a Const, or a shape computation of known
// shapes.
StatusOr<Tensor> ConstantValue(const Node& node, int output, const ShapeRefiner* shapes);

// Infers every shape of `graph`; the first error in topological order.
StatusOr<std::vector<std::vector<PartialShape>>> InferShapes(const Graph& graph);

}  // namespace millrace
