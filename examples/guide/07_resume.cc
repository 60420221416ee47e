// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// 07_resume DIR: trains for 30 steps, and in a second session, which finds the checkpoint of the first, on to
// step 51. A program that was killed continues in the same way when it is started again.
#include <cmath>
#include <iostream>

#include "millrace/data.h"
#include "millrace/hooks.h"
#include "millrace/ops.h"
#include "millrace/optimizers.h"

namespace mr = millrace;
namespace ops = millrace::ops;

mr::Status Train(const std::string& folder, int64_t last_step) {
  const mr::Scope scope = mr::Scope::NewRootScope();
  const mr::GraphVariable step = mr::CreateGlobalStep(scope);
  // Where the input stands is saved with the model, so the second session gets the elements that come next.
  const mr::Iterator input = mr::Iterator::Initializable(mr::Dataset::Range(scope, int64_t{4}).Repeat());
  input.SaveWithModel(scope);
  const mr::Output x = ops::Cast(scope, input.GetNext(scope)[0], mr::DataType::kFloat);
  const mr::GraphVariable w(scope.WithOpName("w"), 0.f);
  const mr::Output error = ops::Sub(scope, ops::Mul(scope, w, x), ops::Mul(scope, 3.f, x));
  const mr::Operation train =
      mr::GradientDescentOptimizer(0.05f).Minimize(scope, ops::Square(scope, error), {}, step);

  mr::MonitoredTrainingSessionOptions options{.checkpoint_dir = folder, .save_checkpoint_steps = 10};
  options.hooks = {std::make_shared<mr::StopAtStepHook>(mr::StopAtStepHook::Options{.last_step = last_step})};
  MR_ASSIGN_OR_RETURN(const auto session, mr::MonitoredTrainingSession(scope, options));
  std::vector<mr::Tensor> now;
  MR_RETURN_IF_ERROR(session->raw_session()->Run({step}, &now));
  std::cout << "begins at step " << now[0].scalar<int64_t>();
  const mr::Status status = session->Loop([&](mr::MonitoredSession& s) {
    return s.Run({}, {step, w, x}, {train},
                 &now);  // restores and saves by itself, and stops at the last step
  });
  MR_RETURN_IF_ERROR(status);
  std::cout << ", saves " << mr::LatestCheckpoint(folder).substr(folder.size()) << ", the last x was "
            << now[2].scalar<float>() << ", w is near 3: " << (std::abs(now[1].scalar<float>() - 3) < 0.01f)
            << '\n';
  return mr::Status();
}

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : ".";
  mr::Status status = Train(folder, 30);
  if (status.ok()) status = Train(folder, 51);
  if (!status.ok()) std::cerr << status << '\n';
  return status.ok() ? 0 : 1;
}
