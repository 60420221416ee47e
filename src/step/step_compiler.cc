// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "step/step_compiler.h"

#include "kernel/kernel_registry.h"
#include "step/constant_evaluator.h"

namespace millrace {

StepCompiler::StepCompiler(std::vector<Worker*> workers, const DeviceSet& devices,
                           const StepCompilerOptions& options)
    : workers_(std::move(workers)),
      evaluator_(std::make_unique<StepConstantEvaluator>(*workers_.front())),
      costs_(std::make_unique<CostModel>()),
      placement_costs_(CostsOf(*costs_)) {
  if (options.place_by_cost) options_.place.costs = &placement_costs_;
  const Device& client = *devices.client_device();
  options_.prune.client_device = client.name();
  options_.prune.client_incarnation = client.attributes().incarnation;
  options_.place.devices = &devices;
  options_.place.has_kernel = [](std::string_view type, const NodeProps& props) {
    if (KernelRegistry::Global().HasKernel(type, props)) return true;
    // A function of the graph is called through an op that every device has.
    const auto op = OpRegistry::Global().LookUp(props.op->def.name);
    return !op.ok() || *op != props.op;
  };
  options_.place.kernels_text = [](std::string_view op) {
    std::string text;
    for (const KernelDef* kernel : KernelRegistry::Global().KernelsOf(op)) {
      text += StrCat("  ", kernel->ToString(), "\n");
    }
    return text.empty() ? "  <no registered kernels>\n" : text;
  };
  options_.place.allow_soft_placement = options.allow_soft_placement;
  options_.place.log_device_placement = options.log_device_placement;
  options_.place.spread_seed = options.spread_seed;
  options_.partition.key = TaskKey;
  if (options.fold_constants) options_.evaluator = evaluator_.get();
  options_.max_folded_bytes = options.max_folded_bytes;
  options_.partition.bfloat16_transfers = options.bfloat16_transfers;
  options_.disabled_passes.insert(options.disabled_passes.begin(), options.disabled_passes.end());
  if (!options.eliminate_common_subexpressions) options_.disabled_passes.insert("cse");
  options_.reassociate_floats = options.reassociate_floats;
  options_.remove_checks = options.remove_checks;
  if (options.max_rounds > 0) options_.max_rounds = options.max_rounds;
  options_.min_nodes = options.min_nodes;
  options_.optimizer_timeout_ms = options.optimizer_timeout_ms;
  options_.dump = options.dump;
}

StepCompiler::~StepCompiler() = default;

Status StepCompiler::PlaceNodes(Graph* graph) const {
  // What has no kernel may stand in the graph: it is an error of the steps that need it.
  PlaceOptions options = options_.place;
  options.leave_without_kernel = true;
  return Place(graph, options);
}

StatusOr<std::unique_ptr<CompiledStep>> StepCompiler::Compile(const Graph& full,
                                                              const RunSignature& signature,
                                                              FeedConvention convention) const {
  CompileOptions options = options_;
  options.prune.convention = convention;
  MR_ASSIGN_OR_RETURN(CompiledGraphs graphs, millrace::Compile(full, signature, options));
  return Install(std::move(graphs), "");
}

StatusOr<std::unique_ptr<CompiledStep>> StepCompiler::CompileFunction(FunctionBody body, const Device& device,
                                                                      const std::string& scope) const {
  CompileOptions options = options_;
  options.place.default_device = &device;
  // Parameters and results are handed over where the caller is.
  for (Node* node : body.args) node->set_assigned_device(device.name());
  for (Node* node : body.rets) node->set_assigned_device(device.name());
  std::vector<std::string> must_run;
  for (const Node* node : body.control_rets) must_run.push_back(node->name());
  MR_ASSIGN_OR_RETURN(CompiledGraphs graphs, CompileWhole(std::move(body.graph), must_run, options));
  return Install(std::move(graphs), scope);
}

StatusOr<std::unique_ptr<CompiledStep>> StepCompiler::Install(CompiledGraphs graphs,
                                                              const std::string& scope) const {
  auto step = std::make_unique<CompiledStep>();
  for (GraphPartition& part : graphs.partitions) {
    Worker* worker = nullptr;
    for (Worker* w : workers_) {
      if (part.key.empty() || w->task() == part.key) worker = w;
    }
    if (worker == nullptr) return errors::Internal("No worker for task '", part.key, "'");
    MR_ASSIGN_OR_RETURN(
        std::unique_ptr<InstalledPartition> installed,
        worker->Install({std::move(part.graph), options_.partition.bfloat16_transfers, scope}));
    step->partitions.push_back(std::move(installed));
  }
  step->feeds = std::move(graphs.feeds);
  step->fetches = std::move(graphs.fetches);
  step->passes = std::move(graphs.passes);
  return step;
}

}  // namespace millrace
