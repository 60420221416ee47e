// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "session/direct_session.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/logging.h"
#include "base/notification.h"
#include "base/small_vector.h"
#include "graph/function_library.h"
#include "graph/node_def_text.h"
#include "graph/shape_refiner.h"
#include "op/body_props.h"
#include "op/function_attrs.h"
#include "session/callable_devices.h"
#include "session/feed_check.h"
#include "session/session_factory.h"
#include "session/session_options.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace {
namespace {

// Adds a hint to an out-of-memory error: how to list the tensors that use the memory.
Status WithHint(Status status) {
  if (!errors::IsResourceExhausted(status) || status.message().find("OOM when") == std::string_view::npos) {
    return status;
  }
  return status.WithContext(
      "\nHint: If you want to see a list of allocated tensors when OOM happens, add "
      "report_tensor_allocations_upon_oom to RunOptions for current allocation info.\n");
}

int ResolveThreads(int configured) {
  if (configured < 0) return 1;  // the thread that calls Run
  if (configured > 0) return configured;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

CompileOptions CompileOptionsOf(const SessionOptions& options, const TestConfig& test) {
  CompileOptions compile = CompileOptionsOf(options);
  // A graph that is placed once per signature could expect its state on a different device each time.
  if (!options.place_pruned_graph) compile.spread_seed = test.spread_seed;
  compile.spread_over_types = test.spread_over_types;
  return compile;
}

}  // namespace

StatusOr<std::unique_ptr<Session>> DirectSession::Make(const SessionOptions& options) {
  MR_ASSIGN_OR_RETURN(const TestConfig test, ReadTestConfig());
  MR_ASSIGN_OR_RETURN(std::unique_ptr<DirectSession> session, MakeForTest(options, test));
  return std::unique_ptr<Session>(std::move(session));
}

StatusOr<std::unique_ptr<DirectSession>> DirectSession::MakeForTest(const SessionOptions& wanted,
                                                                    const TestConfig& test) {
  const SessionOptions options = WithTestConfig(test, wanted);
  MR_ASSIGN_OR_RETURN(Pools pools, MakePools(options));
  MR_ASSIGN_OR_RETURN(Tasks tasks, MakeTasks(options, test));
  return std::unique_ptr<DirectSession>(new DirectSession(options, test, std::move(tasks), std::move(pools)));
}

StatusOr<std::unique_ptr<DirectSession>> DirectSession::MakeForCluster(const SessionOptions& options,
                                                                       std::unique_ptr<LocalWorker> own,
                                                                       const MakeOtherTasks& others) {
  MR_ASSIGN_OR_RETURN(const TestConfig test, ReadTestConfig());
  MR_ASSIGN_OR_RETURN(Pools pools, MakePools(options));
  Tasks tasks;
  tasks.own = std::move(own);
  tasks.of_cluster = true;
  MR_ASSIGN_OR_RETURN(tasks.others, others(options, CompileOptionsOf(options, test), *tasks.own));
  tasks.own->SetPeers(tasks.others->workers());
  return std::unique_ptr<DirectSession>(new DirectSession(options, test, std::move(tasks), std::move(pools)));
}

StatusOr<DirectSession::Tasks> DirectSession::MakeTasks(const SessionOptions& options,
                                                        const TestConfig& test) {
  MR_ASSIGN_OR_RETURN(const DeviceOptions device_options, DeviceOptionsOf(options));
  MR_ASSIGN_OR_RETURN(std::unique_ptr<DeviceSet> devices,
                      DeviceFactoryRegistry::Global().CreateDevices(device_options));
  Tasks tasks;
  if (test.faults.any()) tasks.faults = std::make_unique<FaultInjector>(test.faults);
  tasks.own =
      std::make_unique<LocalWorker>(std::make_shared<LocalDevices>(std::move(devices)), tasks.faults.get());
  if (test.other_tasks) {
    MR_ASSIGN_OR_RETURN(tasks.others, test.other_tasks(options, CompileOptionsOf(options, test), *tasks.own));
    tasks.own->SetPeers(tasks.others->workers());
  }
  return tasks;
}

std::vector<Worker*> DirectSession::Tasks::workers() const {
  std::vector<Worker*> all{own.get()};
  if (others == nullptr) return all;
  for (Worker* worker : others->workers()) all.push_back(worker);
  return all;
}

// Nodes and loops share the workers of one pool, unless pools for nodes are configured. The one that is
// limited to fewer threads gets a limited view of it.
StatusOr<DirectSession::Pools> DirectSession::MakePools(const SessionOptions& options) {
  MR_RETURN_IF_ERROR(CheckThreads(options));
  const int inter = ResolveThreads(options.inter_op_parallelism_threads);
  const int intra = ResolveThreads(options.intra_op_parallelism_threads);
  Pools pools;
  const bool shared = options.inter_op_pools.empty();
  const auto base = GetThreadPool(shared ? std::max(inter, intra) : intra, options.use_per_session_threads);
  pools.bases.push_back(base);
  const auto view = [&](int threads) -> std::shared_ptr<ThreadPool> {
    if (threads <= 1) return nullptr;
    return threads == base->parallelism() ? base : std::make_shared<ThreadPool>(*base, threads);
  };
  pools.intra_op = view(intra);
  if (shared) pools.inter_op.push_back(view(inter));
  for (const InterOpPool& pool : options.inter_op_pools) {
    if (pool.global_name.empty()) {
      pools.inter_op.push_back(GetThreadPool(pool.num_threads > 0 ? pool.num_threads : inter, true));
    } else {
      MR_ASSIGN_OR_RETURN(auto global, GetGlobalThreadPool(pool.global_name, pool.num_threads, inter));
      pools.inter_op.push_back(std::move(global));
    }
  }
  // A partial run has no thread of the caller, even if only one node may run at a time.
  pools.partial = pools.inter_op.front() != nullptr ? pools.inter_op.front()
                                                    : std::make_shared<ThreadPool>("partial_runs", 2);
  return pools;
}

DirectSession::DirectSession(const SessionOptions& options, const TestConfig& test, Tasks tasks, Pools pools)
    : options_(options),
      tasks_(std::move(tasks)),
      worker_(*tasks_.own),
      compiler_(tasks_.workers(), CompileOptionsOf(options, test)),
      pools_(std::move(pools)),
      inter_op_pool_(pools_.inter_op.front().get()),
      intra_op_pool_(pools_.intra_op.get()) {
  worker_.functions().SetCompiler(&compiler_);
  graph_ = std::make_unique<Graph>(OpRegistry::Global());
  if (!tasks_.of_cluster) DirectSessions::Get().Add(this);
}

DirectSession::~DirectSession() {
  if (!tasks_.of_cluster) DirectSessions::Get().Remove(this);
  Close().IgnoreError("closing a direct session cannot fail");
  partial_runs_.Clear();
  runner_.WaitForStarted();
  // Iterators have separate threads, which call functions. A cluster keeps the rest for other sessions.
  if (!tasks_.of_cluster)
    worker_.ClearContainers({}, [](const Status& s) { s.IgnoreError("dropping resources cannot fail"); });
  worker_.DropFunctions();
}

template <typename Def>
Status DirectSession::CreateFrom(Def&& graph) {
  if (graph.node_size() == 0 && graph.library().function_size() == 0) return Status();
  WriterLock lock(graph_mu_);
  if (created_) return errors::AlreadyExists("A Graph has already been created for this session.");
  return ImportNodes(std::forward<Def>(graph));
}

template <typename Def>
Status DirectSession::ExtendBy(Def&& graph) {
  WriterLock lock(graph_mu_);
  return ImportNodes(std::forward<Def>(graph));
}

template <typename Def>
Status DirectSession::ImportNodes(Def&& graph) {
  if (runner_.closed()) return errors::Cancelled("Session has been closed.");
  const int first = graph_->num_node_ids();
  for (const tensorflow::NodeDef& node : graph.node()) {
    if (first == 2 || graph_->FindNode(node.name()) == nullptr) continue;
    return errors::InvalidArgument("GraphDef argument to Extend includes node '", node.name(),
                                   "', which was created by a previous call to Create or Extend in this "
                                   "session.");
  }
  // As in TensorFlow, a session accepts nodes that will fail when they run: incompatible shapes, and
  // attributes of newer versions.
  ImportOptions import;
  import.validate_shapes = false;
  import.drop_unknown_attrs = true;
  MR_RETURN_IF_ERROR(ImportGraphDef(std::forward<Def>(graph), import, graph_.get()));
  return FinishExtend(first);
}

Status DirectSession::Create(const tensorflow::GraphDef& graph) { return CreateFrom(graph); }
Status DirectSession::Create(tensorflow::GraphDef&& graph) { return CreateFrom(std::move(graph)); }
Status DirectSession::Extend(const tensorflow::GraphDef& graph) { return ExtendBy(graph); }
Status DirectSession::Extend(tensorflow::GraphDef&& graph) { return ExtendBy(std::move(graph)); }

Status DirectSession::ExtendFrom(const Graph& graph) {
  if (runner_.closed()) return errors::Cancelled("Session has been closed.");
  WriterLock lock(graph_mu_);
  const FunctionLibrary old_functions = graph_->functions();
  MR_RETURN_IF_ERROR(graph_->functions().Merge(graph.functions()));
  const int first = graph_->num_node_ids();
  Status added = AddNodesOf(graph);
  if (added.ok()) added = FinishExtend(first);
  if (!added.ok()) {
    graph_->RemoveNodesFrom(first);
    graph_->functions() = old_functions;
    return added;
  }
  seen_ids_ = graph.num_node_ids();
  return Status();
}

namespace {

// Gradients have added inputs and outputs to a node that the session already has.
Status Lengthen(const Node& node, Node* copy) {
  const int old_inputs = copy->num_inputs();
  for (const auto& [name, value] : node.attrs()) copy->SetAttr(name, value);
  if (copy->num_outputs() != node.num_outputs() || copy->num_inputs() != node.num_inputs())
    return errors::InvalidArgument("Node '", node.name(), "' was changed after it was added to the session");
  for (int i = old_inputs; i < node.num_inputs(); ++i) {
    MR_ASSIGN_OR_RETURN(const Edge* edge, node.InputEdge(i));
    Node* src = copy->graph().FindNode(edge->src->name());
    if (src == nullptr) return errors::InvalidArgument("Node '", node.name(), "' has an unknown input");
    copy->graph().AddEdge(src, edge->src_output, copy, i);
  }
  return Status();
}

}  // namespace

// Copies the new nodes of `graph`; after an error only some of them.
Status DirectSession::AddNodesOf(const Graph& graph) {
  for (int id = seen_ids_; id < graph.num_node_ids(); ++id) {
    const Node* node = graph.node(id);
    if (node == nullptr) continue;
    if (graph_->FindNode(node->name()) != nullptr) {
      return errors::AlreadyExists("Node name '", node->name(), "' already exists in the Graph");
    }
    std::shared_ptr<const NodeProps> props = node->shared_props();
    // A graph under construction, but not one that runs, may have invalid names and unset attributes.
    if (!IsValidNodeName(node->name(), /*internal=*/true)) {
      return errors::InvalidArgument("Node '", node->name(), "': Node name contains invalid characters");
    }
    if (HasPlaceholders(*props)) [[unlikely]]
      MR_RETURN_IF_ERROR(NodeProps::Make(*props->op, props->attrs).status());
    if (graph.functions().Find(node->op_name()) != nullptr) {
      // The signature of a function exists as long as the library that it comes from.
      MR_ASSIGN_OR_RETURN(const OpRegistration* op, graph_->LookUpOp(node->op_name()));
      MR_ASSIGN_OR_RETURN(props, NodeProps::Make(*op, node->attrs()));
      props = WithKeptTypes(std::move(props));
    }
    Node* copy = graph_->AddNodeWithProps(node->name(), std::move(props));
    copy->set_requested_device(node->requested_device());
  }
  for (int id = seen_ids_; id < graph.num_node_ids(); ++id) {
    const Node* node = graph.node(id);
    if (node == nullptr) continue;
    Node* copy = graph_->FindNode(node->name());
    for (const Edge* e : node->in_edges()) {
      if (e == nullptr || !e->src->IsOp()) continue;
      Node* src = graph_->FindNode(e->src->name());
      if (src == nullptr) {
        return errors::InvalidArgument("Node '", node->name(), "': Unknown input node '", e->src->name(),
                                       "'");
      }
      if (e->IsControl()) {
        graph_->AddControlEdge(src, copy);
        continue;
      }
      if (e->src_output >= src->num_outputs()) MR_RETURN_IF_ERROR(Lengthen(*e->src, src));
      graph_->AddEdge(src, e->src_output, copy, e->dst_input);
    }
  }
  return Status();
}

// Sets an attribute with the shapes of the outputs on the nodes from id `first` on.
Status DirectSession::AnnotateShapes(int first) {
  MR_ASSIGN_OR_RETURN(auto shapes, InferShapes(*graph_));
  for (int id = first; id < graph_->num_node_ids(); ++id) {
    Node* const node = graph_->node(id);
    if (node == nullptr || !node->IsOp()) continue;
    node->SetAttr("_output_shapes", std::move(shapes[static_cast<size_t>(id)]));
  }
  return Status();
}

Status DirectSession::FinishExtend(int first) {
  if (options_.infer_shapes) {
    if (Status inferred = AnnotateShapes(first); !inferred.ok()) {
      graph_->RemoveNodesFrom(first);
      return inferred;
    }
  }
  if (!options_.place_pruned_graph) {
    if (Status placed = compiler_.PlaceNodes(graph_.get()); !placed.ok()) {
      graph_->RemoveNodesFrom(first);
      return placed;
    }
  }
  created_ = true;
  return Status();
}

StatusOr<std::shared_ptr<const Executable>> DirectSession::Compile(const RunSignature& signature,
                                                                   FeedConvention convention) {
  if (runner_.closed()) return errors::Cancelled("Session has been closed.");
  const bool partial = convention == FeedConvention::kRendezvous;
  return (partial ? partial_cache_ : cache_)
      .FindOrCompile(signature,
                     [&](const RunSignature& canonical) -> StatusOr<std::unique_ptr<CompiledStep>> {
                       ReaderLock lock(graph_mu_);
                       if (!created_) {
                         return errors::InvalidArgument("Session was not created with a graph before ",
                                                        partial ? "PRunSetup" : "Run", "()!");
                       }
                       return compiler_.Compile(*graph_, canonical, convention,
                                                partial ? FeedShapes::kAny : FeedShapes::kDeclared);
                     });
}

StatusOr<const Executable*> DirectSession::ForAnyShapes(const Executable& executable) {
  using Ref = std::shared_ptr<const Executable>;
  const Ref* known = executable.any_shapes.load(std::memory_order_acquire);
  if (known != nullptr) return known->get();
  MR_ASSIGN_OR_RETURN(Ref compiled,
                      any_shapes_cache_.FindOrCompile(
                          executable.signature,
                          [&](const RunSignature& canonical) -> StatusOr<std::unique_ptr<CompiledStep>> {
                            ReaderLock lock(graph_mu_);
                            return compiler_.Compile(*graph_, canonical, FeedConvention::kCallFrame,
                                                     FeedShapes::kAny);
                          }));
  auto made = std::make_unique<const Ref>(std::move(compiled));
  // Release pairs with the acquire above; the first of several concurrent calls wins.
  if (executable.any_shapes.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel))
    known = made.release();
  return known->get();
}

