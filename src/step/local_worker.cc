// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "step/local_worker.h"

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <utility>

#include "compile/partition/partition.h"
#include "exec/executor.h"
#include "exec/memory_copies.h"
#include "exec/plan.h"
#include "exec/step_host.h"
#include "exec/step_trace.h"
#include "exec/stream_span.h"
#include "graph/summary.h"
#include "kernel/kernel_registry.h"
#include "step/cost_graph.h"
#include "step/fault_injector.h"
#include "step/local_rendezvous.h"

namespace millrace {
namespace {

std::vector<std::string> NodesToKeep(const Graph& graph) {
  std::vector<std::string> kept;
  for (const Node* node : graph.OpNodes()) {
    if (node->attrs().Find(PartitionSpec::kFetchedAttr) != nullptr) kept.push_back(node->name());
  }
  return kept;
}

// The nodes that run when a partition starts, before any of its inputs has arrived: few nodes of a plan that
// neither block nor read files. Empty if there may be others.
std::vector<uint32_t> BriefStart(const Plan& plan) {
  constexpr int kMostNodes = 32;
  constexpr std::array<std::string_view, 8> kHarmless = {
      "VarHandleOp", "ReadVariableOp", "VariableV2", "Variable", "_Send", "_Recv", "_Arg", "_Retval"};
  if (!plan.frames().empty() || plan.stream() != nullptr || plan.num_nodes() > kMostNodes) return {};
  std::vector<uint32_t> start;
  std::vector<bool> later(static_cast<size_t>(plan.num_nodes()));
  for (uint32_t i = 0; i < static_cast<uint32_t>(plan.num_nodes()); ++i) {
    const Node& node = plan.graph_node(i);
    const bool harmless =
        !node.op_def().is_stateful || std::ranges::find(kHarmless, node.op_name()) != kHarmless.end();
    const bool waits = plan.node(i).async != nullptr;
    if (!later[i] && (!harmless || (waits && node.op_name() != "_Recv"))) return {};
    if (!later[i]) start.push_back(i);
    if (!later[i] && !waits) continue;
    for (const PlanEdge& edge : plan.data_edges(i)) later[edge.dst] = true;
    for (const uint32_t dst : plan.control_edges(i)) later[dst] = true;
  }
  return start;
}

// The plans of one partition, one per device.
class LocalPartition : public InstalledPartition {
 public:
  struct Part {
    std::unique_ptr<Plan> plan;
    ResourceManager* resources = nullptr;
  };

  // `kept`: nodes whose tensors the session keeps, see SessionTensors.
  LocalPartition(LocalWorker& worker, std::shared_ptr<LocalDevices> devices, std::vector<Part> parts,
                 std::vector<std::string> kept)
      : worker_(worker), devices_(std::move(devices)), parts_(std::move(parts)), kept_(std::move(kept)) {
    may_wait_ = parts_.size() > 1;
    for (const Part& part : parts_)
      may_wait_ = may_wait_ || part.plan->may_wait() || part.plan->stream() != nullptr;
    simple_ = !may_wait_ && parts_[0].plan->frames().empty();
    for (const Part& part : parts_) {
      for (const Node* node : part.plan->graph().OpNodes()) collective_ = collective_ || IsCollective(*node);
    }
    plain_ = parts_.size() == 1 && !collective_;
    if (parts_.size() == 1 && !collective_) brief_start_ = BriefStart(*parts_[0].plan);
  }

  bool is_brief() const override {
    constexpr uint32_t kMostNs = 20'000;
    uint32_t ns = 0;
    for (const uint32_t node : brief_start_) {
      const uint32_t cost = parts_[0].plan->cost_ns(node);
      const PlanNode& of = parts_[0].plan->node(node);
      if (cost == 0 && of.kernel != nullptr && of.async == nullptr) return false;  // not measured yet
      if ((ns += std::min(cost, kMostNs)) >= kMostNs) return false;
    }
    return !brief_start_.empty();
  }

