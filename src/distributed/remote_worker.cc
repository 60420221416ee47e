// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/remote_worker.h"

#include <utility>

#include "base/notification.h"
#include "distributed/partition_message.h"
#include "distributed/step_stats.h"
#include "graph/summary.h"
#include "step/cost_graph.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace millrace {
namespace {

template <typename Message>
Status ParseResponse(const std::string& task, WorkerMethod method, const std::string& bytes,
                     Message* response) {
  if (response->ParseFromString(bytes)) return Status();
  return errors::Internal("The response of ", task, " to ", WorkerMethodName(method), " is not a message");
}

// A partition that is registered at another task. Dropping it deregisters it, without waiting.
class RemotePartition : public InstalledPartition {
 public:
  RemotePartition(std::string task, Transport& transport, std::string handle, std::unique_ptr<Graph> graph,
                  BorderKeys keys)
      : task_(std::move(task)),
        transport_(transport),
        handle_(std::move(handle)),
        graph_(std::move(graph)),
        keys_(std::move(keys)) {}
  ~RemotePartition() override {
    tensorflow::DeregisterGraphRequest request;
    request.set_graph_handle(handle_);
    // A task that has ended or restarted has nothing registered.
    transport_.Start({task_, WorkerMethod::kDeregisterGraph, request.SerializeAsString()},
                     [](const Status&, const std::string&) {});
  }

  void Run(StepArgs& args, Done done) override {
    const StatusOr<tensorflow::RunGraphRequest> request = Request(args);
    if (!request.ok()) return done(request.status());
    WorkerCall call{task_, WorkerMethod::kRunGraph, request->SerializeAsString()};
    call.timeout_in_ms = args.info.timeout_in_ms;
    call.cancellation = args.cancellation;
    transport_.Start(std::move(call), [this, rets = args.rets, metadata = args.metadata,
                                       finish = std::move(done)](Status status, std::string bytes) mutable {
      if (status.ok()) status = Finish(bytes, rets, metadata);
      finish(std::move(status));
    });
  }
  std::vector<std::string> SerializedGraphs() const override { return {SerializeGraph(*graph_)}; }
  void AppendCosts(const CostModel& model, std::vector<CostNode>* nodes) const override {
    AppendCostGraph(*graph_, model, nodes);
  }

 private:
  StatusOr<tensorflow::RunGraphRequest> Request(const StepArgs& args) const {
    tensorflow::RunGraphRequest request;
    request.set_graph_handle(handle_);
    request.set_step_id(args.info.step_id);
    request.set_calls_in_progress(args.info.call_depth + args.info.calls_elsewhere);
    request.mutable_exec_opts()->set_record_timeline(args.info.trace);
    request.mutable_exec_opts()->set_report_tensor_allocations_upon_oom(args.info.report_allocations);
    for (const auto& [key, slot] : keys_.feeds) {
      if (slot < 0 || static_cast<size_t>(slot) >= args.args.size())
        return errors::Internal("The step has ", args.args.size(), " feeds, not one in slot ", slot);
      tensorflow::NamedTensorProto* const feed = request.add_send();
      feed->set_name(key);
      TensorToProtoContent(*args.args[static_cast<size_t>(slot)], feed->mutable_tensor());
    }
    for (const auto& [key, slot] : keys_.fetches) request.add_recv_key(key);
    return request;
  }

  Status Finish(const std::string& bytes, std::span<Tensor> rets, RunMetadata* metadata) const {
    tensorflow::RunGraphResponse response;
    MR_RETURN_IF_ERROR(ParseResponse(task_, WorkerMethod::kRunGraph, bytes, &response));
    for (tensorflow::NamedTensorProto& fetched : *response.mutable_recv()) {
      const auto slot = keys_.fetches.find(fetched.name());
      if (slot == keys_.fetches.end() || static_cast<size_t>(slot->second) >= rets.size())
        return errors::Internal("Unexpected fetch key: ", fetched.name());
      MR_ASSIGN_OR_RETURN(rets[static_cast<size_t>(slot->second)],
                          TakeTensorFromProto(fetched.mutable_tensor()));
    }
    if (metadata == nullptr) return Status();
    return AppendStepStats(response.step_stats(), metadata);
  }

  const std::string task_;
  Transport& transport_;
  const std::string handle_;
  const std::unique_ptr<Graph> graph_;
  const BorderKeys keys_;
};

}  // namespace