Status DirectSession::Run(const RunOptions& options, const Feeds& feeds,
                          const std::vector<std::string>& fetches, const std::vector<std::string>& targets,
                          std::vector<Tensor>* outputs, RunMetadata* metadata) {
  return Run(options, feeds, fetches, targets, outputs, metadata, nullptr);
}

Status DirectSession::Run(const RunOptions& options, const Feeds& feeds,
                          const std::vector<std::string>& fetches, const std::vector<std::string>& targets,
                          std::vector<Tensor>* outputs, RunMetadata* metadata,
                          CancellationManager* cancellation) {
  const auto feed_name = [&](size_t i) { return std::string_view(feeds[i].first); };
  const uint64_t hash = SignatureCache::Hash(feeds.size(), feed_name, fetches, targets);
  const auto value = [&](size_t i) -> const Tensor& { return feeds[i].second; };
  if (options.debug_watches.empty()) [[likely]] {
    const Reclaimer::Reader reader(reclaimer_);
    const Executable* known = cache_.Find(hash, feeds.size(), feed_name, fetches, targets);
    if (known != nullptr) [[likely]]
      return RunExecutable(*known, options, feeds.size(), value, outputs, metadata, cancellation);
  }
  RunSignature signature{{}, fetches, targets};
  for (const auto& feed : feeds) signature.feeds.push_back(feed.first);
  if (!options.debug_watches.empty())
    return RunWatched(options, feeds, signature, outputs, metadata, cancellation);
  MR_ASSIGN_OR_RETURN(const auto executable, Compile(signature, FeedConvention::kCallFrame));
  return RunExecutable(*executable, options, feeds.size(), value, outputs, metadata, cancellation);
}

