// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/worker_service.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <utility>

#include "distributed/partition_message.h"
#include "kernel/function_caller.h"
#include "step/deadline.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/protobuf/config.pb.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace millrace {
namespace {

// A caller that has gone away leaves its step to this limit; one that is there stops it earlier by itself.
constexpr int64_t kGraceMs = 2000;

template <typename Request>
Status Parse(WorkerMethod method, const std::string& bytes, Request* request) {
  if (request->ParseFromString(bytes)) return Status();
  return errors::InvalidArgument("The request of ", WorkerMethodName(method), " is not a message");
}

Status NoGraph(const std::string& handle) {
  return errors::Aborted("Graph handle is not found: ", handle, ". Possibly, this worker just restarted.");
}

int64_t UnixMicros() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::microseconds>(system_clock::now().time_since_epoch())
      .count();
}

// Plain types as bytes; what has no bytes as lists.
void Encode(const Tensor& tensor, tensorflow::TensorProto* proto) { TensorToProtoContent(tensor, proto); }

}  // namespace

// One call of RunGraph, until its reply.
struct WorkerService::GraphRun {
  tensorflow::RunGraphRequest request;
  std::shared_ptr<InstalledPartition> partition;  // stays when it is deregistered meanwhile
  CancellationManager& cancellation;
  std::optional<ScopedDeadline> deadline;
  RunMetadata metadata;
  WorkerReply reply;
};

void WorkerService::Handle(WorkerMethod method, const std::string& request, int64_t timeout_in_ms,
                           CancellationManager& cancellation, WorkerReply reply) {
  switch (method) {
    case WorkerMethod::kGetStatus:
      return GetStatus(std::move(reply));
    case WorkerMethod::kRegisterGraph:
      return RegisterGraph(request, std::move(reply));
    case WorkerMethod::kDeregisterGraph:
      return DeregisterGraph(request, std::move(reply));
    case WorkerMethod::kRunGraph:
      return RunGraph(request, timeout_in_ms, cancellation, std::move(reply));
    case WorkerMethod::kCleanupGraph:
      return CleanupGraph(request, std::move(reply));
    case WorkerMethod::kCleanupAll:
      return CleanupAll(request, std::move(reply));
    case WorkerMethod::kRecvTensor:
      return RecvTensor(request, std::move(reply));
  }
  reply(errors::Unimplemented("The worker service has no method ", static_cast<int>(method)), "");
}

size_t WorkerService::num_graphs() const {
  MutexLock lock(mu_);
  return graphs_.size();
}

void WorkerService::GetStatus(WorkerReply reply) {
  tensorflow::GetStatusResponse response;
  for (const auto& device : worker_.devices().devices()) {
    const DeviceAttributes& a = device->attributes();
    tensorflow::DeviceAttributes* const d = response.add_device_attributes();
    d->set_name(a.name);
    d->set_device_type(a.type);
    d->set_memory_limit(a.memory_limit);
    d->set_incarnation(a.incarnation);
    d->set_physical_device_desc(a.physical_description);
  }
  reply(Status(), response.SerializeAsString());
}

void WorkerService::RegisterGraph(const std::string& bytes, WorkerReply reply) {
  tensorflow::RegisterGraphRequest request;
  if (Status s = Parse(WorkerMethod::kRegisterGraph, bytes, &request); !s.ok())
    return reply(std::move(s), "");
  StatusOr<PartitionSpec> spec = PartitionFromRequest(std::move(request));
  if (!spec.ok()) return reply(std::move(spec).status(), "");
  worker_.InstallAsync(
      *std::move(spec),
      [this, answer = std::move(reply)](StatusOr<std::unique_ptr<InstalledPartition>> installed) mutable {
        if (!installed.ok()) return answer(std::move(installed).status(), "");
        tensorflow::RegisterGraphResponse response;
        {
          MutexLock lock(mu_);
          char handle[17];
          std::snprintf(handle, sizeof(handle), "%016llx", static_cast<unsigned long long>(next_handle_++));
          response.set_graph_handle(handle);
          graphs_[handle] = *std::move(installed);
        }
        answer(Status(), response.SerializeAsString());
      });
}

