// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "autodiff/gradient_registry.h"
#include "graph/graph.h"
#include "graph/shape_refiner.h"
#include "millrace/output.h"
#include "millrace/status.h"

namespace millrace {

struct GradientOptions {
  // New nodes are named "<scope>/…"; a scope that the graph has already gets a suffix: "gradients_1".
  std::string scope = "gradients";
  // Knows the shapes of the graph, and learns those of the new nodes. Null: they are inferred for the
  // occasion.
  ShapeRefiner* shapes = nullptr;
  const GradientRegistry* registry = nullptr;  // null: GradientRegistry::Global()
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
// - Contributions of several consumers are added by AddN. When an x is computed from another x, the gradient
// of the
//   other includes what flows through it.
// - New nodes take over the requested device of the node whose gradient they compute.
// - Errors: "No gradient defined for op: X" for an op without an entry in the registry between the xs and ys;
//   InvalidArgument for lists that do not fit. On error `grads` is empty, and the graph as it was.
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

}  // namespace millrace