Status DirectSession::RunWatched(const RunOptions& options, const Feeds& feeds, const RunSignature& signature,
                                 std::vector<Tensor>* outputs, RunMetadata* metadata,
                                 CancellationManager* cancellation) {
  if (tasks_.of_cluster)
    return errors::Unimplemented("RunOptions.debug_options is not supported in a session on a cluster");
  Reclaimer reclaimer;
  SignatureCache cache(reclaimer);
  MR_ASSIGN_OR_RETURN(
      const auto executable,
      cache.FindOrCompile(
          signature, [&](const RunSignature& canonical) -> StatusOr<std::unique_ptr<CompiledStep>> {
            ReaderLock lock(graph_mu_);
            if (runner_.closed()) return errors::Cancelled("Session has been closed.");
            if (!created_) {
              return errors::InvalidArgument("Session was not created with a graph before Run()!");
            }
            return compiler_.Compile(*graph_, canonical, FeedConvention::kCallFrame, FeedShapes::kAny,
                                     options.debug_watches);
          }));
  const auto value = [&](size_t i) -> const Tensor& { return feeds[i].second; };
  return RunExecutable(*executable, options, feeds.size(), value, outputs, metadata, cancellation);
}

StatusOr<Session::CallableHandle> DirectSession::MakeCallable(const CallableOptions& options) {
  if (!options.run_options.debug_watches.empty())
    return errors::Unimplemented("RunOptions.debug_options is not supported in a callable");
  if (!options.feed_devices.empty() || !options.fetch_devices.empty()) {
    if (tasks_.of_cluster) {
      return errors::Unimplemented(
          "CallableOptions::feed_devices and CallableOptions::fetch_devices to configure feeding/fetching "
          "tensors to/from device memory is not yet supported when using a remote session.");
    }
    ReaderLock lock(graph_mu_);
    MR_RETURN_IF_ERROR(CheckCallableDevices(*graph_, compiler_.devices(), options));
  }
  auto callable = std::make_unique<Callable>();
  RunSignature signature{options.feeds, options.fetches, options.targets};
  for (const auto& [from, to] : options.tensor_connections) signature.connections.emplace_back(from, to);
  MR_ASSIGN_OR_RETURN(callable->executable, Compile(signature, FeedConvention::kCallFrame));
  callable->options = options.run_options;
  return callables_.Add(std::move(callable));
}