RemoteWorker::RemoteWorker(std::string task, const std::vector<DeviceAttributes>& devices,
                           Transport& transport)
    : task_(std::move(task)), devices_(devices), transport_(transport) {}

StatusOr<std::unique_ptr<RemoteWorker>> RemoteWorker::Connect(std::string task, Transport& transport,
                                                              int64_t timeout_in_ms) {
  Status status;
  tensorflow::GetStatusResponse response;
  Notification answered;
  WorkerCall call{task, WorkerMethod::kGetStatus, tensorflow::GetStatusRequest().SerializeAsString()};
  call.timeout_in_ms = timeout_in_ms;
  transport.Start(std::move(call), [&](Status s, const std::string& bytes) {
    status = s.ok() ? ParseResponse(task, WorkerMethod::kGetStatus, bytes, &response) : std::move(s);
    answered.Notify();
  });
  answered.Wait();
  MR_RETURN_IF_ERROR(status);
  std::vector<DeviceAttributes> devices;
  for (const tensorflow::DeviceAttributes& d : response.device_attributes()) {
    devices.push_back(
        {d.name(), d.device_type(), d.memory_limit(), d.incarnation(), d.physical_device_desc()});
  }
  return std::make_unique<RemoteWorker>(std::move(task), devices, transport);
}

void RemoteWorker::InstallAsync(PartitionSpec spec, Installed done) {
  auto keys = UseKeysForFeedsAndFetches(
      spec.graph.get(), [this](std::string_view name) { return devices_.IncarnationOf(name); });
  if (!keys.ok()) return done(std::move(keys).status());
  tensorflow::RegisterGraphRequest request;
  PartitionToRequest(spec, &request);
  WorkerCall call{task_, WorkerMethod::kRegisterGraph, request.SerializeAsString()};
  transport_.Start(std::move(call),
                   [this, graph = std::move(spec.graph), border = *std::move(keys), finish = std::move(done)](
                       const Status& status, const std::string& bytes) mutable {
                     tensorflow::RegisterGraphResponse response;
                     Status result = status;
                     if (result.ok())
                       result = ParseResponse(task_, WorkerMethod::kRegisterGraph, bytes, &response);
                     if (!result.ok()) return finish(std::move(result));
                     finish(std::unique_ptr<InstalledPartition>(std::make_unique<RemotePartition>(
                         task_, transport_, response.graph_handle(), std::move(graph), std::move(border))));
                   });
}

void RemoteWorker::RecvTensor(int64_t step_id, const Rendezvous::Key& key, Rendezvous::RecvDone done) {
  tensorflow::RecvTensorRequest request;
  request.set_step_id(step_id);
  request.set_rendezvous_key(key.text);
  transport_.Start({task_, WorkerMethod::kRecvTensor, request.SerializeAsString()},
                   [this, finish = std::move(done)](const Status& status, const std::string& bytes) mutable {
                     tensorflow::RecvTensorResponse response;
                     Status result = status;
                     if (result.ok())
                       result = ParseResponse(task_, WorkerMethod::kRecvTensor, bytes, &response);
                     if (!result.ok() || response.is_dead())
                       return finish(std::move(result), Tensor(), response.is_dead());
                     StatusOr<Tensor> tensor = TakeTensorFromProto(response.mutable_tensor());
                     if (!tensor.ok()) return finish(std::move(tensor).status(), Tensor(), false);
                     finish(Status(), *std::move(tensor), false);
                   });
}

void RemoteWorker::CleanUpStep(int64_t step_id, Done done) {
  tensorflow::CleanupGraphRequest request;
  request.set_step_id(step_id);
  transport_.Start(
      {task_, WorkerMethod::kCleanupGraph, request.SerializeAsString()},
      [finish = std::move(done)](Status status, const std::string&) mutable { finish(std::move(status)); });
}

void RemoteWorker::ClearContainers(std::vector<std::string> containers, Done done) {
  tensorflow::CleanupAllRequest request;
  for (std::string& container : containers) request.add_container(std::move(container));
  transport_.Start(
      {task_, WorkerMethod::kCleanupAll, request.SerializeAsString()},
      [finish = std::move(done)](Status status, const std::string&) mutable { finish(std::move(status)); });
}

}  // namespace millrace
