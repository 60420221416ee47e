// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/remote_worker.h"

#include <chrono>
#include <climits>
#include <utility>

#include "base/notification.h"
#include "distributed/device_message.h"
#include "distributed/partition_message.h"
#include "distributed/step_stats.h"
#include "distributed/tensor_channels.h"
#include "distributed/tensor_message.h"
#include "graph/summary.h"
#include "step/cost_graph.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace millrace {
namespace {

template <typename Message>
Status ParseResponse(const std::string& task, Method method, const MessageBytes& bytes, Message* response) {
  if (bytes.ParseInto(response)) return Status();
  return errors::Internal("The response of ", task, " to ", MethodName(method), " is not a message");
}

int64_t UnixMicros() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::microseconds>(system_clock::now().time_since_epoch())
      .count();
}

// A partition that is registered at another task. Its destructor deregisters it, without waiting.
class RemotePartition : public InstalledPartition {
 public:
  RemotePartition(std::string task, Transport& transport, std::string session, std::string handle,
                  std::unique_ptr<Graph> graph, BorderKeys keys, std::shared_ptr<ClockOffset> clock)
      : task_(std::move(task)),
        transport_(transport),
        session_(std::move(session)),
        handle_(std::move(handle)),
        graph_(std::move(graph)),
        keys_(std::move(keys)),
        clock_(std::move(clock)) {}
  ~RemotePartition() override {
    tensorflow::DeregisterGraphRequest request;
    request.set_session_handle(session_);
    request.set_create_worker_session_called(!session_.empty());
    request.set_graph_handle(handle_);
    // A task that has ended or restarted has no registered partitions.
    transport_.Start({task_, Method::kDeregisterGraph, MessageBytes::Of(request)},
                     [](const Status&, const MessageBytes&) {});
  }