Status DirectSession::RunCallable(CallableHandle handle, std::span<const Tensor> feeds,
                                  std::vector<Tensor>* outputs, RunMetadata* metadata) {
  return RunCallable(handle, feeds, outputs, metadata, nullptr);
}

Status DirectSession::RunCallable(CallableHandle handle, std::span<const Tensor> feeds,
                                  std::vector<Tensor>* outputs, RunMetadata* metadata,
                                  CancellationManager* cancellation) {
  const Reclaimer::Reader reader(reclaimer_);
  const Callable* callable = callables_.Find(handle);
  if (callable == nullptr) return errors::InvalidArgument("No such callable handle: ", handle);
  return RunExecutable(
      *callable->executable, callable->options, feeds.size(),
      [&](size_t i) -> const Tensor& { return feeds[i]; }, outputs, metadata, cancellation);
}

Status DirectSession::ReleaseCallable(CallableHandle handle) {
  if (!callables_.Release(handle)) return errors::InvalidArgument("No such callable handle: ", handle);
  return Status();
}

Status DirectSession::RunExecutable(const Executable& executable, const RunOptions& options, size_t num_feeds,
                                    FunctionRef<const Tensor&(size_t)> feed, std::vector<Tensor>* outputs,
                                    RunMetadata* metadata, CancellationManager* cancellation) {
  const CompiledStep& step = *executable.step;
  ThreadPool* inter_op_pool = inter_op_pool_;
  if (options.inter_op_thread_pool != 0) [[unlikely]] {
    MR_ASSIGN_OR_RETURN(inter_op_pool, InterOpPoolOf(options));
  }
  if (num_feeds != executable.feed_slots.size()) {
    return errors::InvalidArgument("Expected ", executable.feed_slots.size(), " feed tensors, but got ",
                                   num_feeds);
  }
  SmallVector<const Tensor*, 8> args;
  std::vector<Tensor> held;
  args.resize(static_cast<uint32_t>(num_feeds));
  for (size_t i = 0; i < num_feeds; ++i) {
    const uint32_t slot = executable.feed_slots[i];
    const Tensor& value = feed(i);
    const EndpointInfo& info = step.feeds[slot];
    args[slot] = &value;
    if (value.dtype() != info.dtype || !info.shape.unknown_rank() || !value.IsInitialized()) [[unlikely]] {
      MR_ASSIGN_OR_RETURN(args[slot], SlowFeed(executable, i, value, &held));
      // As in TensorFlow, the shape of a feed may differ from the declaration of its placeholder.
      if (!info.shape.IsCompatibleWith(args[slot]->shape())) {
        MR_ASSIGN_OR_RETURN(const Executable* any, ForAnyShapes(executable));
        return RunExecutable(*any, options, num_feeds, feed, outputs, metadata, cancellation);
      }
    }
  }
  const size_t num_fetches = executable.fetch_slots.size();
  std::vector<Tensor> unordered;
  std::vector<Tensor> ignored;
  if (outputs == nullptr) outputs = &ignored;
  outputs->clear();
  std::vector<Tensor>& rets = executable.fetches_in_order ? *outputs : unordered;
  rets.resize(step.fetches.size());

  StepRunner::Request request;
  request.args = args;
  request.rets = rets;
  request.cancellation = cancellation;
  request.inter_op_pool = inter_op_pool;
  request.intra_op_pool = intra_op_pool_;
  request.timeout_in_ms =
      options.timeout_in_ms > 0 ? options.timeout_in_ms : options_.operation_timeout_in_ms;
  std::string leader;
  if (step.collective_graph_key != 0) [[unlikely]] {
    MR_ASSIGN_OR_RETURN(leader, CollectiveLeader());
    request.collective_leader = leader;
    MR_RETURN_IF_ERROR(BeginCollectives(step, &request));
  }
  Status status;
  if (options_.build_cost_model > 0 && BuildsCostModel(executable)) [[unlikely]] {
    status = RunMeasured(executable, request, options, metadata);
  } else if (options.report_tensor_allocations_upon_oom ||
             (metadata != nullptr && (options.trace_level != RunOptions::TraceLevel::kNone ||
                                      options.output_partition_graphs))) [[unlikely]] {
    status = RunTraced(executable, request, options, metadata);
  } else {
    status = runner_.Run(step, request);
  }
  if (step.collective_graph_key != 0) [[unlikely]] {
    EndCollectives(step, request, status);
    status = WithoutDerivedMark(status);
  }
  if (!status.ok()) [[unlikely]] {
    outputs->clear();
    return options.report_tensor_allocations_upon_oom ? status : WithHint(std::move(status));
  }
  if (!executable.fetches_in_order) {
    outputs->reserve(num_fetches);
    for (const uint32_t slot : executable.fetch_slots) outputs->push_back(rets[slot]);
  }
  return Status();
}

