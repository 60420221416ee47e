// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/gradient_value.h"
#include "millrace/output.h"
#include "millrace/scope.h"
#include "millrace/status.h"

// Gradients of a graph, and gradient functions of one's own; docs/gradients.md has examples.
namespace millrace {

// Adds the nodes that compute, for each x, the derivative of the sum of all ys with respect to x, under
// "gradients" in the scope. (*grads)[i] belongs to xs[i]; it is unset where no y depends on that x in a way
// that can be differentiated. Errors are also put into the scope's status.
Status AddSymbolicGradients(const Scope& scope, const std::vector<Output>& ys, const std::vector<Output>& xs,
                            std::vector<Output>* grads);
// With the gradient that arrives at each y (unset: ones).
Status AddSymbolicGradients(const Scope& scope, const std::vector<Output>& ys, const std::vector<Output>& xs,
                            const std::vector<Output>& grad_ys, std::vector<Output>* grads);

// How gradients are computed: the options of TensorFlow's tf.gradients.
struct GradientSettings {
  enum class Aggregation {
    kAddN,
    kTree,         // additions of two, so that summands are freed early
    kAccumulateN,  // AccumulateNV2 where the shape is known, additions of two elsewhere
  };

  std::vector<GradientValue> grad_ys = {};  // empty: ones for all ys
  std::vector<Output> stop_gradients = {};  // gradients do not flow through the nodes of these tensors
  bool colocate = false;               // new nodes are colocated with the node whose gradient they compute
  bool gate = false;                   // the gradients of a node are used when all of them are there
  bool zeros_for_unconnected = false;  // zeros of the x's shape instead of an unset gradient
  Aggregation aggregation = Aggregation::kAddN;
};

// The same, where gradients may be slices: those of variables whose rows are looked up.
Status AddSymbolicGradients(const Scope& scope, const std::vector<Output>& ys, const std::vector<Output>& xs,
                            const GradientSettings& settings, std::vector<GradientValue>* grads);

// What a gradient function sees of one node, and where it puts its results. Lives during the call.
class GradientCall {
 public:
  // For the nodes that compute the gradients.
  const Scope& scope() const;
  const Operation& operation() const;

  int num_inputs() const;
  int num_outputs() const;
  // Unset for what is out of range.
  Output input(int i) const;
  Output output(int i) const;
  // The gradient that arrives at output i: a tensor, slices, or unset.
  GradientValue grad(int i) const;
  // The same as a tensor.
  Output dense_grad(int i);
  // An attribute of the node: NotFound, or InvalidArgument when it has another type. T is bool, int64_t,
  // float, std::string, DataType, PartialShape or a vector of int64_t, float or std::string.
  template <typename T>
  StatusOr<T> Attr(std::string_view name) const;

  // False when the gradient of input i is not needed.
  bool wants(int i) const;
  // Inputs without a gradient are those that the outputs do not depend on.
  void SetInputGrad(int i, const GradientValue& grad);

 private:
  friend class GradientCallAccess;
  struct State;
  explicit GradientCall(State& state) : state_(state) {}
  State& state_;
};

// Adds the nodes that compute the gradients of a node's inputs and names them with SetInputGrad. May be
// called by several threads at once, for different graphs. Errors of the call's scope count, too.
using GradientFunction = std::function<Status(GradientCall&)>;

// Registers the gradient of ops called `name`, and of nodes for which OverrideGradient says `name`, for all
// graphs. AlreadyExists when there is one, built-in ones included.
Status RegisterGradient(std::string_view name, GradientFunction function);
// Says that the outputs do not depend on the inputs in a way that can be differentiated.
Status RegisterNotDifferentiable(std::string_view name);
// The node has the gradient that is registered as `name`, whatever its op. It is the attribute
// "_gradient_op_type", which is part of the graph.
Status OverrideGradient(const Operation& operation, std::string_view name);

}  // namespace millrace