  void Run(StepArgs& args, Done done) override {
    const StatusOr<tensorflow::RunGraphRequest> request = Request(args);
    if (!request.ok()) return done(request.status());
    RemoteCall call{task_, Method::kRunGraph, MessageBytes::Of(*request)};
    call.timeout_in_ms = args.info.timeout_in_ms;
    call.cancellation = args.cancellation;
    transport_.Start(std::move(call),
                     [this, rets = args.rets, metadata = args.metadata, cleaned_up = args.cleaned_up,
                      sent_us = args.metadata == nullptr ? 0 : UnixMicros(),
                      finish = std::move(done)](Status status, const MessageBytes& bytes) mutable {
                       if (status.ok()) status = Finish(bytes, rets, metadata, sent_us, cleaned_up);
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
    request.set_session_handle(session_);
    request.set_create_worker_session_called(!session_.empty());
    request.set_graph_handle(handle_);
    request.set_step_id(args.info.step_id);
    request.set_calls_in_progress(args.info.call_depth + args.info.calls_elsewhere);
    request.set_collective_step(args.info.collective_step);
    request.set_collective_leader(std::string(args.info.collective_leader));
    request.set_request_id(StepIds::NextShared());
    request.set_store_errors_in_response_body(true);
    request.set_clean_up_if_idle(args.cleaned_up != nullptr);
    request.mutable_exec_opts()->set_record_timeline(args.info.trace);
    request.mutable_exec_opts()->set_report_tensor_allocations_upon_oom(args.info.report_allocations);
    for (const auto& [key, slot] : keys_.feeds) {
      if (slot < 0 || static_cast<size_t>(slot) >= args.args.size())
        return errors::Internal("The step has ", args.args.size(), " feeds, expected one in slot ", slot);
      tensorflow::NamedTensorProto* const feed = request.add_send();
      feed->set_name(key);
      TensorToProtoContent(*args.args[static_cast<size_t>(slot)], feed->mutable_tensor());
    }
    for (const auto& [key, slot] : keys_.fetches) request.add_recv_key(key);
    if (request.ByteSizeLong() <= INT_MAX) return request;
    return errors::ResourceExhausted("The feeds of ", task_, " exceed the size of a message");
  }

  Status Finish(const MessageBytes& bytes, std::span<Tensor> rets, RunMetadata* metadata, int64_t sent_us,
                bool* cleaned_up) const {
    tensorflow::RunGraphResponse response;
    MR_RETURN_IF_ERROR(ParseResponse(task_, Method::kRunGraph, bytes, &response));
    if (response.status_code() != tensorflow::error::OK)
      return Status(static_cast<ErrorCode>(response.status_code()), response.status_error_message());
    if (cleaned_up != nullptr) *cleaned_up = response.cleaned_up();
    for (tensorflow::NamedTensorProto& fetched : *response.mutable_recv()) {
      const auto slot = keys_.fetches.find(fetched.name());
      if (slot == keys_.fetches.end() || static_cast<size_t>(slot->second) >= rets.size())
        return errors::Internal("Unexpected fetch key: ", fetched.name());
      MR_ASSIGN_OR_RETURN(rets[static_cast<size_t>(slot->second)],
                          TakeTensorFromProto(fetched.mutable_tensor()));
    }
    if (metadata == nullptr) return Status();
    if (response.received_micros() != 0)
      clock_->Add({sent_us, response.received_micros(), response.answered_micros(), UnixMicros()});
    return AppendStepStats(response.step_stats(), clock_->Micros(), metadata);
  }

  const std::string task_;
  Transport& transport_;
  const std::string session_;
  const std::string handle_;
  const std::unique_ptr<Graph> graph_;
  const BorderKeys keys_;
  const std::shared_ptr<ClockOffset> clock_;
};

}  // namespace

RemoteWorker::RemoteWorker(std::string task, const std::vector<DeviceAttributes>& devices,
                           Transport& transport, std::string session)
    : task_(std::move(task)), devices_(devices), transport_(transport), session_(std::move(session)) {}

StatusOr<std::unique_ptr<RemoteWorker>> RemoteWorker::Connect(std::string task, Transport& transport,
                                                              int64_t timeout_in_ms) {
  Status status;
  MessageBytes response;
  Notification answered;
  RemoteCall call{task, Method::kGetStatus, MessageBytes::Of(tensorflow::GetStatusRequest())};
  call.timeout_in_ms = timeout_in_ms;
  transport.Start(std::move(call), [&](Status s, MessageBytes bytes) {
    status = std::move(s);
    response = std::move(bytes);
    answered.Notify();
  });
  answered.Wait();
  MR_RETURN_IF_ERROR(status);
  MR_ASSIGN_OR_RETURN(const std::vector<DeviceAttributes> devices, DevicesFromStatus(task, response));
  return std::make_unique<RemoteWorker>(std::move(task), devices, transport);
}

StatusOr<std::vector<DeviceAttributes>> DevicesFromStatus(const std::string& task, const MessageBytes& bytes,
                                                          bool renamed) {
  tensorflow::GetStatusResponse response;
  MR_RETURN_IF_ERROR(ParseResponse(task, Method::kGetStatus, bytes, &response));
  std::vector<DeviceAttributes> devices;
  for (const tensorflow::DeviceAttributes& proto : response.device_attributes()) {
    DeviceAttributes attributes = AttributesFromProto(proto);
    std::string own_name, local;
    if (!SplitDeviceName(attributes.name, &own_name, &local))
      return errors::Internal(task, " has a device without a full name: '", attributes.name, "'");
    if (!renamed && own_name != task) {
      return errors::InvalidArgument("The task that answers at the address of ", task, " says that it is ",
                                     own_name, ": the addresses of the cluster are wrong");
    }
    attributes.name = StrCat(task, "/", local);
    devices.push_back(std::move(attributes));
  }
  return devices;
}

void RemoteWorker::InstallAsync(PartitionSpec spec, Installed done) {
  auto keys = UseKeysForFeedsAndFetches(
      spec.graph.get(), [this](std::string_view name) { return devices_.IncarnationOf(name); });
  if (!keys.ok()) return done(std::move(keys).status());
  tensorflow::RegisterGraphRequest request;
  request.set_session_handle(session_);
  request.set_create_worker_session_called(!session_.empty());
  PartitionToRequest(spec, &request);
  if (request.ByteSizeLong() > INT_MAX)
    return done(errors::ResourceExhausted("The graph for ", task_, " exceeds the size of a message"));
  RemoteCall call{task_, Method::kRegisterGraph, MessageBytes::Of(request)};
  transport_.Start(std::move(call), [this, graph = std::move(spec.graph), border = *std::move(keys),
                                     clock = clock_, finish = std::move(done)](
                                        const Status& status, const MessageBytes& bytes) mutable {
    tensorflow::RegisterGraphResponse response;
    Status result = status;
    if (result.ok()) result = ParseResponse(task_, Method::kRegisterGraph, bytes, &response);
    if (!result.ok()) return finish(std::move(result));
    finish(std::unique_ptr<InstalledPartition>(std::make_unique<RemotePartition>(
        task_, transport_, session_, response.graph_handle(), std::move(graph), std::move(border), clock)));
  });
}

void RemoteWorker::RecvTensor(int64_t step_id, const Rendezvous::Key& key, Rendezvous::RecvDone done) {
  RecvTensorFrom(transport_, nullptr, task_, step_id, key, nullptr, std::move(done));
}

void RecvTensorFrom(Transport& transport, TensorChannels* channels, std::string_view task, int64_t step_id,
                    const Rendezvous::Key& key, CancellationManager* cancellation,
                    Rendezvous::RecvDone done) {
  tensorflow::RecvTensorRequest request;
  request.set_step_id(step_id);
  request.set_rendezvous_key(key.text);
  request.set_request_id(StepIds::NextShared());
  if (channels != nullptr) channels->Introduce(&request);
  RemoteCall call{std::string(task), Method::kRecvTensor, MessageBytes::Of(request)};
  call.cancellation = cancellation;
  transport.Start(
      std::move(call), [channels, sender = std::string(task), cancellation, finish = std::move(done)](
                           const Status& status, const MessageBytes& bytes) mutable {
        if (!status.ok()) return finish(status, Tensor(), false);
        StatusOr<ReceivedTensor> received = TensorFromResponse(bytes);
        if (!received.ok()) return finish(std::move(received).status(), Tensor(), false);
        if (received->offer && channels != nullptr)
          return channels->Fetch(sender, *received->offer, cancellation, std::move(finish));
        if (received->offer) {
          return finish(errors::Internal(sender, " offers a tensor that this task does not fetch"), Tensor(),
                        false);
        }
        finish(Status(), std::move(received->tensor), received->is_dead);
      });
}

void RemoteWorker::CleanUpStep(int64_t step_id, Done done) {
  tensorflow::CleanupGraphRequest request;
  request.set_step_id(step_id);
  transport_.Start(
      {task_, Method::kCleanupGraph, MessageBytes::Of(request)},
      [finish = std::move(done)](Status status, const MessageBytes&) mutable { finish(std::move(status)); });
}

void RemoteWorker::ClearContainers(std::vector<std::string> containers, Done done) {
  tensorflow::CleanupAllRequest request;
  for (std::string& container : containers) request.add_container(std::move(container));
  transport_.Start(
      {task_, Method::kCleanupAll, MessageBytes::Of(request)},
      [finish = std::move(done)](Status status, const MessageBytes&) mutable { finish(std::move(status)); });
}

}  // namespace millrace