// Sessions of different masters identify common steps by a number of their leader; those of one master by the
// step's id.
Status DirectSession::BeginCollectives(const CompiledStep& step, StepRunner::Request* request) {
  if (request->collective_leader.empty()) {
    request->collective_leader = worker_.task();
    return Status();
  }
  MR_ASSIGN_OR_RETURN(request->collective_step, worker_.steps().collectives().NextStep(
                                                    request->collective_leader, step.collective_graph_key));
  return Status();
}

StatusOr<std::string> DirectSession::CollectiveLeader() const {
  if (!tasks_.of_cluster) return std::string();
  MR_ASSIGN_OR_RETURN(std::string leader, CollectiveLeaderOf(options_));
  if (leader.empty()) leader = worker_.steps().collectives().default_leader();
  return leader;
}

void DirectSession::EndCollectives(const CompiledStep& step, const StepRunner::Request& request,
                                   const Status& status) {
  if (request.collective_step == 0) return;
  worker_.steps().collectives().Retire(request.collective_leader, step.collective_graph_key,
                                       request.collective_step, status);
}

StatusOr<Tensor> DirectSession::TensorOfHandle(const Tensor& fed, DataType dtype) {
  if (!LocalWorker::IsTensorHandle(fed)) return worker_.TensorOfHandle(fed);
  const ResourceHandle& handle = fed.data<ResourceHandle>()[0];
  const DeviceDescription* const device = compiler_.devices().Find(handle.device);
  const bool here = device == nullptr || worker_.local_devices().Find(device->name()) != nullptr;
  if (here) return worker_.TensorOfHandle(fed);
  // A separate step fetches it.
  Graph graph(OpRegistry::Global());
  AttrMap text{{"dtype", DataType::kString}};
  text.Set("value", Tensor::Scalar(handle.name));
  MR_ASSIGN_OR_RETURN(Node * name, graph.AddNode("handle", "Const", std::move(text), device->name()));
  MR_ASSIGN_OR_RETURN(Node * value,
                      graph.AddNode("value", "GetSessionTensor", {{"dtype", dtype}}, device->name()));
  graph.AddEdge(name, 0, value, 0);
  MR_ASSIGN_OR_RETURN(const auto step, compiler_.Compile(graph, {{}, {"value"}, {}}));
  std::vector<Tensor> rets(1);
  StepRunner::Request request;
  request.rets = rets;
  MR_RETURN_IF_ERROR(runner_.Run(*step, request));
  return rets[0];
}

