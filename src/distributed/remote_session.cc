// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/remote_session.h"

#include <map>
#include <set>
#include <utility>

#include "base/notification.h"
#include "distributed/metadata_message.h"
#include "graph/graph.h"
#include "graph/graph_import.h"
#include "step/worker.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/protobuf/master.pb.h"

namespace millrace {
namespace {

Status NotCreated() { return errors::InvalidArgument("A session is not created yet...."); }
Status Closed() { return errors::Cancelled("Session has been closed."); }

// The ConfigProto from which the options were made, with later settings.
tensorflow::ConfigProto ConfigOf(const SessionOptions& options) {
  tensorflow::ConfigProto config;
  if (!config.ParseFromString(options.config)) config.Clear();
  for (const auto& [type, count] : options.device_count) (*config.mutable_device_count())[type] = count;
  const auto set_threads = [](int wanted, int had) { return wanted != 0 ? wanted : had; };
  config.set_intra_op_parallelism_threads(
      set_threads(options.intra_op_parallelism_threads, config.intra_op_parallelism_threads()));
  config.set_inter_op_parallelism_threads(
      set_threads(options.inter_op_parallelism_threads, config.inter_op_parallelism_threads()));
  config.clear_device_filters();
  for (const std::string& filter : options.device_filters) config.add_device_filters(filter);
  config.set_allow_soft_placement(options.allow_soft_placement);
  config.set_log_device_placement(options.log_device_placement);
  config.set_operation_timeout_in_ms(options.operation_timeout_in_ms);
  config.set_isolate_session_state(options.isolate_session_state);
  tensorflow::GraphOptions& graph = *config.mutable_graph_options();
  graph.set_infer_shapes(options.infer_shapes);
  graph.set_place_pruned_graph(options.place_pruned_graph);
  graph.set_enable_bfloat16_sendrecv(options.bfloat16_transfers);
  graph.set_build_cost_model(options.build_cost_model);
  graph.set_build_cost_model_after(options.build_cost_model_after);
  if (!options.fold_constants) {
    graph.mutable_rewrite_options()->set_constant_folding(tensorflow::RewriterConfig::OFF);
  }
  return config;
}

void OptionsToProto(const RunOptions& options, tensorflow::RunOptions* proto) {
  proto->set_trace_level(static_cast<tensorflow::RunOptions::TraceLevel>(options.trace_level));
  proto->set_timeout_in_ms(options.timeout_in_ms);
  proto->set_inter_op_thread_pool(options.inter_op_thread_pool);
  proto->set_output_partition_graphs(options.output_partition_graphs);
  proto->set_report_tensor_allocations_upon_oom(options.report_tensor_allocations_upon_oom);
}

}  // namespace

Status RemoteMaster::Call(Method method, const google::protobuf::MessageLite& request,
                          google::protobuf::MessageLite* response, int64_t timeout_in_ms,
                          int64_t patience_in_ms, CancellationManager* cancellation) const {
  if (request.ByteSizeLong() > INT32_MAX)
    return errors::ResourceExhausted("The request of ", MethodName(method), " to ", name,
                                     " exceeds the size of a message");
  Status status;
  MessageBytes bytes;
  Notification answered;
  RemoteCall call{name, method, MessageBytes::Of(request), timeout_in_ms, patience_in_ms, cancellation};
  transport->Start(std::move(call), [&](Status s, MessageBytes b) {
    status = std::move(s);
    bytes = std::move(b);
    answered.Notify();
  });
  answered.Wait();
  MR_RETURN_IF_ERROR(status);
  if (bytes.ParseInto(response)) return Status();
  return errors::Internal("The response of ", name, " to ", MethodName(method), " is not a message");
}

bool WantsMessages(const SessionOptions& options) {
  tensorflow::ConfigProto config;
  return config.ParseFromString(options.config) && config.rpc_options().use_rpc_for_inprocess_master();
}

Status ResetRemotely(const RemoteMaster& master, const SessionOptions& options,
                     const std::vector<std::string>& containers) {
  tensorflow::ResetRequest request;
  for (const std::string& container : containers) request.add_container(container);
  for (const std::string& filter : options.device_filters) request.add_device_filters(filter);
  tensorflow::ResetResponse response;
  return master.Call(Method::kReset, request, &response, options.operation_timeout_in_ms,
                     RemoteSession::kConnectMs, nullptr);
}

RemoteSession::RemoteSession(RemoteMaster master, const SessionOptions& options)
    : master_(std::move(master)), options_(options), steps_(std::make_shared<CancellationManager>()) {}

RemoteSession::~RemoteSession() { Close().IgnoreError("the master may be gone"); }

StatusOr<std::string> RemoteSession::Handle() const {
  MutexLock lock(mu_);
  if (closed_) return Closed();
  if (handle_.empty()) return NotCreated();
  return handle_;
}

std::shared_ptr<CancellationManager> RemoteSession::Steps() const {
  MutexLock lock(mu_);
  return steps_;
}

Status RemoteSession::Call(Method method, const google::protobuf::MessageLite& request,
                           google::protobuf::MessageLite* response, int64_t timeout_in_ms) const {
  return master_.Call(method, request, response,
                      timeout_in_ms > 0 ? timeout_in_ms : options_.operation_timeout_in_ms, 0, nullptr);
}

// ---- The graph

Status RemoteSession::Create(const tensorflow::GraphDef& graph) {
  if (graph.node_size() == 0 && graph.library().function_size() == 0) return Status();
  MutexLock lock(graph_mu_);
  return CreateLocked(graph);
}

Status RemoteSession::CreateLocked(const tensorflow::GraphDef& graph) {
  {
    MutexLock lock(mu_);
    if (closed_) return Closed();
    if (!handle_.empty())
      return errors::InvalidArgument("A session is alive. Close it before creating another one.");
  }
  tensorflow::CreateSessionRequest request;
  *request.mutable_graph_def() = graph;
  *request.mutable_config() = ConfigOf(options_);
  request.set_target(options_.target);
  tensorflow::CreateSessionResponse response;
  const std::shared_ptr<CancellationManager> steps = Steps();
  MR_RETURN_IF_ERROR(master_.Call(Method::kCreateSession, request, &response,
                                  options_.operation_timeout_in_ms, kConnectMs, steps.get()));
  version_ = response.graph_version();
  MutexLock lock(mu_);
  handle_ = response.session_handle();
  return Status();
}

Status RemoteSession::Extend(const tensorflow::GraphDef& graph) {
  MutexLock lock(graph_mu_);
  return ExtendLocked(graph);
}

Status RemoteSession::ExtendLocked(const tensorflow::GraphDef& graph) {
  const StatusOr<std::string> handle = Handle();
  if (!handle.ok()) {
    // The first Extend is a Create.
    if (errors::IsCancelled(handle.status())) return handle.status();
    return graph.node_size() == 0 && graph.library().function_size() == 0 ? Status() : CreateLocked(graph);
  }
  tensorflow::ExtendSessionRequest request;
  request.set_session_handle(*handle);
  *request.mutable_graph_def() = graph;
  request.set_current_graph_version(version_);
  tensorflow::ExtendSessionResponse response;
  MR_RETURN_IF_ERROR(Call(Method::kExtendSession, request, &response, 0));
  version_ = response.new_graph_version();
  return Status();
}

Status RemoteSession::ExtendFrom(const Graph& graph) {
  MutexLock lock(graph_mu_);
  if (graph.num_node_ids() == seen_ids_) return Status();
  tensorflow::GraphDef def;
  ExportGraphDef(graph, &def);
  std::set<std::string> added;
  for (int id = seen_ids_; id < graph.num_node_ids(); ++id) {
    if (graph.node(id) != nullptr) added.insert(graph.node(id)->name());
  }
  tensorflow::GraphDef part;
  part.mutable_versions()->Swap(def.mutable_versions());
  part.mutable_library()->Swap(def.mutable_library());
  for (tensorflow::NodeDef& node : *def.mutable_node()) {
    if (added.contains(node.name())) part.add_node()->Swap(&node);
  }
  MR_RETURN_IF_ERROR(ExtendLocked(part));
  seen_ids_ = graph.num_node_ids();
  return Status();
}

// ---- Steps

Status RemoteSession::Run(const RunOptions& options, const Feeds& feeds,
                          const std::vector<std::string>& fetches, const std::vector<std::string>& targets,
                          std::vector<Tensor>* outputs, RunMetadata* metadata) {
  return DoRun(options, "", feeds, fetches, targets, outputs, metadata);
}

Status RemoteSession::DoRun(const RunOptions& options, const std::string& partial_run, const Feeds& feeds,
                            const std::vector<std::string>& fetches, const std::vector<std::string>& targets,
                            std::vector<Tensor>* outputs, RunMetadata* metadata) {
  if (!options.debug_watches.empty())
    return errors::Unimplemented("RunOptions.debug_options is not supported in a session on a cluster");
  tensorflow::RunStepRequest request;
  MR_ASSIGN_OR_RETURN(*request.mutable_session_handle(), Handle());
  request.set_partial_run_handle(partial_run);
  for (const auto& [name, value] : feeds) {
    if (!value.IsInitialized())
      return errors::InvalidArgument("The value fed for tensor '", name, "' is not initialized");
    tensorflow::NamedTensorProto* const feed = request.add_feed();
    feed->set_name(name);
    TensorToProtoContent(value, feed->mutable_tensor());
  }
  // Each name is sent once.
  std::map<std::string, std::vector<size_t>> positions;
  for (size_t i = 0; i < fetches.size(); ++i) {
    std::vector<size_t>& of_name = positions[fetches[i]];
    if (of_name.empty()) request.add_fetch(fetches[i]);
    of_name.push_back(i);
  }
  for (const std::string& target : targets) request.add_target(target);
  OptionsToProto(options, request.mutable_options());
  if (options.timeout_in_ms == 0)
    request.mutable_options()->set_timeout_in_ms(options_.operation_timeout_in_ms);
  request.set_store_errors_in_response_body(true);
  request.set_request_id(StepIds::NextShared());
  tensorflow::RunStepResponse response;
  const std::shared_ptr<CancellationManager> steps = Steps();
  // The master has the time limit of the step; the call itself only ends with the connection.
  MR_RETURN_IF_ERROR(master_.Call(Method::kRunStep, request, &response, 0, 0, steps.get()));
  if (response.status_code() != tensorflow::error::OK)
    return Status(static_cast<ErrorCode>(response.status_code()), response.status_error_message());
  std::vector<Tensor> values(fetches.size());
  for (tensorflow::NamedTensorProto& tensor : *response.mutable_tensor()) {
    const auto of_name = positions.find(tensor.name());
    if (of_name == positions.end())
      return errors::Internal("Received response for unrequested fetch: ", tensor.name());
    MR_ASSIGN_OR_RETURN(const Tensor value, TakeTensorFromProto(tensor.mutable_tensor()));
    for (const size_t i : of_name->second) values[i] = value;
    positions.erase(of_name);
  }
  if (!positions.empty())
    return errors::Internal("The response has no value for fetch: ", positions.begin()->first);
  if (metadata != nullptr) {
    MR_ASSIGN_OR_RETURN(*metadata, MetadataFromProto(response.metadata()));
  }
  if (outputs != nullptr) *outputs = std::move(values);
  return Status();
}

StatusOr<Session::CallableHandle> RemoteSession::MakeCallable(const CallableOptions& options) {
  tensorflow::MakeCallableRequest request;
  MR_ASSIGN_OR_RETURN(*request.mutable_session_handle(), Handle());
  tensorflow::CallableOptions& wanted = *request.mutable_options();
  for (const std::string& name : options.feeds) wanted.add_feed(name);
  for (const std::string& name : options.fetches) wanted.add_fetch(name);
  for (const std::string& name : options.targets) wanted.add_target(name);
  OptionsToProto(options.run_options, wanted.mutable_run_options());
  for (const auto& [from, to] : options.tensor_connections) {
    tensorflow::TensorConnection& connection = *wanted.add_tensor_connection();
    connection.set_from_tensor(from);
    connection.set_to_tensor(to);
  }
  wanted.mutable_feed_devices()->insert(options.feed_devices.begin(), options.feed_devices.end());
  wanted.mutable_fetch_devices()->insert(options.fetch_devices.begin(), options.fetch_devices.end());
  wanted.set_fetch_skip_sync(options.fetch_skip_sync);
  request.set_request_id(StepIds::NextShared());
  tensorflow::MakeCallableResponse response;
  MR_RETURN_IF_ERROR(Call(Method::kMakeCallable, request, &response, 0));
  return response.handle();
}

Status RemoteSession::RunCallable(CallableHandle handle, std::span<const Tensor> feeds,
                                  std::vector<Tensor>* outputs, RunMetadata* metadata) {
  tensorflow::RunCallableRequest request;
  MR_ASSIGN_OR_RETURN(*request.mutable_session_handle(), Handle());
  request.set_handle(handle);
  for (size_t i = 0; i < feeds.size(); ++i) {
    if (!feeds[i].IsInitialized())
      return errors::InvalidArgument("Feed ", i, " of a callable is not initialized");
    TensorToProtoContent(feeds[i], request.add_feed());
  }
  request.set_request_id(StepIds::NextShared());
  tensorflow::RunCallableResponse response;
  const std::shared_ptr<CancellationManager> steps = Steps();
  MR_RETURN_IF_ERROR(master_.Call(Method::kRunCallable, request, &response, 0, 0, steps.get()));
  std::vector<Tensor> values;
  for (tensorflow::TensorProto& tensor : *response.mutable_fetch()) {
    MR_ASSIGN_OR_RETURN(Tensor value, TakeTensorFromProto(&tensor));
    values.push_back(std::move(value));
  }
  if (metadata != nullptr) {
    MR_ASSIGN_OR_RETURN(*metadata, MetadataFromProto(response.metadata()));
  }
  if (outputs != nullptr) *outputs = std::move(values);
  return Status();
}

Status RemoteSession::ReleaseCallable(CallableHandle handle) {
  tensorflow::ReleaseCallableRequest request;
  MR_ASSIGN_OR_RETURN(*request.mutable_session_handle(), Handle());
  request.set_handle(handle);
  tensorflow::ReleaseCallableResponse response;
  return Call(Method::kReleaseCallable, request, &response, 0);
}

StatusOr<std::string> RemoteSession::PRunSetup(const std::vector<std::string>& feeds,
                                               const std::vector<std::string>& fetches,
                                               const std::vector<std::string>& targets) {
  tensorflow::PartialRunSetupRequest request;
  MR_ASSIGN_OR_RETURN(*request.mutable_session_handle(), Handle());
  for (const std::string& name : feeds) request.add_feed(name);
  for (const std::string& name : fetches) request.add_fetch(name);
  for (const std::string& name : targets) request.add_target(name);
  request.set_request_id(StepIds::NextShared());
  tensorflow::PartialRunSetupResponse response;
  MR_RETURN_IF_ERROR(Call(Method::kPartialRunSetup, request, &response, 0));
  return response.partial_run_handle();
}

Status RemoteSession::PRun(const std::string& handle, const Feeds& feeds,
                           const std::vector<std::string>& fetches, std::vector<Tensor>* outputs) {
  return DoRun(RunOptions(), handle, feeds, fetches, {}, outputs, nullptr);
}

// ---- The rest

StatusOr<std::vector<DeviceInfo>> RemoteSession::ListDevices() {
  tensorflow::ListDevicesRequest request;
  {
    MutexLock lock(graph_mu_);
    StatusOr<std::string> handle = Handle();
    if (!handle.ok() && !errors::IsCancelled(handle.status())) {
      MR_RETURN_IF_ERROR(CreateLocked(tensorflow::GraphDef()));
      handle = Handle();
    }
    MR_ASSIGN_OR_RETURN(*request.mutable_session_handle(), handle);
  }
  tensorflow::ListDevicesResponse response;
  MR_RETURN_IF_ERROR(Call(Method::kListDevices, request, &response, 0));
  std::vector<DeviceInfo> devices;
  for (const auto* list : {&response.local_device(), &response.remote_device()}) {
    for (const tensorflow::DeviceAttributes& d : *list)
      devices.push_back({d.name(), d.device_type(), d.memory_limit(), d.incarnation()});
  }
  return devices;
}

Status RemoteSession::Close() {
  tensorflow::CloseSessionRequest request;
  {
    MutexLock lock(mu_);
    closed_ = true;
    request.set_session_handle(std::exchange(handle_, ""));
  }
  if (request.session_handle().empty()) return Status();
  tensorflow::CloseSessionResponse response;
  return Call(Method::kCloseSession, request, &response, 0);
}

void RemoteSession::CancelSteps() {
  std::shared_ptr<CancellationManager> steps = std::make_shared<CancellationManager>();
  {
    MutexLock lock(mu_);
    steps_.swap(steps);
  }
  steps->StartCancel();
}

}  // namespace millrace
