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

// Computes a stateless op from the values of its inputs.
using OpEvaluator = StatusOr<std::vector<Tensor>> (*)(std::string_view name,
                                                      const std::shared_ptr<const NodeProps>& props,
                                                      std::span<const Tensor> inputs);

// Infers the shapes of a graph's tensors, node by node as the graph grows. Constant inputs, and shapes
// computed from shapes (Shape, Pack, Concat, Slice …), are evaluated; with an evaluator also small values
// that other ops compute from constants and known shapes. One thread.
class ShapeRefiner {
 public:
  explicit ShapeRefiner(const Graph& graph, OpEvaluator evaluator = nullptr);
  ~ShapeRefiner();

  // REQUIRES: the producers of its inputs were added. Errors have TensorFlow's context: " for 'm' (op:
  // 'MatMul') with input shapes: [2,3], [4,5]."
  Status AddNode(const Node& node);
  // Merges externally known information into the shape of an output.
  Status MergeOutput(const Node& node, int output, const PartialShape& shape);
  // Drops the nodes with these ids and above, whose ids may then be reused.
  void ForgetNodesFrom(int first_id);
  // Unknown for nodes that were not added.
  PartialShape OutputShape(const Node& node, int output) const;
  // Shape and type of the resource behind output `output`, if known.
  bool OutputHandle(const Node& node, int output, PartialShape* shape, DataType* dtype) const;
  // Sets them from external information.
  void SetOutputHandle(const Node& node, int output, const PartialShape& shape, DataType dtype);
  // To be called before the properties or inputs of a node change.
  void ForgetLast();
  // The evaluator's result for a node with these inputs, which is cached. Null without an evaluator, and on
  // an error.
  const std::vector<Tensor>* Evaluate(const Node& node, std::span<const Tensor> inputs) const;
  // The cached result.
  const std::vector<Tensor>* Evaluated(const Node& node) const;
  bool evaluates() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The value of a tensor if it is known from the graph alone: a Const, or computed from known
// shapes.
StatusOr<Tensor> ConstantValue(const Node& node, int output, const ShapeRefiner* shapes);

// Infers every shape of `graph`; the first error in topological order.
StatusOr<std::vector<std::vector<PartialShape>>> InferShapes(const Graph& graph);

}  // namespace millrace
