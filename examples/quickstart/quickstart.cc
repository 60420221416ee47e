// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Builds softmax(xW + b), differentiates it and trains it to tell three groups of points apart.
#include <cstdio>

#include "millrace/client_session.h"
#include "millrace/ops.h"
#include "millrace/optimizers.h"

namespace mr = millrace;
namespace ops = millrace::ops;

int main() {
  const mr::Scope scope = mr::Scope::NewRootScope();
  const mr::Output x = ops::Placeholder(scope.WithOpName("x"), mr::DataType::kFloat);
  const mr::Output labels = ops::Placeholder(scope.WithOpName("labels"), mr::DataType::kInt32);
  const mr::GraphVariable w(scope.WithOpName("W"), {{0.f, 0.f, 0.f}, {0.f, 0.f, 0.f}});
  const mr::GraphVariable b(scope.WithOpName("b"), {0.f, 0.f, 0.f});
  const mr::Output y = ops::Softmax(scope, ops::Add(scope, ops::MatMul(scope, x, w), b));
  const mr::Output p = ops::Sum(scope, ops::Mul(scope, y, ops::OneHot(scope, labels, 3, 1.f, 0.f)), 1);
  const mr::Output loss = ops::Neg(scope, ops::Mean(scope, ops::Log(scope, p), 0));
  const mr::Operation train = mr::GradientDescentOptimizer(0.5f).Minimize(scope, loss);
  const mr::Operation init = mr::GlobalVariablesInitializer(scope);

  const mr::ClientSession session(scope);
  const mr::ClientSession::Feeds data = {
      {x, {{2.f, 0.f}, {1.8f, 0.3f}, {-1.f, 1.7f}, {-1.2f, 1.5f}, {-1.f, -1.7f}, {-0.8f, -1.9f}}},
      {labels, {0, 0, 1, 1, 2, 2}}};
  std::vector<mr::Tensor> outputs;
  mr::Status status = session.Run({}, {}, {init}, nullptr);
  for (int step = 0; step <= 100 && status.ok(); ++step) {
    status = session.Run(data, {loss}, {train}, &outputs);
    if (status.ok() && step % 20 == 0) std::printf("step %3d  loss %.4f\n", step, outputs[0].scalar<float>());
  }
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
