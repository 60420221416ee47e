// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "autodiff/expr.h"
#include "autodiff/gradient_registry.h"
#include "autodiff/slices.h"
#include "millrace/gradient_value.h"

namespace millrace {

// The view that a gradient function has of one node, and the place of its results. Lives during the call; one
// thread.
class GradientContext {
 public:
  // Common data of all calls of one computation of gradients.
  struct Computation {
    std::string name = {};  // unique to the computation
    std::string device = {};
    bool colocate = false;
  };

  // `grads` has an entry per output, unset where there is no incoming gradient; `wanted` one per input.
  // `computation` must outlive this.
  GradientContext(GraphBuilder& builder, Node& node, std::vector<GradientValue> grads,
                  std::vector<bool> wanted, const Computation& computation);
  GradientContext(const GradientContext&) = delete;
  GradientContext& operator=(const GradientContext&) = delete;

  const Node& node() const { return node_; }
  Node& mutable_node() { return node_; }
  GraphBuilder& builder() { return builder_; }
  const Computation& computation() const { return computation_; }
  const std::string& scope() const { return computation_.name; }

  int num_inputs() const { return node_.num_inputs(); }
  int num_outputs() const { return node_.num_outputs(); }
  // REQUIRES: in range.
  Expr input(int i);
  Expr output(int i);
  // The incoming gradient of output i as a tensor: slices are converted. Unset if there is none.
  Expr grad(int i);
  bool has_grad(int i) const { return grads_[static_cast<size_t>(i)].IsSet(); }
  // The same, not converted.
  const GradientValue& grad_value(int i) const { return grads_[static_cast<size_t>(i)]; }
  bool has_slices(int i) const { return grad_value(i).IsSlices(); }
  // The same, with zeros of the output's shape if there is none.
  Expr grad_or_zeros(int i);

  // False when the gradient of input i is not needed and need not be built.
  bool wants(int i) const { return wanted_[static_cast<size_t>(i)]; }
  // An input without a gradient is one that the outputs do not depend on. An unset `grad` changes nothing.
  void SetInputGrad(int i, const Expr& grad);
  void SetInputGrad(int i, const GradientValue& grad);
  // Slices of the input: `dense_shape` may be unset.
  void SetInputSlices(int i, const Expr& values, const Expr& indices, const Expr& dense_shape);
  const std::vector<GradientValue>& input_grads() const { return input_grads_; }

  // An attribute of the node; T() and an error in the builder when it is missing.
  template <typename T>
  T Attr(std::string_view name) {
    auto value = node_.Attr<T>(name);
    if (value.ok()) return *std::move(value);
    builder_.Fail(value.status());
    return T();
  }
  // The attributes named, for a node that copies them.
  AttrMap CopyAttrs(std::initializer_list<std::string_view> names);

  // The first error of the formulas so far.
  const Status& status() const { return builder_.status(); }

 private:
  GraphBuilder& builder_;
  Node& node_;
  std::vector<GradientValue> grads_;
  std::vector<Output> dense_;  // slices as tensors, converted on demand
  std::vector<bool> wanted_;
  std::vector<GradientValue> input_grads_;
  const Computation& computation_;
};

}  // namespace millrace