void WorkerService::DeregisterGraph(const std::string& bytes, WorkerReply reply) {
  tensorflow::DeregisterGraphRequest request;
  if (Status s = Parse(WorkerMethod::kDeregisterGraph, bytes, &request); !s.ok())
    return reply(std::move(s), "");
  std::shared_ptr<InstalledPartition> dropped;  // dies after the lock is gone
  {
    MutexLock lock(mu_);
    const auto it = graphs_.find(request.graph_handle());
    if (it != graphs_.end()) {
      dropped = std::move(it->second);
      graphs_.erase(it);
    }
  }
  if (dropped == nullptr) return reply(NoGraph(request.graph_handle()), "");
  reply(Status(), tensorflow::DeregisterGraphResponse().SerializeAsString());
}

void WorkerService::RunGraph(const std::string& bytes, int64_t timeout_in_ms,
                             CancellationManager& cancellation, WorkerReply reply) {
  auto run = std::shared_ptr<GraphRun>(new GraphRun{.request = {},
                                                    .partition = {},
                                                    .cancellation = cancellation,
                                                    .deadline = {},
                                                    .metadata = {},
                                                    .reply = std::move(reply)});
  if (Status s = Parse(WorkerMethod::kRunGraph, bytes, &run->request); !s.ok())
    return run->reply(std::move(s), "");
  if (run->request.is_partial())
    return run->reply(errors::Unimplemented("Partial runs of another master are not supported"), "");
  {
    MutexLock lock(mu_);
    const auto it = graphs_.find(run->request.graph_handle());
    if (it != graphs_.end()) run->partition = it->second;
  }
  if (run->partition == nullptr) return run->reply(NoGraph(run->request.graph_handle()), "");
  if (timeout_in_ms > 0) run->deadline.emplace(cancellation, timeout_in_ms + kGraceMs);
  pool_.Schedule([this, run] { StartRun(run); });
}

void WorkerService::StartRun(std::shared_ptr<GraphRun> run) {
  const int64_t step_id = run->request.step_id();
  const StatusOr<RefPtr<TaskSteps::Step>> step = worker_.steps().Find(step_id);
  if (!step.ok()) return FinishRun(*run, step.status());
  for (tensorflow::NamedTensorProto& feed : *run->request.mutable_send()) {
    if (const auto parts = Rendezvous::Key::Parse(feed.name()); !parts.ok())
      return FinishRun(*run, parts.status());
    StatusOr<Tensor> value = TakeTensorFromProto(feed.mutable_tensor());
    if (!value.ok()) return FinishRun(*run, value.status());
    const Status sent = (*step)->rendezvous->Send(KeyFromText(feed.name()), *std::move(value), false);
    if (!sent.ok()) return FinishRun(*run, sent);
  }
  StepArgs args;
  args.info.step_id = step_id;
  args.info.several_tasks = true;
  args.info.calls_elsewhere = std::clamp(run->request.calls_in_progress(), 0, FunctionCaller::kMaxDepth);
  args.info.trace = run->request.exec_opts().record_timeline();
  args.info.report_allocations = run->request.exec_opts().report_tensor_allocations_upon_oom();
  args.cancellation = &run->cancellation;
  args.inter_op_pool = &pool_;
  args.intra_op_pool = &pool_;
  run->metadata.step_start_unix_us = UnixMicros();
  if (args.info.trace) args.metadata = &run->metadata;
  args.detached = true;
  run->partition->Run(args, [this, run](const Status& status) { FinishRun(*run, status); });
}

