// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Builds softmax(xW + b), differentiates it and trains it to tell three groups of points apart.
#include <cstdio>

#include "millrace/client_session.h"
#include "millrace/ops.h"
#include "millrace/optimizers.h"

int main() {
  using millrace::Output;
  namespace ops = millrace::ops;
  const millrace::Scope scope = millrace::Scope::NewRootScope();

  const Output x = ops::Placeholder(scope.WithOpName("x"), millrace::DataType::kFloat);
  const Output labels = ops::Placeholder(scope.WithOpName("labels"), millrace::DataType::kFloat);
  const millrace::GraphVariable w(scope.WithOpName("W"), {{0.f, 0.f, 0.f}, {0.f, 0.f, 0.f}});
  const millrace::GraphVariable b(scope.WithOpName("b"), {0.f, 0.f, 0.f});
  const Output y = ops::Softmax(scope, ops::Add(scope, ops::MatMul(scope, x, w), b));
  const Output log_likelihood = ops::Mul(scope, labels, ops::Log(scope, y));
  const Output loss = ops::Neg(scope, ops::Mean(scope, ops::Sum(scope, log_likelihood, 1), 0));
  const millrace::Operation train = millrace::GradientDescentOptimizer(0.5f).Minimize(scope, loss);
  const millrace::Operation init = millrace::GlobalVariablesInitializer(scope);

  const millrace::ClientSession session(scope);
  const millrace::ClientSession::Feeds data = {
      {x, {{2.f, 0.f}, {1.8f, 0.3f}, {-1.f, 1.7f}, {-1.2f, 1.5f}, {-1.f, -1.7f}, {-0.8f, -1.9f}}},
      {labels,
       {{1.f, 0.f, 0.f},
        {1.f, 0.f, 0.f},
        {0.f, 1.f, 0.f},
        {0.f, 1.f, 0.f},
        {0.f, 0.f, 1.f},
        {0.f, 0.f, 1.f}}}};
  std::vector<millrace::Tensor> outputs;
  millrace::Status status = session.Run({}, {}, {init}, nullptr);
  for (int step = 0; step <= 100 && status.ok(); ++step) {
    status = session.Run(data, {loss}, {train}, &outputs);
    if (status.ok() && step % 20 == 0) std::printf("step %3d  loss %.4f\n", step, outputs[0].scalar<float>());
  }
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