StatusOr<const Tensor*> DirectSession::SlowFeed(const Executable& executable, size_t i, const Tensor& value,
                                                std::vector<Tensor>* held) {
  const EndpointInfo& info = executable.step->feeds[executable.feed_slots[i]];
  const Tensor* fed = &value;
  if (value.dtype() == DataType::kResource && info.dtype != DataType::kResource) {
    held->reserve(executable.feed_slots.size());  // a reserved vector: elements must not move
    MR_ASSIGN_OR_RETURN(Tensor tensor, TensorOfHandle(value, info.dtype));
    fed = &held->emplace_back(std::move(tensor));
  }
  MR_RETURN_IF_ERROR(CheckFeed(info, executable.signature.feeds[i], i, *fed));
  return fed;
}

// A pool or, for -1, the caller's thread.
StatusOr<ThreadPool*> DirectSession::InterOpPoolOf(const RunOptions& options) const {
  const int index = options.inter_op_thread_pool;
  if (index < -1 || index >= static_cast<int>(pools_.inter_op.size()))
    return errors::InvalidArgument("Invalid inter_op_thread_pool: ", index);
  return index < 0 ? nullptr : pools_.inter_op[static_cast<size_t>(index)].get();
}

bool DirectSession::BuildsCostModel(const Executable& executable) const {
  // Relaxed: only the count matters.
  const int64_t run =
      executable.runs.fetch_add(1, std::memory_order_relaxed) - options_.build_cost_model_after;
  return run >= 0 && (run + 1) % options_.build_cost_model == 0;
}