void WorkerService::FinishRun(GraphRun& run, const Status& status) {
  run.deadline.reset();
  if (!status.ok()) return run.reply(status, "");
  tensorflow::RunGraphResponse response;
  const StatusOr<RefPtr<TaskSteps::Step>> step = worker_.steps().Find(run.request.step_id());
  if (!step.ok()) return run.reply(step.status(), "");
  for (const std::string& key : run.request.recv_key()) {
    // What the partition has sent is there.
    struct Fetched {
      bool came = false;
      bool is_dead = false;
      Status status;
      Tensor value;
    };
    const auto fetched = std::make_shared<Fetched>();
    (*step)->rendezvous->RecvLocal(KeyFromText(key), [fetched](Status s, Tensor value, bool is_dead) {
      *fetched = {true, is_dead, std::move(s), std::move(value)};
    });
    if (!fetched->came) return run.reply(errors::Internal("The graph does not send ", key), "");
    if (!fetched->status.ok()) return run.reply(fetched->status, "");
    if (fetched->is_dead)
      return run.reply(errors::InvalidArgument("The tensor returned for ", key, " was not valid."), "");
    tensorflow::NamedTensorProto* const recv = response.add_recv();
    recv->set_name(key);
    Encode(fetched->value, recv->mutable_tensor());
  }
  if (run.request.exec_opts().record_timeline()) {
    tensorflow::RunMetadata measured;
    run.metadata.ToProto(&measured);
    response.mutable_step_stats()->Swap(measured.mutable_step_stats());
  }
  run.reply(Status(), response.SerializeAsString());
}

void WorkerService::CleanupGraph(const std::string& bytes, WorkerReply reply) {
  tensorflow::CleanupGraphRequest request;
  if (Status s = Parse(WorkerMethod::kCleanupGraph, bytes, &request); !s.ok()) return reply(std::move(s), "");
  worker_.CleanUpStep(request.step_id(), [answer = std::move(reply)](Status status) mutable {
    answer(std::move(status), tensorflow::CleanupGraphResponse().SerializeAsString());
  });
}

void WorkerService::CleanupAll(const std::string& bytes, WorkerReply reply) {
  tensorflow::CleanupAllRequest request;
  if (Status s = Parse(WorkerMethod::kCleanupAll, bytes, &request); !s.ok()) return reply(std::move(s), "");
  worker_.ClearContainers({request.container().begin(), request.container().end()},
                          [answer = std::move(reply)](Status status) mutable {
                            answer(std::move(status), tensorflow::CleanupAllResponse().SerializeAsString());
                          });
}

// A key of a device that was there before this process, or of another task, is refused.
Status WorkerService::CheckIncarnation(const Rendezvous::Key::Parts& key) const {
  const Device* const device = worker_.local_devices().Find(key.src_device);
  if (device == nullptr)
    return errors::InvalidArgument("No device '", key.src_device, "' in task ", worker_.task());
  const uint64_t incarnation = device->attributes().incarnation;
  if (incarnation == key.src_incarnation) return Status();
  return errors::Aborted("RecvTensor expects a different device incarnation: ", key.src_incarnation, " vs. ",
                         incarnation, ". Your worker job (\"", worker_.task(),
                         "\") was probably restarted. Check your worker job for the reason why it was "
                         "restarted.");
}

void WorkerService::RecvTensor(const std::string& bytes, WorkerReply reply) {
  tensorflow::RecvTensorRequest request;
  if (Status s = Parse(WorkerMethod::kRecvTensor, bytes, &request); !s.ok()) return reply(std::move(s), "");
  const auto parts = Rendezvous::Key::Parse(request.rendezvous_key());
  if (!parts.ok()) return reply(parts.status(), "");
  if (Status s = CheckIncarnation(*parts); !s.ok()) return reply(std::move(s), "");
  worker_.RecvTensor(request.step_id(), KeyFromText(request.rendezvous_key()),
                     [answer = std::move(reply)](Status status, const Tensor& tensor, bool is_dead) mutable {
                       if (!status.ok()) return answer(std::move(status), "");
                       tensorflow::RecvTensorResponse response;
                       response.set_is_dead(is_dead);
                       response.set_send_start_micros(UnixMicros());
                       if (!is_dead) Encode(tensor, response.mutable_tensor());
                       answer(Status(), response.SerializeAsString());
                     });
}

}  // namespace millrace
