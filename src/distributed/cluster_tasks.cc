// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/cluster_tasks.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <thread>
#include <utility>

#include "base/logging.h"
#include "base/mutex.h"
#include "base/strings.h"
#include "distributed/device_message.h"
#include "millrace/ref.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace millrace {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kProgressEvery{10};
constexpr std::chrono::milliseconds kPause{50};  // before a task is called again

// The answers of several tasks to one kind of call.
struct Answers {
  explicit Answers(size_t n) : statuses(n), bytes(n), came(n), missing(n) {}
  Mutex mu;
  CondVar changed;
  std::vector<Status> statuses MR_GUARDED_BY(mu);
  std::vector<MessageBytes> bytes MR_GUARDED_BY(mu);
  std::vector<bool> came MR_GUARDED_BY(mu);
  size_t missing MR_GUARDED_BY(mu);
};

// Calls all tasks at the same time and waits for the answers, which the transport guarantees.
void CallAll(Transport& transport, const std::vector<std::string>& tasks,
             const std::function<RemoteCall(size_t)>& call, Answers* answers) {
  for (size_t i = 0; i < tasks.size(); ++i) {
    transport.Start(call(i), [answers, i](Status status, MessageBytes bytes) {
      MutexLock lock(answers->mu);
      answers->statuses[i] = std::move(status);
      answers->bytes[i] = std::move(bytes);
      answers->came[i] = true;
      --answers->missing;
      answers->changed.NotifyAll();
    });
  }
  MutexLock lock(answers->mu);
  auto progress = steady_clock::now() + kProgressEvery;
  while (answers->missing > 0) {
    if (answers->changed.WaitUntil(answers->mu, progress) || answers->missing == 0) continue;
    progress = steady_clock::now() + kProgressEvery;
    for (size_t i = 0; i < tasks.size(); ++i) {
      if (!answers->came[i])
        MR_LOG(Info) << "CreateSession still waiting for response from worker: " << tasks[i];
    }
  }
}

}  // namespace

StatusOr<std::vector<std::string>> TasksOf(const ClusterSpec& cluster,
                                           const std::vector<std::string>& filters) {
  std::vector<DeviceName> parsed;
  for (const std::string& filter : filters) {
    MR_ASSIGN_OR_RETURN(DeviceName name, DeviceName::Parse(filter));
    name.type.reset();
    name.index.reset();
    parsed.push_back(std::move(name));
  }
  std::vector<std::string> tasks;
  for (const auto& [job, of_job] : cluster.jobs()) {
    for (const auto& [task, address] : of_job) {
      const DeviceName name{job, 0, task, {}, {}};
      const bool wanted =
          parsed.empty() ||
          std::any_of(parsed.begin(), parsed.end(), [&](const DeviceName& f) { return f.Describes(name); });
      if (wanted) tasks.push_back(TaskName(job, task));
    }
  }
  return tasks;
}

StatusOr<std::vector<std::vector<DeviceAttributes>>> FindDevices(const ClusterConnection& connection,
                                                                 const std::vector<std::string>& tasks) {
  const auto start = steady_clock::now();
  const auto waited = [start] {
    return std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - start).count();
  };
  std::vector<std::vector<DeviceAttributes>> devices(tasks.size());
  std::vector<size_t> asked(tasks.size());  // indices of the tasks that have not answered
  std::iota(asked.begin(), asked.end(), size_t{0});
  for (;;) {
    std::vector<std::string> names, missing;
    std::vector<size_t> again;
    size_t failed = 0;
    Status first;
    for (const size_t i : asked) names.push_back(tasks[i]);
    Answers answers(names.size());
    const int64_t patience = std::max<int64_t>(connection.timeout_in_ms - waited(), 1);
    CallAll(
        *connection.transport, names,
        [&](size_t i) {
          RemoteCall call{names[i], Method::kGetStatus, MessageBytes::Of(tensorflow::GetStatusRequest())};
          call.timeout_in_ms = connection.timeout_in_ms == 0 ? 0 : patience;
          call.patience_in_ms = call.timeout_in_ms;
          call.cancellation = connection.cancellation;
          return call;
        },
        &answers);
    if (connection.cancellation != nullptr && connection.cancellation->IsCancelled())
      return errors::Cancelled("CreateSession was cancelled");
    MutexLock lock(answers.mu);
    for (size_t i = 0; i < names.size(); ++i) {
      const Status& status = answers.statuses[i];
      if (status.ok()) {
        MR_ASSIGN_OR_RETURN(devices[asked[i]],
                            DevicesFromStatus(names[i], answers.bytes[i], connection.renamed));
        continue;
      }
      ++failed;
      if (errors::IsUnavailable(status)) again.push_back(asked[i]);
      if (errors::IsUnavailable(status) || errors::IsDeadlineExceeded(status)) missing.push_back(names[i]);
      first.Update(Status(status.code(), StrCat(names[i], ": ", status.message())));
    }
    if (first.ok()) return devices;
    if (missing.empty()) return first;
    if (again.size() < failed || waited() >= connection.timeout_in_ms) {
      return errors::DeadlineExceeded("CreateSession has waited ", waited() / 1000, ".", waited() / 100 % 10,
                                      " s for tasks that do not answer: ", StrJoin(missing, ", "), ". (",
                                      first.message(), ")");
    }
    // A broken connection is reported at once; the task may be about to restart.
    asked = std::move(again);
    std::this_thread::sleep_for(kPause);
  }
}

