// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "step/constant_evaluator.h"

namespace millrace {

StatusOr<std::vector<Tensor>> StepConstantEvaluator::Evaluate(std::unique_ptr<Graph> graph, int num_outputs) {
  MR_ASSIGN_OR_RETURN(std::unique_ptr<InstalledPartition> installed, worker_.Install({std::move(graph)}));
  std::vector<Tensor> outputs(num_outputs);
  CancellationManager cancellation;
  StepArgs args;
  args.rets = outputs;
  args.cancellation = &cancellation;
  Status status;
  installed->Run(args, [&status](Status s) { status = std::move(s); });
  MR_RETURN_IF_ERROR(status);
  return outputs;
}

}  // namespace millrace
