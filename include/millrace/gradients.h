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

// Gradients of a graph, and user-defined gradient functions; docs/gradients.md has examples.
namespace millrace {

// Adds the nodes that compute, for each x, the derivative of the sum of all ys with respect to x, under
// "gradients" in the scope. (*grads)[i] belongs to xs[i]; it is unset if no y depends on that x in a
// differentiable way. Errors are also put into the scope's status.
Status AddSymbolicGradients(const Scope& scope, const std::vector<Output>& ys, const std::vector<Output>& xs,
                            std::vector<Output>* grads);
// With the gradient of each y (unset: ones).
Status AddSymbolicGradients(const Scope& scope, const std::vector<Output>& ys, const std::vector<Output>& xs,
                            const std::vector<Output>& grad_ys, std::vector<Output>* grads);

// Options of the computation of gradients: those of TensorFlow's tf.gradients.
struct GradientSettings {
  enum class Aggregation {
    kAddN,
    kTree,         // additions of two, so that summands are freed early
    kAccumulateN,  // AccumulateNV2 where the shape is known, additions of two elsewhere
  };

  std::vector<GradientValue> grad_ys = {};  // empty: ones for all ys
  std::vector<Output> stop_gradients = {};  // gradients do not flow through the nodes of these tensors
  bool colocate = false;               // new nodes are colocated with the node whose gradient they compute
  bool gate = false;                   // gradients of a node are used only after all of them are computed
  bool zeros_for_unconnected = false;  // zeros of the x's shape instead of an unset gradient
  Aggregation aggregation = Aggregation::kAddN;
};

// The same, with gradients that may be slices: those of variables whose rows are looked up.
Status AddSymbolicGradients(const Scope& scope, const std::vector<Output>& ys, const std::vector<Output>& xs,
                            const GradientSettings& settings, std::vector<GradientValue>* grads);

// The arguments and results of a gradient function for one node. Valid during the call.
class GradientCall {
 public:
  // For the nodes that compute the gradients.
  const Scope& scope() const;
  const Operation& operation() const;

  int num_inputs() const;
  int num_outputs() const;
  // Unset if out of range.
  Output input(int i) const;
  Output output(int i) const;
  // The gradient of output i: a tensor, slices, or unset.
  GradientValue grad(int i) const;
  // The same as a tensor.
  Output dense_grad(int i);
  // An attribute of the node: NotFound, or InvalidArgument if it has another type. T is bool, int64_t, float,
  // std::string, DataType, PartialShape or a vector of int64_t, float or std::string.
  template <typename T>
  StatusOr<T> Attr(std::string_view name) const;

  // False when the gradient of input i is not needed.
  bool wants(int i) const;
  // Inputs without a gradient are treated as independent of the outputs.
  void SetInputGrad(int i, const GradientValue& grad);

 private:
  friend class GradientCallAccess;
  struct State;
  explicit GradientCall(State& state) : state_(state) {}
  State& state_;
};

// Adds the nodes that compute the gradients of a node's inputs and passes them to SetInputGrad. May be called
// by several threads at once, for different graphs. Errors of the call's scope are returned too.
using GradientFunction = std::function<Status(GradientCall&)>;

// Registers the gradient of ops called `name`, and of nodes with OverrideGradient `name`, for all graphs.
// AlreadyExists if there is one, including built-in ones.
Status RegisterGradient(std::string_view name, GradientFunction function);
// Declares that the outputs are not differentiable with respect to the inputs.
Status RegisterNotDifferentiable(std::string_view name);
// Gives the node the gradient that is registered as `name`, whatever its op. This sets the attribute
// "_gradient_op_type", which is part of the graph.
Status OverrideGradient(const Operation& operation, std::string_view name);

}  // namespace millrace