// A traced run whose times go into the cost model. The caller gets the cost graph, and a requested trace.
Status DirectSession::RunMeasured(const Executable& executable, StepRunner::Request& request,
                                  const RunOptions& options, RunMetadata* metadata) {
  RunMetadata measured;
  RunOptions traced = options;
  traced.trace_level = RunOptions::TraceLevel::kFull;
  MR_RETURN_IF_ERROR(RunTraced(executable, request, traced, &measured));
  compiler_.costs().Record(measured.devices);
  if (metadata == nullptr) return Status();
  for (const auto& partition : executable.step->partitions) {
    partition->AppendCosts(compiler_.costs(), &measured.cost_graph);
  }
  if (options.trace_level == RunOptions::TraceLevel::kNone) measured.devices.clear();
  *metadata = std::move(measured);
  return Status();
}

Status DirectSession::RunTraced(const Executable& executable, StepRunner::Request& request,
                                const RunOptions& options, RunMetadata* metadata) {
  using std::chrono::system_clock;
  RunMetadata not_asked_for;
  if (metadata == nullptr) metadata = &not_asked_for;
  *metadata = RunMetadata();
  metadata->step_start_unix_us =
      std::chrono::duration_cast<std::chrono::microseconds>(system_clock::now().time_since_epoch()).count();
  const bool traced = options.trace_level != RunOptions::TraceLevel::kNone;
  request.report_allocations = options.report_tensor_allocations_upon_oom;
  if (traced || request.report_allocations) request.metadata = metadata;
  Status status = runner_.Run(*executable.step, request);
  request.metadata = nullptr;  // it points to a local variable of this function or of its caller
  if (!traced) metadata->devices.clear();
  if (options.output_partition_graphs) {
    for (const auto& partition : executable.step->partitions) {
      for (std::string& graph : partition->SerializedGraphs())
        metadata->partition_graphs.push_back(std::move(graph));
    }
  }
  return status;
}