  void Run(StepArgs& args, Done done) override {
    if (plain_ && !args.detached && args.metadata == nullptr && args.info.call_depth == 0 &&
        !args.info.several_tasks) [[likely]] {
      CallFrame frame{args.args, args.rets};
      PartitionRun run{parts_[0].plan.get(), Services(parts_[0], args, frame), nullptr};
      Status status = RunPartitions({&run, 1}, args.inter_op_pool);
      if (!kept_.empty()) [[unlikely]]
        KeepTensors(args, status);
      return done(std::move(status));
    }
    if (args.info.several_tasks) [[unlikely]]
      return RunWithOthers(args, std::move(done));
    RunMembers(args, std::move(done));
  }

  std::vector<std::string> SerializedGraphs() const override {
    std::vector<std::string> graphs;
    for (const Part& part : parts_) graphs.push_back(SerializeGraph(part.plan->graph()));
    return graphs;
  }

  void AppendCosts(const CostModel& model, std::vector<CostNode>* nodes) const override {
    for (const Part& part : parts_) AppendCostGraph(part.plan->graph(), model, nodes);
  }

 private:
  StepServices Services(const Part& part, const StepArgs& args, CallFrame& frame) const {
    StepServices s;
    s.step_id = args.info.step_id;
    s.device = &part.plan->device();
    s.allocator = &part.plan->allocator();
    s.host_allocator = part.plan->host_allocator();
    s.resources = part.resources;
    s.call_frame = &frame;
    s.cancellation = args.cancellation;
    s.pool = args.intra_op_pool;
    s.inter_op_pool = args.inter_op_pool;
    s.step_resources = args.step_resources;
    s.session_tensors = &worker_.session_tensors();
    s.rendezvous = args.rendezvous;
    s.call_depth = args.info.call_depth + args.info.calls_elsewhere;
    s.host = args.host;
    return s;
  }

  // The runs of all partitions of a step; they write to `traces`.
  std::vector<PartitionRun> Runs(const StepArgs& args, CallFrame& frame, Rendezvous* rendezvous,
                                 std::deque<StepTrace>* traces) const {
    std::vector<PartitionRun> runs;
    for (const Part& part : parts_) {
      PartitionRun& run =
          runs.emplace_back(PartitionRun{part.plan.get(), Services(part, args, frame), nullptr});
      if (rendezvous != nullptr) run.services.rendezvous = rendezvous;
      if (!Traced(args)) continue;
      DeviceTrace& trace = args.host->traces->Of(part.plan->device());
      run.trace = &traces->emplace_back(trace, args.function);
      run.services.allocator = &trace.allocator();
    }
    return runs;
  }
  static bool Traced(const StepArgs& args) { return args.host != nullptr && args.host->traces != nullptr; }

  void RunHere(StepArgs& args, Done done) const {
    if (args.detached && args.info.call_depth == 0) return StartDetached(args, std::move(done));
    CallFrame frame{args.args, args.rets};
    if (args.info.call_depth > 0) return RunCalled(args, frame, std::move(done));
    Status status = args.metadata == nullptr ? RunGeneral(args, frame) : RunTraced(args, frame);
    KeepTensors(args, status);
    done(std::move(status));
  }

  // A partition with collective operations adds the resource for these to the step's container. An error of
  // any node ends the operations of all members.
  void RunMembers(StepArgs& args, Done done) const {
    if (!collective_) [[likely]]
      return RunHere(args, std::move(done));
    TaskCollectives& collectives = worker_.steps().collectives();
    const int64_t id = args.info.collective_id();
    if (args.step_resources == nullptr) return done(errors::Internal("The step has no container"));
    const auto step = args.step_resources->LookupOrCreate<StepCollectives>(
        "", StepCollectives::kName, [&] { return collectives.Begin(id, args.info.collective_leader); });
    if (!step.ok()) return done(step.status());
    const bool whole_step = args.info.call_depth == 0;
    RunHere(args,
            [&collectives, id, whole_step, of = *step, finish = std::move(done)](Status status) mutable {
              if (!status.ok()) of->Abort(status);
              if (whole_step) collectives.End(id, status);
              finish(std::move(status));
            });
  }

