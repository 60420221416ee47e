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
#include "exec/memory_copies.h"
#include "kernel/op_kernel.h"
#include "kernel/resource.h"
#include "step/function_runtime.h"
#include "step/worker.h"

namespace millrace {

class FaultInjector;

// The devices of a task of this process with the resources on them. Shared by the sessions of a worker
// server; a direct session has its own. Thread-safe.
class LocalDevices {
 public:
  explicit LocalDevices(std::unique_ptr<DeviceSet> devices);
  const DeviceSet& devices() const { return *devices_; }
  ResourceManager& resources(const Device& device) { return *resources_.at(&device); }
  // Drops the resources of the named containers, of all when none is named.
  void ClearContainers(const std::vector<std::string>& containers);

 private:
  const std::unique_ptr<DeviceSet> devices_;
  std::map<const Device*, std::unique_ptr<ResourceManager>> resources_;
};

// Runs partitions on the devices of this process. Kernels of stateful ops are kept by name for as long as the
// worker lives, so that steps with different signatures share their state. Thread-safe.
class LocalWorker : public Worker {
 public:
  // With `faults`, which outlives the worker, things go wrong on purpose; null: they don't.
  explicit LocalWorker(std::shared_ptr<LocalDevices> devices, FaultInjector* faults = nullptr);
  const std::string& task() const override { return task_; }
  StatusOr<std::unique_ptr<InstalledPartition>> Install(PartitionSpec spec) override;
  LocalDevices& devices() { return *devices_; }
  FunctionRuntime& functions() { return functions_; }

 private:
  static StatusOr<KernelMemory> MemoryOf(const Node& node, const Device& device);
  StatusOr<std::shared_ptr<OpKernel>> MakeKernel(const Node& node, const std::string& scope, Device& device,
                                                 const MemoryCopies& copies) MR_EXCLUDES(mu_);

  const std::shared_ptr<LocalDevices> devices_;
  FaultInjector* const faults_;
  std::string task_;
  FunctionRuntime functions_;
  Mutex mu_;
  std::map<std::pair<const Device*, std::string>, std::shared_ptr<OpKernel>> stateful_kernels_
      MR_GUARDED_BY(mu_);
};

}  // namespace millrace
