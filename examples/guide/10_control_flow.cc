// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// A branch, a loop with its gradient, and a function that is called twice.
#include <iostream>

#include "millrace/client_session.h"
#include "millrace/control_flow.h"
#include "millrace/functions.h"
#include "millrace/gradients.h"
#include "millrace/ops.h"

namespace mr = millrace;
namespace ops = millrace::ops;
using Outputs = std::vector<mr::Output>;

mr::Status Run() {
  const mr::Scope scope = mr::Scope::NewRootScope();
  const mr::Output x =
      ops::Placeholder(scope.WithOpName("x"), mr::DataType::kFloat, ops::Placeholder::Shape({}));

  // |x|: only the nodes of the branch that is taken are run.
  const Outputs size = mr::Cond(
      scope, ops::Less(scope, x, 0.f), [&](const mr::Scope& s) -> Outputs { return {ops::Neg(s, x)}; },
      [&](const mr::Scope& s) -> Outputs { return {ops::Identity(s, x)}; });

  // x^5, by a loop over (i, power).
  const Outputs loop = mr::While(
      scope, {0, 1.f},
      [](const mr::Scope& s, const Outputs& vars) -> mr::Output { return ops::Less(s, vars[0], 5); },
      [&](const mr::Scope& s, const Outputs& vars) -> Outputs {
        return {ops::Add(s, vars[0], 1), ops::Mul(s, vars[1], x)};
      });
  Outputs slope;
  MR_RETURN_IF_ERROR(mr::AddSymbolicGradients(scope, {loop[1]}, {x}, &slope));

  // The body is called once, to make a function of the graph. `x` is captured.
  const mr::GraphFunction shifted = mr::MakeGraphFunction(
      scope, "shifted", {mr::DataType::kFloat}, {mr::TensorShape()},
      [&](const mr::Scope& s, const Outputs& args) -> Outputs { return {ops::Add(s, args[0], x)}; });
  const mr::Output twice =
      mr::CallFunction(scope, shifted, {mr::CallFunction(scope, shifted, {100.f})[0]})[0];

  const mr::ClientSession session(scope);
  for (const float value : {2.f, -3.f}) {
    std::vector<mr::Tensor> outputs;
    MR_RETURN_IF_ERROR(session.Run({{x, value}}, {size[0], loop[1], slope[0], twice}, &outputs));
    std::cout << "x = " << value << ": |x| = " << outputs[0] << ", x^5 = " << outputs[1]
              << ", 5 x^4 = " << outputs[2] << ", 100 + 2 x = " << outputs[3] << '\n';
  }
  return mr::Status();
}

int main() {
  const mr::Status status = Run();
  if (!status.ok()) std::cerr << status << '\n';
  return status.ok() ? 0 : 1;
}