  // A partition of a step on several tasks: their shared state is found by the step's id.
  void RunWithOthers(StepArgs& args, Done done) const {
    const StatusOr<RefPtr<TaskSteps::Step>> step = worker_.steps().Find(args.info.step_id);
    if (!step.ok()) return done(step.status());
    if (worker_.task_peers() != nullptr) (*step)->rendezvous->Use(worker_.task_peers());
    args.rendezvous = (*step)->rendezvous.get();
    if (args.step_resources == nullptr) args.step_resources = &(*step)->resources;
    // A failing node cancels the enclosing run. The other tasks' runs are cancelled only after the error is
    // known, or theirs would be reported first.
    std::optional<CancellationManager> nested;
    if (!args.detached && args.info.call_depth == 0) args.cancellation = &nested.emplace(args.cancellation);
    RunMembers(args, [step = *step, finish = std::move(done)](Status status) mutable {
      // Other tasks that wait for this one need not wait for the end of the step.
      if (!status.ok()) step->rendezvous->StartAbort(status);
      finish(std::move(status));
    });
  }

  void KeepTensors(const StepArgs& args, const Status& status) const {
    if (kept_.empty() || !status.ok() || args.step_resources == nullptr) return;
    if (args.info.call_depth > 0 || args.step_resources->unused()) return;
    worker_.session_tensors().Keep(*args.step_resources, kept_);
  }

  Status RunTraced(const StepArgs& args, CallFrame& frame) const {
    StepTraces traces(args.info.report_allocations);
    const StepHost host{nullptr, &traces};
    StepArgs traced = args;
    traced.host = &host;
    Status status = RunGeneral(traced, frame);
    traces.Take(&args.metadata->devices);
    return status;
  }

  // Several devices, or a traced step.
  Status RunGeneral(const StepArgs& args, CallFrame& frame) const {
    RefPtr<LocalRendezvous> rendezvous;
    if (parts_.size() > 1 && args.rendezvous == nullptr) rendezvous = MakeRef<LocalRendezvous>();
    std::deque<StepTrace> traces;
    std::vector<PartitionRun> runs = Runs(args, frame, rendezvous.get(), &traces);
    return RunPartitions(runs, args.inter_op_pool);
  }

  // The body of a function. A counting walker cancels its step when a node fails; that must not reach the
  // caller's step before the error does.
  void RunCalled(StepArgs& args, CallFrame& frame, Done done) const {
    const Plan& plan = *parts_[0].plan;
    if (simple_ && !Traced(args) && (args.inter_op_pool == nullptr || !plan.worth_parallel())) [[likely]] {
      PartitionRun run{&plan, Services(parts_[0], args, frame), nullptr};
      done(RunPartitions({&run, 1}, nullptr));
      return;
    }
    if (args.detached && may_wait_) return StartDetached(args, std::move(done));
    CancellationManager nested(args.cancellation);
    args.cancellation = &nested;
    done(RunGeneral(args, frame));
  }

  // The state of a step or a call that continues after Run has returned. The callback of the caller's
  // cancellation holds a reference, too, because it may run late and nothing waits for it.
  struct DetachedRun : RefCounted {
    DetachedRun(const StepArgs& a, Done d)
        : args(a), frame{a.args, a.rets}, caller(*a.cancellation), done(std::move(d)) {}
    StepArgs args;
    CallFrame frame;
    CancellationManager& caller;
    CancellationManager::Token token = CancellationManager::kInvalidToken;
    CancellationManager cancellation;
    RefPtr<LocalRendezvous> rendezvous;
    std::optional<StepTraces> of_step;  // of a traced step; a call writes to those of its caller
    StepHost host;
    std::deque<StepTrace> traces;
    Done done;
  };

  void StartDetached(const StepArgs& given, Done done) const {
    const RefPtr<DetachedRun> call = MakeRef<DetachedRun>(given, std::move(done));
    StepArgs& args = call->args;
    call->token = call->caller.Register([call] { call->cancellation.StartCancel(); });
    if (call->token == CancellationManager::kInvalidToken)
      return call->done(errors::Cancelled("Step was cancelled"));
    if (parts_.size() > 1 && args.rendezvous == nullptr) call->rendezvous = MakeRef<LocalRendezvous>();
    args.cancellation = &call->cancellation;
    if (args.metadata != nullptr) {
      call->of_step.emplace(args.info.report_allocations);
      call->host.traces = &*call->of_step;
      args.host = &call->host;
    }
    std::vector<PartitionRun> runs = Runs(args, call->frame, call->rendezvous.get(), &call->traces);
    StartPartitions(std::move(runs), args.inter_op_pool, [this, call](const Status& status) {
      if (call->of_step) call->of_step->Take(&call->args.metadata->devices);
      KeepTensors(call->args, status);
      call->caller.TryDeregister(call->token);
      // The caller and its cancellation manager may be destroyed as soon as it is called.
      Done finish = std::move(call->done);
      finish(status);
    });
  }

