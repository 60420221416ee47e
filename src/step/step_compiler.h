// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "compile/pipeline.h"
#include "step/worker.h"

namespace millrace {

// A signature made ready to run: its partitions are installed on their workers. Immutable; shared by the Runs.
struct CompiledStep {
  std::vector<std::unique_ptr<InstalledPartition>> partitions;
  std::vector<EndpointInfo> feeds;    // by slot
  std::vector<EndpointInfo> fetches;  // by slot
  std::vector<PassStats> passes;
};

// Turns a graph and a signature into a CompiledStep, for a session, a master or a function call. Thread-safe.
class StepCompiler {
 public:
  // `workers` together own all devices that `options.place` knows.
  StepCompiler(std::vector<Worker*> workers, CompileOptions options)
      : workers_(std::move(workers)), options_(std::move(options)) {}
  // Nodes of `full` that have a device keep it. `full` is only read.
  StatusOr<std::unique_ptr<CompiledStep>> Compile(const Graph& full, const RunSignature& signature) const;

 private:
  const std::vector<Worker*> workers_;
  const CompileOptions options_;
};

}  // namespace millrace
