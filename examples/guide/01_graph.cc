// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Describes y = x w + b as a graph, and computes it for two values of x.
#include <iostream>

#include "millrace/client_session.h"
#include "millrace/ops.h"

namespace mr = millrace;
namespace ops = millrace::ops;

mr::Status Run() {
  // Nothing is computed here: each call adds a node to the graph of the scope.
  const mr::Scope scope = mr::Scope::NewRootScope();
  const mr::Output x =
      ops::Placeholder(scope.WithOpName("x"), mr::DataType::kFloat, ops::Placeholder::Shape({-1, 2}));
  const mr::Output w = ops::Const(scope, {{1.f, 2.f}, {3.f, 4.f}});
  const mr::Output y = ops::Add(scope.WithOpName("y"), ops::MatMul(scope, x, w), {0.5f, -0.5f});
  std::cout << mr::Scope::NameOf(y) << " has the shape " << scope.ShapeOf(y) << '\n';

  // A session runs the requested nodes.
  const mr::ClientSession session(scope);
  std::vector<mr::Tensor> outputs;
  MR_RETURN_IF_ERROR(session.Run({{x, {{1.f, 1.f}}}}, {y}, &outputs));
  std::cout << outputs[0] << '\n';
  MR_RETURN_IF_ERROR(session.Run({{x, {{1.f, 0.f}, {0.f, 1.f}}}}, {y}, &outputs));
  std::cout << outputs[0] << "\nat row 1, column 0: " << outputs[0].matrix<float>()(1, 0) << '\n';

  // Errors are returned as a Status: a code, and a text that names the node.
  std::cout << session.Run({y}, &outputs) << '\n';
  ops::MatMul(scope.WithOpName("wrong"), w, {{1.f, 2.f}});
  std::cout << scope.status() << '\n';
  return mr::Status();
}

int main() {
  const mr::Status status = Run();
  if (!status.ok()) std::cerr << status << '\n';
  return status.ok() ? 0 : 1;
}