  LocalWorker& worker_;
  const std::shared_ptr<LocalDevices> devices_;
  const std::vector<Part> parts_;
  const std::vector<std::string> kept_;
  bool may_wait_ = false;  // for kernels or other devices
  bool simple_ = false;    // one device, no loops, nothing to wait for
  bool collective_ = false;
  bool plain_ = false;                 // one device, no collectives, nothing kept
  std::vector<uint32_t> brief_start_;  // see BriefStart
};

}  // namespace

LocalDevices::LocalDevices(std::shared_ptr<DeviceSet> devices)
    : devices_(std::move(devices)), view_(*devices_), task_(TaskKey(devices_->client_device()->name())) {
  for (const auto& device : devices_->devices()) {
    resources_[device.get()] = std::make_unique<ResourceManager>(device->name());
  }
}

void LocalDevices::ClearContainers(const std::vector<std::string>& containers) {
  for (auto& [device, resources] : resources_) {
    if (containers.empty()) resources->Clear();
    for (const std::string& container : containers) resources->Cleanup(container);
  }
}

void LocalDevices::DropUsersOf(const FunctionCaller& functions) {
  for (auto& [device, resources] : resources_) resources->DropUsersOf(functions);
}

LocalWorker::LocalWorker(std::shared_ptr<LocalDevices> devices, FaultInjector* faults)
    : devices_(std::move(devices)),
      faults_(faults),
      steps_(std::make_shared<TaskSteps>(
          devices_->task(), [this](std::string_view task, int64_t step_id, const Rendezvous::Key& key,
                                   CancellationManager& /*cancellation*/, Rendezvous::RecvDone done) {
            Pull(task, step_id, key, std::move(done));
          })) {
  UseDevices();
}

LocalWorker::LocalWorker(std::shared_ptr<LocalDevices> devices, std::shared_ptr<TaskSteps> steps,
                         std::shared_ptr<const TaskPeers> peers)
    : devices_(std::move(devices)),
      faults_(nullptr),
      steps_(std::move(steps)),
      task_peers_(std::move(peers)) {
  UseDevices();
}

void LocalWorker::DropFunctions() {
  devices_->DropUsersOf(functions_);
  functions_.DropInstances();
}

void LocalWorker::UseDevices() {
  for (const auto& device : devices_->devices().devices()) {
    if (device->stream() != nullptr) functions_.SetDevicesWorkLater();
  }
}

void LocalWorker::Pull(std::string_view task, int64_t step_id, const Rendezvous::Key& key,
                       Rendezvous::RecvDone done) {
  for (Worker* const peer : peers_) {
    if (peer->task() == task) return peer->RecvTensor(step_id, key, std::move(done));
  }
  done(errors::Internal("No worker known for task '", task, "', which sends ", key.text), Tensor(), false);
}

void LocalWorker::RecvTensor(int64_t step_id, const Rendezvous::Key& key, Rendezvous::RecvDone done) {
  steps_->RecvLocal(step_id, key, std::move(done));
}

void LocalWorker::CleanUpStep(int64_t step_id, Done done) {
  steps_->CleanUp(step_id);
  done(Status());
}

void LocalWorker::ClearContainers(std::vector<std::string> containers, Done done) {
  devices_->ClearContainers(containers);
  done(Status());
}

bool LocalWorker::IsTensorHandle(const Tensor& fed) {
  return fed.dtype() == DataType::kResource && fed.num_elements() == 1 && fed.IsInitialized() &&
         fed.data<ResourceHandle>()[0].container == SessionTensors::kContainer;
}

StatusOr<Tensor> LocalWorker::TensorOfHandle(const Tensor& fed) const {
  if (fed.dtype() != DataType::kResource || fed.num_elements() != 1 || !fed.IsInitialized()) {
    return errors::InvalidArgument("Not a handle of a tensor: ", DataTypeName(fed.dtype()), fed.shape());
  }
  const ResourceHandle& handle = fed.data<ResourceHandle>()[0];
  if (IsTensorHandle(fed)) return session_tensors_.Get(handle.name);
  return errors::InvalidArgument("Invalid resource type hash code: ", handle.hash_code,
                                 "(name: ", handle.name, " type: ", handle.maybe_type_name,
                                 "). Perhaps a resource tensor was being provided as a feed? That is not "
                                 "currently allowed.");
}

StatusOr<std::unique_ptr<InstalledPartition>> LocalWorker::InstallHere(PartitionSpec spec) {
  PartitionOptions options;
  options.bfloat16_transfers = spec.bfloat16_transfers;
  options.incarnation = [this](std::string_view name) { return devices_->view().IncarnationOf(name); };
  std::vector<std::string> kept = NodesToKeep(*spec.graph);
  MR_RETURN_IF_ERROR(functions_.AddFunctions(spec.graph->functions()));
  const bool repeatable = faults_ != nullptr && FaultInjector::IsRepeatable(*spec.graph);
  MR_ASSIGN_OR_RETURN(std::vector<GraphPartition> graphs, PartitionGraph(std::move(spec.graph), options));
  std::vector<LocalPartition::Part> parts;
  for (GraphPartition& g : graphs) {
    // A partition without nodes has no device.
    Device* device = g.key.empty() ? devices_->devices().client_device() : devices_->devices().Find(g.key);
    if (device == nullptr) return errors::InvalidArgument("No device '", g.key, "' in task ", task());
    MemoryCopies copies;
    if (device->has_own_memory()) {
      MR_ASSIGN_OR_RETURN(copies, InsertMemoryCopies(g.graph.get(), [device](const Node& node) {
                            return MemoryOf(node, *device);
                          }));
    }
    auto make = [&](const Node& node) { return MakeKernel(node, spec.scope, *device, copies); };
    MR_ASSIGN_OR_RETURN(std::unique_ptr<Plan> plan, Plan::Build(std::move(g.graph), *device, make));
    parts.push_back({std::move(plan), &devices_->resources(*device)});
  }
  auto installed = std::make_unique<LocalPartition>(*this, devices_, std::move(parts), std::move(kept));
  if (faults_ == nullptr) return std::unique_ptr<InstalledPartition>(std::move(installed));
  return faults_->Wrap(std::move(installed), repeatable);
}

StatusOr<KernelMemory> LocalWorker::MemoryOf(const Node& node, const Device& device) {
  auto memory = KernelRegistry::Global().MemoryOf(device.type(), node.props());
  if (!memory.ok()) return AddNodeContext(memory.status(), node);
  return memory;
}

StatusOr<std::shared_ptr<OpKernel>> LocalWorker::MakeKernel(const Node& node, const std::string& scope,
                                                            Device& device, const MemoryCopies& copies) {
  // Transfers have no state to share: their names are new in each compilation.
  const bool keep = node.op_def().is_stateful && !node.traits().is_send && !node.traits().is_recv;
  const std::pair<const Device*, std::string> key(&device, keep ? scope + node.name() : std::string());
  if (keep) {
    MutexLock lock(mu_);
    const auto it = stateful_kernels_.find(key);
    // Gradients may have added outputs to the node since.
    if (it != stateful_kernels_.end() && it->second->num_outputs() == node.num_outputs()) return it->second;
    if (it != stateful_kernels_.end()) stateful_kernels_.erase(it);
  }
  KernelConstruction construction(node.name(), node.shared_props(), device, devices_->resources(device),
                                  &functions_);
  std::shared_ptr<OpKernel> kernel;
  if (const auto copy = copies.find(&node); copy != copies.end()) {
    kernel = MakeMemoryCopy(construction, copy->second);
  } else {
    auto made = KernelRegistry::Global().Create(device.type(), construction);
    if (!made.ok()) return AddNodeContext(made.status(), node);
    kernel = MeasureInStream(*std::move(made), construction);
  }
  if (faults_ != nullptr) kernel = faults_->Wrap(std::move(kernel), construction);
  if (!keep) return kernel;
  MutexLock lock(mu_);
  return stateful_kernels_.emplace(key, std::move(kernel)).first->second;
}

}  // namespace millrace
