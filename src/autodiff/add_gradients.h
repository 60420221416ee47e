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

// How new nodes are named, "<scope>/" before all.
enum class GradientNames {
  kNode,    // "<node>_grad/<Op>", by the node whose gradient they compute
  kOp,      // "<Op>", as TensorFlow's C++ API
  kPython,  // as kNode, with TensorFlow's Python client's names of ops and initial gradients
};

// How the gradients of several consumers are added up. Slices are concatenated in any case.
enum class GradientAggregation {
  kAddN,
  kTree,         // additions of two, so that summands are freed early
  kAccumulateN,  // AccumulateNV2 of three or more where the shape is known, as kTree elsewhere
};

struct GradientOptions {
  // New nodes are named "<scope>/…"; a scope that the graph has already gets a suffix: "gradients_1".
  std::string scope = "gradients";
  bool exact_scope = false;  // take the scope as it is
  // Knows the shapes of the graph, and learns those of the new nodes. Null: they are inferred for the
  // occasion.
  ShapeRefiner* shapes = nullptr;
  const GradientRegistry* registry = nullptr;  // null: GradientRegistry::Global()
  GradientNames names = GradientNames::kNode;
  // Gradients arrive at these tensors and do not go on through their nodes.
  std::vector<Output> stop_gradients = {};
  GradientAggregation aggregation = GradientAggregation::kAddN;
  bool colocate = false;  // new nodes get "_class" of the node whose gradient they compute
  // The gradients of a node go on only when all are there.
  bool gate = false;
  bool zeros = false;     // instead of an unset gradient: zeros of the x's shape
  bool integers = false;  // gradients flow through integer tensors too
  // What new nodes request; unset: the device of the node whose gradient they compute.
  std::optional<std::string> device = std::nullopt;
  // Null: any op may be not differentiable. Otherwise all but these give an error where a gradient arrives.
  const std::unordered_set<std::string_view>* not_differentiable = nullptr;
};

// Adds to `graph` the nodes that compute, for each x, the sum over the ys of the derivative of y with respect
// to x, and names them in `grads`, which has the length of `xs`. `grad_ys` (empty: all unset) has an entry
// per y: the gradient that arrives there; for unset ones, ones of the shape of y. Complex ys must have
// theirs.
//
// - A gradient has the type of its x, without the reference; for a resource, the type of what the resource
// holds.
// - A gradient is unset where no y depends on x in a way that can be differentiated: no path leads from x to
// a y, or
//   every path goes through an integer, bool or string tensor or through an op that is not differentiable.
// - Contributions of several consumers are added up. When an x is computed from another x, the gradient
// of the
//   other includes what flows through it.
// - New nodes take over the requested device of the node whose gradient they compute.
// - Slices stay slices on their way where they can, and are turned into tensors at the end; AddGradientValues
//   leaves them.
// - Errors: "No gradient defined for op: X" for an op without an entry in the registry between the xs and ys;
//   InvalidArgument for lists that do not fit. On error `grads` is empty, and the graph as it was, unless
//   a gradient function added nodes by other means than the builder: then all stay, and the message says so.
//
// The gradient of a loop is a loop, see loop_gradient.h. Within a body that is built the gradients of its
// tensors may be taken too: all ys are then of one loop, which is where the gradients are.
//
// Linear in the size of the graph; the stack is as deep as loops are nested, of which 64 levels may be. One
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
