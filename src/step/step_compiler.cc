// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "step/step_compiler.h"

namespace millrace {

StatusOr<std::unique_ptr<CompiledStep>> StepCompiler::Compile(const Graph& full, const RunSignature& signature) const {
  MR_ASSIGN_OR_RETURN(CompiledGraphs graphs, millrace::Compile(full, signature, options_));
  auto step = std::make_unique<CompiledStep>();
  for (GraphPartition& part : graphs.partitions) {
    Worker* worker = nullptr;
    for (Worker* w : workers_) {
      if (part.key.empty() || w->task() == part.key) worker = w;
    }
    if (worker == nullptr) return errors::Internal("No worker for task '", part.key, "'");
    MR_ASSIGN_OR_RETURN(std::unique_ptr<InstalledPartition> installed, worker->Install({std::move(part.graph)}));
    step->partitions.push_back(std::move(installed));
  }
  step->feeds = std::move(graphs.feeds);
  step->fetches = std::move(graphs.fetches);
  step->passes = std::move(graphs.passes);
  return step;
}

}  // namespace millrace