StatusOr<std::string> DirectSession::PRunSetup(const std::vector<std::string>& feeds,
                                               const std::vector<std::string>& fetches,
                                               const std::vector<std::string>& targets) {
  const RunSignature signature{feeds, fetches, targets};
  MR_ASSIGN_OR_RETURN(auto executable, Compile(signature, FeedConvention::kRendezvous));
  FetchNeeds needs;
  {
    ReaderLock lock(graph_mu_);
    needs = FindFetchNeeds(*graph_, signature);
  }
  StepRunner::Request request;
  request.inter_op_pool = pools_.partial.get();
  request.intra_op_pool = intra_op_pool_;
  const DeviceDescription& client = *compiler_.devices().client_device();
  const PartialStep::Border border{client.name(), client.attributes().incarnation, &worker_};
  MR_ASSIGN_OR_RETURN(RefPtr<PartialStep> step,
                      PartialStep::Start(runner_, *executable->step, request, border, executable));
  return partial_runs_.Add(std::move(executable), std::move(needs), std::move(step));
}

DataType DirectSession::TypeOf(std::string_view tensor) {
  const TensorId id = ParseTensorId(tensor);
  ReaderLock lock(graph_mu_);
  const Node* const node = graph_->FindNode(id.name);
  if (node == nullptr || id.index < 0 || id.index >= node->num_outputs()) return DataType::kInvalid;
  return BaseType(node->output_type(id.index));
}

Status DirectSession::PRun(const std::string& handle, const Feeds& feeds,
                           const std::vector<std::string>& fetches, std::vector<Tensor>* outputs) {
  if (runner_.closed()) return errors::Cancelled("Session has been closed.");
  Feeds values = feeds;
  for (auto& [name, value] : values) {
    if (!LocalWorker::IsTensorHandle(value)) continue;
    MR_ASSIGN_OR_RETURN(value, TensorOfHandle(value, TypeOf(name)));
  }
  Status status = partial_runs_.Run(handle, values, fetches, options_.operation_timeout_in_ms, outputs);
  if (errors::IsCancelled(status) && runner_.closed()) return errors::Cancelled("Session has been closed.");
  return status;
}

StatusOr<std::vector<DeviceInfo>> DirectSession::ListDevices() {
  if (runner_.closed()) return errors::Cancelled("Session has been closed.");
  std::vector<DeviceInfo> infos;
  for (const auto& device : compiler_.devices().devices()) {
    const DeviceAttributes& a = device->attributes();
    infos.push_back({a.name, a.type, a.memory_limit, a.incarnation});
  }
  return infos;
}

Status DirectSession::Close() {
  runner_.Close();
  return Status();
}

void DirectSession::CancelSteps() { runner_.CancelSteps(); }

void DirectSession::ResetContainers(const std::vector<std::string>& containers) {
  // First, so that waits in them end.
  Close().IgnoreError("closing a direct session cannot fail");
  for (Worker* const worker : compiler_.workers()) {
    Notification cleared;
    worker->ClearContainers(containers, [&](const Status& status) {
      if (!status.ok()) MR_LOG(Warning) << "Reset of " << worker->task() << ": " << status;
      cleared.Notify();
    });
    cleared.Wait();
  }
}

}  // namespace millrace
