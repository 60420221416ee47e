// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "device/device.h"
#include "device/device_view.h"
#include "exec/memory_copies.h"
#include "kernel/op_kernel.h"
#include "kernel/resource.h"
#include "kernel/session_tensors.h"
#include "step/function_runtime.h"
#include "step/task_steps.h"
#include "step/worker.h"

namespace millrace {

class FaultInjector;

// The devices of a task of this process with their resources. Shared by the sessions of a worker server; a
// direct session has its own. Thread-safe.
class LocalDevices {
 public:
  explicit LocalDevices(std::shared_ptr<DeviceSet> devices);
  const DeviceSet& devices() const { return *devices_; }
  // For a second LocalDevices, with separate resources.
  const std::shared_ptr<DeviceSet>& shared_devices() const { return devices_; }
  const DeviceView& view() const { return view_; }
  // "/job:…/replica:…/task:…"
  const std::string& task() const { return task_; }
  ResourceManager& resources(const Device& device) { return *resources_.at(&device); }
  // Drops the resources of the named containers, of all when none is named.
  void ClearContainers(const std::vector<std::string>& containers);
  // Drops the resources that call these functions.
  void DropUsersOf(const FunctionCaller& functions);

 private:
  const std::shared_ptr<DeviceSet> devices_;
  const DeviceView view_;
  const std::string task_;
  std::map<const Device*, std::unique_ptr<ResourceManager>> resources_;
};

// Runs partitions on the devices of this process. Kernels of stateful ops are kept by name for the lifetime
// of the worker, so that steps with different signatures share their state. Thread-safe.
class LocalWorker : public Worker {
 public:
  // `faults`, which outlives the worker, injects faults; null: none.
  explicit LocalWorker(std::shared_ptr<LocalDevices> devices, FaultInjector* faults = nullptr);
  // One of several workers of a task, which share its steps. `peers`: of its session's cluster, if different
  // from that of the task.
  LocalWorker(std::shared_ptr<LocalDevices> devices, std::shared_ptr<TaskSteps> steps,
              std::shared_ptr<const TaskPeers> peers = nullptr);
  const std::string& task() const override { return devices_->task(); }
  const DeviceView& devices() const override { return devices_->view(); }
  bool in_process() const override { return true; }
  void InstallAsync(PartitionSpec spec, Installed done) override { done(InstallHere(std::move(spec))); }
  void RecvTensor(int64_t step_id, const Rendezvous::Key& key, Rendezvous::RecvDone done) override;
  void CleanUpStep(int64_t step_id, Done done) override;
  void ClearContainers(std::vector<std::string> containers, Done done) override;

  // Sets the workers from which tensors of other tasks are requested. REQUIRES: called before the first step
  // of several tasks; the workers outlive the steps. Shared steps already have them.
  void SetPeers(std::vector<Worker*> peers) { peers_ = std::move(peers); }
  const DeviceSet& local_devices() const { return devices_->devices(); }
  const std::shared_ptr<LocalDevices>& shared_devices() const { return devices_; }
  const std::shared_ptr<TaskSteps>& shared_steps() const { return steps_; }
  FunctionRuntime& functions() { return functions_; }
  // To be called before the worker ends, if its devices are shared: drops its functions and their callers.
  // REQUIRES: no step in progress.
  void DropFunctions();
  TaskSteps& steps() { return *steps_; }
  const std::shared_ptr<const TaskPeers>& task_peers() const { return task_peers_; }
  // Tensors that steps have kept for later ones at this task.
  SessionTensors& session_tensors() { return session_tensors_; }
  // Whether `fed` is a resource handle to such a tensor; and the tensor, or InvalidArgument.
  static bool IsTensorHandle(const Tensor& fed);
  StatusOr<Tensor> TensorOfHandle(const Tensor& fed) const;

 private:
  void UseDevices();
  StatusOr<std::unique_ptr<InstalledPartition>> InstallHere(PartitionSpec spec);
  void Pull(std::string_view task, int64_t step_id, const Rendezvous::Key& key, Rendezvous::RecvDone done);
  static StatusOr<KernelMemory> MemoryOf(const Node& node, const Device& device);
  StatusOr<std::shared_ptr<OpKernel>> MakeKernel(const Node& node, const std::string& scope, Device& device,
                                                 const MemoryCopies& copies) MR_EXCLUDES(mu_);

  const std::shared_ptr<LocalDevices> devices_;
  FaultInjector* const faults_;
  FunctionRuntime functions_;
  SessionTensors session_tensors_;
  const std::shared_ptr<TaskSteps> steps_;
  const std::shared_ptr<const TaskPeers> task_peers_;
  std::vector<Worker*> peers_;
  Mutex mu_;
  std::map<std::pair<const Device*, std::string>, std::shared_ptr<OpKernel>> stateful_kernels_
      MR_GUARDED_BY(mu_);
};

}  // namespace millrace
