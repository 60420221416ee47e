// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "autodiff/gradient_context.h"

#include <utility>

namespace millrace {

GradientContext::GradientContext(GraphBuilder& builder, Node& node, std::vector<GradientValue> grads,
                                 std::vector<bool> wanted, const Computation& computation)
    : builder_(builder),
      node_(node),
      grads_(std::move(grads)),
      dense_(grads_.size()),
      wanted_(std::move(wanted)),
      input_grads_(static_cast<size_t>(node.num_inputs())),
      computation_(computation) {}

Expr GradientContext::input(int i) {
  const auto edge = node_.InputEdge(i);
  if (!edge.ok()) {
    builder_.Fail(edge.status());
    return Expr(builder_, {});
  }
  return Expr(builder_, {(*edge)->src, (*edge)->src_output});
}

Expr GradientContext::output(int i) { return Expr(builder_, {&node_, i}); }

Expr GradientContext::grad(int i) {
  const auto at = static_cast<size_t>(i);
  if (!grads_[at].IsSlices()) return Expr(builder_, grads_[at].dense);
  if (!dense_[at].IsSet()) dense_[at] = DenseFromSlices(builder_, grads_[at].slices, {&node_, i});
  return Expr(builder_, dense_[at]);
}

Expr GradientContext::grad_or_zeros(int i) { return has_grad(i) ? grad(i) : ZerosLike(output(i)); }

void GradientContext::SetInputGrad(int i, const Expr& grad) {
  if (grad.IsSet()) input_grads_[static_cast<size_t>(i)] = grad.output();
}

void GradientContext::SetInputGrad(int i, const GradientValue& grad) {
  if (grad.IsSet()) input_grads_[static_cast<size_t>(i)] = grad;
}

void GradientContext::SetInputSlices(int i, const Expr& values, const Expr& indices,
                                     const Expr& dense_shape) {
  if (!values.IsSet() || !indices.IsSet()) return;
  input_grads_[static_cast<size_t>(i)] =
      IndexedSlices{values.output(), indices.output(), dense_shape.output()};
}

AttrMap GradientContext::CopyAttrs(std::initializer_list<std::string_view> names) {
  AttrMap attrs;
  for (const std::string_view name : names) {
    const AttrValue* value = node_.attrs().Find(name);
    if (value == nullptr) {
      builder_.Fail(errors::InvalidArgument("No attr named '", name, "' in node '", node_.name(), "'"));
    } else {
      attrs.Set(name, *value);
    }
  }
  return attrs;
}

}  // namespace millrace