StatusOr<std::unique_ptr<OtherTasks>> ClusterTasks::Connect(const ClusterConnection& connection,
                                                            const SessionOptions& options, LocalWorker& own) {
  const auto deadline = steady_clock::now() + std::chrono::milliseconds(connection.timeout_in_ms);
  MR_ASSIGN_OR_RETURN(std::vector<std::string> tasks, TasksOf(connection.cluster, options.device_filters));
  tasks.erase(std::remove(tasks.begin(), tasks.end(), own.task()), tasks.end());
  MR_ASSIGN_OR_RETURN(const auto devices, FindDevices(connection, tasks));
  std::vector<DeviceName> filters;
  for (const std::string& filter : options.device_filters) {
    MR_ASSIGN_OR_RETURN(DeviceName name, DeviceName::Parse(filter));
    filters.push_back(std::move(name));
  }
  std::unique_ptr<ClusterTasks> made(new ClusterTasks(*connection.transport, connection.session));
  for (size_t i = 0; i < tasks.size(); ++i) {
    std::vector<DeviceAttributes> wanted;
    for (const DeviceAttributes& device : devices[i]) {
      MR_ASSIGN_OR_RETURN(const DeviceName name, DeviceName::Parse(device.name));
      const bool kept =
          filters.empty() ||
          std::any_of(filters.begin(), filters.end(), [&](const DeviceName& f) { return f.Describes(name); });
      if (kept) wanted.push_back(device);
    }
    made->workers_.push_back(
        std::make_unique<RemoteWorker>(tasks[i], wanted, made->transport_, connection.session));
  }
  MR_RETURN_IF_ERROR(made->CreateWorkerSessions(connection, deadline, options, own));
  return std::unique_ptr<OtherTasks>(std::move(made));
}

Status ClusterTasks::CreateWorkerSessions(const ClusterConnection& connection,
                                          std::chrono::steady_clock::time_point deadline,
                                          const SessionOptions& options, const LocalWorker& own) {
  tensorflow::CreateWorkerSessionRequest request;
  request.set_session_handle(session_);
  request.set_isolate_session_state(options.isolate_session_state);
  request.set_master_task(own.task());
  request.set_master_incarnation(
      static_cast<int64_t>(own.devices().client_device()->attributes().incarnation));
  connection.cluster.ToProto(request.mutable_server_def()->mutable_cluster());
  request.mutable_server_def()->set_protocol("grpc");
  const auto add_devices = [&request](const DeviceView& devices) {
    for (const auto& device : devices.devices())
      AttributesToProto(device->attributes(), request.add_cluster_device_attributes());
  };
  add_devices(own.devices());
  std::vector<std::string> tasks;
  for (const auto& worker : workers_) {
    add_devices(worker->devices());
    tasks.push_back(worker->task());
  }
  // All requests share these bytes, whose size grows with the cluster. The different parts follow them: the
  // parser merges repeated message fields.
  const MessageBytes common = MessageBytes::Of(request);
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - steady_clock::now()).count();
  Answers answers(tasks.size());
  CallAll(
      transport_, tasks,
      [&](size_t i) {
        tensorflow::CreateWorkerSessionRequest of_task;
        const StatusOr<DeviceName> name = DeviceName::Parse(tasks[i]);
        if (name.ok()) {
          of_task.mutable_server_def()->set_job_name(name->job.value_or(""));
          of_task.mutable_server_def()->set_task_index(name->task.value_or(0));
        }
        RemoteCall call{tasks[i], Method::kCreateWorkerSession, common};
        call.request.Append(of_task.SerializeAsString());
        if (connection.timeout_in_ms > 0) call.timeout_in_ms = std::max<int64_t>(left, 1);
        call.cancellation = connection.cancellation;
        return call;
      },
      &answers);
  MutexLock lock(answers.mu);
  for (size_t i = 0; i < tasks.size(); ++i) {
    const Status& status = answers.statuses[i];
    if (!status.ok()) return Status(status.code(), StrCat("From ", tasks[i], ":\n", status.message()));
  }
  return Status();
}

ClusterTasks::~ClusterTasks() {
  tensorflow::DeleteWorkerSessionRequest request;
  request.set_session_handle(session_);
  for (const auto& worker : workers_) {
    // A task that has died has no session.
    transport_.Start({worker->task(), Method::kDeleteWorkerSession, MessageBytes::Of(request)},
                     [](const Status&, const MessageBytes&) {});
  }
  transport_.Drain();
}

std::vector<Worker*> ClusterTasks::workers() const {
  std::vector<Worker*> all;
  for (const auto& worker : workers_) all.push_back(worker.get());
  return all;
}

}  // namespace millrace
