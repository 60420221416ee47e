// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "autodiff/gradient_registry.h"
#include "graph/graph.h"
#include "graph/shape_refiner.h"
#include "millrace/gradient_value.h"
#include "millrace/output.h"
#include "millrace/status.h"

namespace millrace {

// How new nodes are named; all names begin with "<scope>/".
enum class GradientNames {
  kNode,    // "<node>_grad/<Op>", by the node whose gradient they compute
  kOp,      // "<Op>", as TensorFlow's C++ API
  kPython,  // as kNode, with TensorFlow's Python client's names of ops and initial gradients
};

// How the gradients of several consumers are summed. Slices are always concatenated.
enum class GradientAggregation {
  kAddN,
  kTree,         // additions of two, so that summands are freed early
  kAccumulateN,  // AccumulateNV2 of three or more where the shape is known, as kTree elsewhere
};

struct GradientOptions {
  // New nodes are named "<scope>/…"; if the graph already has the scope, it gets a suffix: "gradients_1".
  std::string scope = "gradients";
  bool exact_scope = false;  // use the scope unchanged
  // Has the shapes of the graph, and gets those of the new nodes. Null: they are inferred for this
  // call.
  ShapeRefiner* shapes = nullptr;
  const GradientRegistry* registry = nullptr;  // null: GradientRegistry::Global()
  GradientNames names = GradientNames::kNode;
  // Gradients reach these tensors but do not flow on through their nodes.
  std::vector<Output> stop_gradients = {};
  GradientAggregation aggregation = GradientAggregation::kAddN;
  bool colocate = false;  // new nodes get "_class" of the node whose gradient they compute
  // The gradients of a node are passed on only when all of them have been computed.
  bool gate = false;
  bool zeros = false;     // zeros of the x's shape in place of an unset gradient
  bool integers = false;  // gradients flow through integer tensors too
  // The device that new nodes request; unset: that of the node whose gradient they compute.
  std::optional<std::string> device = std::nullopt;
  // Null: any op may be not differentiable. Else a gradient that reaches one which is not listed is an error.
  const std::unordered_set<std::string_view>* not_differentiable = nullptr;
};

// Adds to `graph` the nodes that compute, for each x, the sum over the ys of the derivative of y with
// respect to x, and returns them in `grads`, which has the length of `xs`. `grad_ys` (empty: all unset)
// has the incoming gradient of each y; unset ones stand for ones of the shape of y. Complex ys must have
// one.
//
// - A gradient has the type of its x, without the reference; for a resource, the type of its
//   value.
// - A gradient is unset if no y depends differentiably on x: no path leads from x to a y, or every
//   path goes through an integer, bool or string tensor or through an op that is not
//   differentiable.
// - Contributions of several consumers are summed. When an x is computed from
//   another x, the gradient of the other includes the part that flows through
//   it.
// - New nodes get the requested device of the node whose gradient they compute.
// - Slices stay slices as long as possible, and are converted to tensors at the end; AddGradientValues keeps
//   them.
// - Errors: "No gradient defined for op: X" for an op without an entry in the registry between the xs and ys;
//   InvalidArgument for lists that do not match. On error `grads` is empty and the graph unchanged, unless a
//   gradient function added nodes without the builder: then all new nodes stay, and the message says so.
//
// The gradient of a loop is a loop, see loop_gradient.h. While a body is built, gradients of its tensors may
// be computed too: then all ys are in one loop, and so are the gradients.
//
// Linear time in the size of the graph; the stack depth is that of nested loops, at most 64 levels. One
// thread.
Status AddGradients(Graph* graph, const std::vector<Output>& ys, const std::vector<Output>& xs,
                    const std::vector<Output>& grad_ys, const GradientOptions& options,
                    std::vector<Output>* grads);
Status AddGradients(Graph* graph, const std::vector<Output>& ys, const std::vector<Output>& xs,
                    const std::vector<Output>& grad_ys, std::vector<Output>* grads);
Status AddGradientValues(Graph* graph, const std::vector<Output>& ys, const std::vector<Output>& xs,
                         const std::vector<GradientValue>& grad_ys, const GradientOptions& options,
                         std::vector<GradientValue>* grads);

// Calls the gradient function of one node, under the entry `name` of the registry ("": the node's own).
// `grads` has an entry per output, `input_grads` gets one per input. New nodes are named "<scope>/<Op>".
Status AddNodeGradient(Graph* graph, Node* node, std::string_view name,
                       const std::vector<GradientValue>& grads, const GradientOptions& options,
                       std::vector<GradientValue>* input_grads);

}  // namespace millrace
