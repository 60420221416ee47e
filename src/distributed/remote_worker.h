// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "distributed/clock_offset.h"
#include "distributed/transport.h"
#include "step/worker.h"

namespace millrace {

class TensorChannels;

// A task behind a transport: its calls are messages to the WorkerService there. Thread-safe.
class RemoteWorker : public Worker {
 public:
  // Requests the devices of the task and waits for the answer, at most `timeout_in_ms` (0: no limit).
  // REQUIRES: `transport` outlives the worker and its partitions.
  static StatusOr<std::unique_ptr<RemoteWorker>> Connect(std::string task, Transport& transport,
                                                         int64_t timeout_in_ms);
  // `session`: the handle of the worker session there; empty: there is none.
  RemoteWorker(std::string task, const std::vector<DeviceAttributes>& devices, Transport& transport,
               std::string session = "");

  const std::string& task() const override { return task_; }
  const DeviceView& devices() const override { return devices_; }
  bool in_process() const override { return false; }
  void InstallAsync(PartitionSpec spec, Installed done) override;
  void RecvTensor(int64_t step_id, const Rendezvous::Key& key, Rendezvous::RecvDone done) override;
  void CleanUpStep(int64_t step_id, Done done) override;
  void ClearContainers(std::vector<std::string> containers, Done done) override;

 private:
  const std::string task_;
  const DeviceView devices_;
  Transport& transport_;
  const std::string session_;
  const std::shared_ptr<ClockOffset> clock_ = std::make_shared<ClockOffset>();  // of the task
};

// Requests from `task` the tensor that the step sends there under `key`. `channels`: for large tensors; null:
// none. They and the transport outlive the call. `cancellation`: see RemoteCall.
void RecvTensorFrom(Transport& transport, TensorChannels* channels, std::string_view task, int64_t step_id,
                    const Rendezvous::Key& key, CancellationManager* cancellation, Rendezvous::RecvDone done);
// The devices in a response to GetStatus. They get the name of the task that was called; unless tasks are
// `renamed`, InvalidArgument when another one has answered.
StatusOr<std::vector<DeviceAttributes>> DevicesFromStatus(const std::string& task, const MessageBytes& bytes,
                                                          bool renamed = true);

}  // namespace millrace
