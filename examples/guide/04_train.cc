// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Trains two layers to compute "exclusive or".
#include <iostream>

#include "millrace/client_session.h"
#include "millrace/layers.h"
#include "millrace/losses.h"
#include "millrace/ops.h"
#include "millrace/optimizers.h"

namespace mr = millrace;
namespace ops = millrace::ops;

mr::Status Run() {
  const mr::Scope scope = mr::Scope::NewRootScope();
  mr::SetRandomSeed(scope, 1);  // of the initial weights
  const mr::Output x =
      ops::Placeholder(scope.WithOpName("x"), mr::DataType::kFloat, ops::Placeholder::Shape({-1, 2}));
  const mr::Output wanted =
      ops::Placeholder(scope.WithOpName("wanted"), mr::DataType::kFloat, ops::Placeholder::Shape({-1, 1}));
  const mr::Output hidden = mr::layers::Dense(scope, x, 8, {.activation = mr::layers::Tanh});
  const mr::Output logit = mr::layers::Dense(scope, hidden, 1);
  const mr::Output loss = mr::losses::SigmoidCrossEntropy(scope, wanted, logit);
  const mr::Operation train = mr::AdamOptimizer(0.05f).Minimize(scope, loss);
  const mr::Operation init = mr::GlobalVariablesInitializer(scope);
  for (const mr::GraphVariable& variable : mr::TrainableVariables(scope))
    std::cout << variable.name() << ' ' << scope.ShapeOf(variable) << '\n';

  // The variables live in the session, from the run of the initializer on.
  const mr::ClientSession session(scope);
  MR_RETURN_IF_ERROR(session.Run({}, {}, {init}, nullptr));
  const mr::ClientSession::Feeds examples = {{x, {{0.f, 0.f}, {0.f, 1.f}, {1.f, 0.f}, {1.f, 1.f}}},
                                             {wanted, {{0.f}, {1.f}, {1.f}, {0.f}}}};
  std::vector<mr::Tensor> outputs;
  float first_loss = 0;
  for (int step = 0; step < 200; ++step) {
    MR_RETURN_IF_ERROR(session.Run(examples, {loss}, {train}, &outputs));
    if (step == 0) first_loss = outputs[0].scalar<float>();
  }
  if (outputs[0].scalar<float>() > first_loss / 10) return mr::errors::Internal("it has not learned");
  MR_RETURN_IF_ERROR(session.Run(examples, {ops::Round(scope, ops::Sigmoid(scope, logit))}, &outputs));
  std::cout << outputs[0] << '\n';
  return mr::Status();
}

int main() {
  const mr::Status status = Run();
  if (!status.ok()) std::cerr << status << '\n';
  return status.ok() ? 0 : 1;
}
