// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// An optimizer of one's own: Lion, which steps by the sign of a mixture of momentum and gradient
// (Chen and others, arXiv:2302.06675).
#include <iostream>

#include "millrace/client_session.h"
#include "millrace/ops.h"
#include "millrace/optimizers.h"

namespace mr = millrace;
namespace ops = millrace::ops;

// m is the slot; w -= rate * sign(beta1 m + (1 - beta1) g); m = beta2 m + (1 - beta2) g.
class LionOptimizer final : public mr::Optimizer {
 public:
  explicit LionOptimizer(const mr::Input& rate) : Optimizer("Lion", {{"rate", rate}}) {}

 private:
  int num_slots() const override { return 1; }
  mr::Operation Update(const mr::Scope& scope, const Step& step, const mr::GradientAndVariable& gradient,
                       const std::vector<mr::GraphVariable>& slots) const override {
    const mr::GraphVariable &w = gradient.variable, &m = slots[0];
    const mr::Output g = gradient.gradient.values();  // a tensor, or the rows of slices
    if (gradient.gradient.IsSlices()) {
      scope.UpdateStatus(mr::errors::Unimplemented("Lion for the rows of ", w.name()));
      return {};
    }
    const auto mix = [&](float beta) {
      return ops::Add(scope, ops::Mul(scope, m, beta), ops::Mul(scope, g, 1 - beta));
    };
    const mr::Output rate = step.Scalar(step.parameters[0], w);
    const mr::Output direction = ops::Sign(scope, mix(0.9f));
    const mr::Output new_m = mix(0.99f);
    // Both changes come after all reads of m.
    const mr::Scope then = scope.WithControlDependencies({direction, new_m});
    const mr::Output moved = w.AssignSub(then, ops::Mul(scope, rate, direction));
    return ops::NoOp(then.WithControlDependencies({moved, m.Assign(then, new_m)}));
  }
};

mr::Status Run() {
  const mr::Scope scope = mr::Scope::NewRootScope();
  const mr::GraphVariable w(scope.WithOpName("w"), {0.f, 0.f});
  const mr::Output loss = ops::Sum(scope, ops::SquaredDifference(scope, w, {0.5f, -0.25f}), 0);
  const mr::Output rate =
      ops::Placeholder(scope.WithOpName("rate"), mr::DataType::kFloat, ops::Placeholder::Shape({}));
  const mr::Operation train = LionOptimizer(rate).Minimize(scope, loss);
  const mr::Operation init = mr::GlobalVariablesInitializer(scope);
  for (const mr::GraphVariable& variable : mr::GlobalVariables(scope)) std::cout << variable.name() << '\n';

  const mr::ClientSession session(scope);
  MR_RETURN_IF_ERROR(session.Run({}, {}, {init}, nullptr));
  std::vector<mr::Tensor> outputs;
  for (int step = 0; step < 3; ++step) {
    MR_RETURN_IF_ERROR(session.Run({{rate, 0.25f}}, {}, {train}, nullptr));
    MR_RETURN_IF_ERROR(session.Run({w, loss}, &outputs));
    std::cout << "w = " << outputs[0] << "  loss = " << outputs[1] << '\n';
  }
  return mr::Status();
}

int main() {
  const mr::Status status = Run();
  if (!status.ok()) std::cerr << status << '\n';
  return status.ok() ? 0 : 1;
}
