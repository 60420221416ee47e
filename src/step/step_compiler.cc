// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "step/step_compiler.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/hash.h"
#include "base/mutex.h"
#include "kernel/kernel_registry.h"
#include "millrace/ref.h"
#include "step/constant_evaluator.h"
#include "step/task_collectives.h"

namespace millrace {
namespace {

DeviceView DevicesOf(const std::vector<Worker*>& workers) {
  std::vector<const DeviceView*> tasks;
  for (const Worker* worker : workers) tasks.push_back(&worker->devices());
  return DeviceView(tasks);
}

// Collects the answers of several workers. Shared with answers that arrive after an error.
struct Installing : RefCounted {
  explicit Installing(size_t n) : results(n), missing(n) {}
  Mutex mu;
  CondVar changed;
  Status status MR_GUARDED_BY(mu);
  std::vector<std::unique_ptr<InstalledPartition>> results MR_GUARDED_BY(mu);
  size_t missing MR_GUARDED_BY(mu);
};

}  // namespace

StepCompiler::StepCompiler(std::vector<Worker*> workers, CompileOptions options)
    : workers_(std::move(workers)),
      devices_(DevicesOf(workers_)),
      evaluator_(std::make_unique<StepConstantEvaluator>(*workers_.front())),
      costs_(std::make_unique<CostModel>()),
      placement_costs_(CostsOf(*costs_)),
      options_(std::move(options)) {
  if (options_.place_by_cost) context_.place.costs = &placement_costs_;
  const DeviceDescription& client = *devices_.client_device();
  context_.prune.client_device = client.name();
  context_.prune.client_incarnation = client.attributes().incarnation;
  context_.place.devices = &devices_;
  context_.place.has_kernel = [](std::string_view type, const NodeProps& props) {
    if (KernelRegistry::Global().HasKernel(type, props)) return true;
    // A function of the graph is called through an op that every device supports.
    const auto op = OpRegistry::Global().LookUp(props.op->def.name);
    return !op.ok() || *op != props.op;
  };
  context_.place.kernels_text = [](std::string_view op) {
    std::string text;
    for (const KernelDef* kernel : KernelRegistry::Global().KernelsOf(op)) {
      text += StrCat("  ", kernel->ToString(), "\n");
    }
    return text.empty() ? "  <no registered kernels>\n" : text;
  };
  context_.partition.key = TaskKey;
  context_.partition.incarnation = [this](std::string_view device) { return devices_.IncarnationOf(device); };
  context_.partition.bfloat16_transfers = options_.bfloat16_transfers;
  if (options_.fold_constants) context_.evaluator = evaluator_.get();
}

StepCompiler::~StepCompiler() = default;

Status StepCompiler::PlaceNodes(Graph* graph) const {
  // A graph may contain nodes without a kernel: they are errors of the steps that need them.
  PlaceOptions options = context_.place;
  options.leave_without_kernel = true;
  return Place(graph, options);
}

StatusOr<std::unique_ptr<CompiledStep>> StepCompiler::Compile(const Graph& full,
                                                              const RunSignature& signature,
                                                              FeedConvention convention, FeedShapes shapes,
                                                              std::span<const DebugWatch> watches) const {
  CompileContext context = context_;
  context.watches = watches;
  context.prune.convention = convention;
  context.prune.shapes = shapes;
  MR_ASSIGN_OR_RETURN(CompiledGraphs graphs, millrace::Compile(full, signature, context));
  for (const std::string& fetch : signature.fetches) {
    for (GraphPartition& part : graphs.partitions) {
      Node* const node = part.graph->FindNode(ParseTensorId(fetch).name);
      if (node != nullptr && node->op_def().is_stateful) node->SetAttr(PartitionSpec::kFetchedAttr, true);
    }
  }
  return Install(std::move(graphs), "");
}

StatusOr<std::unique_ptr<CompiledStep>> StepCompiler::CompileFunction(FunctionBody body,
                                                                      const DeviceDescription& device,
                                                                      const std::string& scope) const {
  CompileContext context = context_;
  context.place.default_device = &device;
  // Parameters and results are passed where the caller is.
  const DeviceDescription& client = *devices_.client_device();
  const bool here = device.parsed_name().SameTask(client.parsed_name());
  const std::string& home = here ? device.name() : client.name();
  for (Node* node : body.args) node->set_assigned_device(home);
  for (Node* node : body.rets) node->set_assigned_device(home);
  std::vector<std::string> must_run;
  for (const Node* node : body.control_rets) must_run.push_back(node->name());
  MR_ASSIGN_OR_RETURN(CompiledGraphs graphs, CompileWhole(std::move(body.graph), must_run, context));
  return Install(std::move(graphs), scope);
}

namespace {

// A hash of the instances' keys, in their order; never 0.
int64_t CollectiveGraphKey(const std::vector<GraphPartition>& partitions) {
  std::set<int64_t> instances;
  for (const GraphPartition& part : partitions) {
    for (const Node* node : part.graph->OpNodes()) {
      if (!IsCollective(*node)) continue;
      const auto key = node->attrs().Get<int64_t>("instance_key");
      if (key.ok()) instances.insert(*key);
    }
  }
  if (instances.empty()) return 0;
  uint64_t hash = 0;
  for (const int64_t key : instances) hash = HashCombine(hash, static_cast<uint64_t>(key));
  return static_cast<int64_t>(hash | 1);
}

}  // namespace

StatusOr<std::unique_ptr<CompiledStep>> StepCompiler::Install(CompiledGraphs graphs,
                                                              const std::string& scope) const {
  auto step = std::make_unique<CompiledStep>();
  std::map<std::string_view, Worker*> by_task;
  for (Worker* worker : workers_) by_task[worker->task()] = worker;
  by_task[""] = workers_.front();
  for (const GraphPartition& part : graphs.partitions) {
    const auto worker = by_task.find(part.key);
    if (worker == by_task.end()) return errors::Internal("No worker for task '", part.key, "'");
    step->workers.push_back(worker->second);
  }
  step->several_tasks = step->workers.size() > 1 || step->workers.front() != workers_.front();
  step->collective_graph_key = CollectiveGraphKey(graphs.partitions);
  const size_t n = graphs.partitions.size();
  const RefPtr<Installing> installing = MakeRef<Installing>(n);
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  // Workers that answer asynchronously work meanwhile.
  std::stable_partition(order.begin(), order.end(),
                        [&](size_t i) { return !step->workers[i]->in_process(); });
  for (const size_t i : order) {
    PartitionSpec spec{std::move(graphs.partitions[i].graph), options_.bfloat16_transfers, scope};
    step->workers[i]->InstallAsync(std::move(spec),
                                   [installing, i](StatusOr<std::unique_ptr<InstalledPartition>> installed) {
                                     MutexLock lock(installing->mu);
                                     installing->status.Update(installed.status());
                                     if (installed.ok()) installing->results[i] = *std::move(installed);
                                     --installing->missing;
                                     installing->changed.NotifyAll();
                                   });
  }
  {
    MutexLock lock(installing->mu);
    while (installing->missing > 0) installing->changed.Wait(installing->mu);
    step->partitions = std::move(installing->results);
    // Partitions that other workers have installed are released with the step.
    if (!installing->status.ok()) return installing->status;
  }
  step->feeds = std::move(graphs.feeds);
  step->fetches = std::move(graphs.fetches);
  step->passes = std::move(graphs.passes);
  return step;
}

}  // namespace millrace
