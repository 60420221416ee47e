// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compile/optimize/constant_evaluator.h"
#include "step/worker.h"

namespace millrace {

// Evaluates constant subgraphs as steps of a local worker, on the calling thread.
class StepConstantEvaluator : public ConstantEvaluator {
 public:
  explicit StepConstantEvaluator(Worker& worker) : worker_(worker) {}
  StatusOr<std::vector<Tensor>> Evaluate(std::unique_ptr<Graph> graph, int num_outputs) override;

 private:
  Worker& worker_;
};

}  // namespace millrace
