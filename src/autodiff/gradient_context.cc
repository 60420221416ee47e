// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "autodiff/gradient_context.h"

#include <utility>

namespace millrace {

GradientContext::GradientContext(GraphBuilder& builder, Node& node, std::vector<Output> grads,
                                 std::vector<bool> wanted, std::string scope)
    : builder_(builder),
      node_(node),
      grads_(std::move(grads)),
      wanted_(std::move(wanted)),
      input_grads_(static_cast<size_t>(node.num_inputs())),
      scope_(std::move(scope)) {}

Expr GradientContext::input(int i) {
  const auto edge = node_.InputEdge(i);
  if (!edge.ok()) {
    builder_.Fail(edge.status());
    return Expr(builder_, {});
  }
  return Expr(builder_, {(*edge)->src, (*edge)->src_output});
}

Expr GradientContext::output(int i) { return Expr(builder_, {&node_, i}); }

Expr GradientContext::grad(int i) { return Expr(builder_, grads_[static_cast<size_t>(i)]); }

Expr GradientContext::grad_or_zeros(int i) { return has_grad(i) ? grad(i) : ZerosLike(output(i)); }

void GradientContext::SetInputGrad(int i, const Expr& grad) {
  if (grad.IsSet()) input_grads_[static_cast<size_t>(i)] = grad.output();
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
