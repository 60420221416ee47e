// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compile/compile_options.h"
#include "compile/pipeline.h"
#include "compile/place/cost_model.h"
#include "device/device_view.h"
#include "graph/function_body.h"
#include "step/worker.h"

namespace millrace {

// A compiled signature: its partitions are installed on their workers. Immutable; shared by the
// Runs.
struct CompiledStep {
  std::vector<std::unique_ptr<InstalledPartition>> partitions;
  std::vector<Worker*> workers;  // of the partitions
  // False if it is just one partition at the session's own task: see RunOnWorkers.
  bool several_tasks = false;
  // For a step with collective operations: its key in other sessions that run the same ones; else 0.
  int64_t collective_graph_key = 0;
  std::vector<EndpointInfo> feeds;    // by slot
  std::vector<EndpointInfo> fetches;  // by slot
  std::vector<PassStats> passes;
};

// Turns a graph and a signature into a CompiledStep, for a session, a master or a function call. Thread-safe.
class StepCompiler {
 public:
  // The first worker is that of the compiling task, which has feeds and fetches and evaluates constants. All
  // outlive the compiler.
  StepCompiler(std::vector<Worker*> workers, CompileOptions options);
  ~StepCompiler();
  // Nodes of `full` that have a device keep it. `full` is only read.
  StatusOr<std::unique_ptr<CompiledStep>> Compile(const Graph& full, const RunSignature& signature,
                                                  FeedConvention convention = FeedConvention::kCallFrame,
                                                  FeedShapes shapes = FeedShapes::kDeclared,
                                                  std::span<const DebugWatch> watches = {}) const;
  // Compiles the body of a function. Nodes without constraints are placed on `device`. Its arguments and
  // results are passed there or, if it belongs to another task, at this one. State is kept under names that
  // begin with `scope`.
  StatusOr<std::unique_ptr<CompiledStep>> CompileFunction(FunctionBody body, const DeviceDescription& device,
                                                          const std::string& scope) const;
  // Gives a device to each node that has none. On error nothing is changed.
  Status PlaceNodes(Graph* graph) const;
  // The devices of all workers.
  const DeviceView& devices() const { return devices_; }
  const std::vector<Worker*>& workers() const { return workers_; }
  // Whether nodes may run on other tasks than this one.
  bool has_other_tasks() const { return workers_.size() > 1; }
  // The costs of nodes, as far as recorded here. Thread-safe itself.
  CostModel& costs() const { return *costs_; }

 private:
  StatusOr<std::unique_ptr<CompiledStep>> Install(CompiledGraphs graphs, const std::string& scope) const;

  const std::vector<Worker*> workers_;
  const DeviceView devices_;
  const std::unique_ptr<ConstantEvaluator> evaluator_;
  const std::unique_ptr<CostModel> costs_;
  const PlacementCosts placement_costs_;
  const CompileOptions options_;
  CompileContext context_{options_};
};

}  // namespace millrace
