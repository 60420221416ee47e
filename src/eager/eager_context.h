// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/cancellation.h"
#include "base/mutex.h"
#include "base/thread_pool.h"
#include "eager/eager_executor.h"
#include "eager/eager_kernel.h"
#include "eager/eager_op.h"
#include "graph/function_library.h"
#include "kernel/resource.h"
#include "millrace/session.h"
#include "step/local_worker.h"
#include "step/step_compiler.h"

namespace millrace {

// The environment of eager ops: devices with their resources, functions, and prepared kernels. Thread-safe.
// Its destructor waits for operations in progress.
class EagerContext {
 public:
  struct Options {
    SessionOptions session;  // devices and threads
    bool is_async = false;
  };
  static StatusOr<std::unique_ptr<EagerContext>> Make(const Options& options);
  ~EagerContext();

  const DeviceSet& devices() const { return devices_->devices(); }
  Device& host_device() const { return *devices().client_device(); }
  // By a full or partial name. InvalidArgument "x unknown device.".
  StatusOr<Device*> FindDevice(std::string_view name) const;
  bool is_async() const { return executor_ != nullptr; }

  // The op or function of that name; *is_function tells which. NotFound, in TensorFlow's words.
  StatusOr<const OpRegistration*> LookUp(const std::string& name, bool* is_function) MR_EXCLUDES(mu_);
  Status AddFunction(const tensorflow::FunctionDef& def) MR_EXCLUDES(mu_);
  Status RemoveFunction(const std::string& name) MR_EXCLUDES(mu_);
  bool HasFunction(const std::string& name) MR_EXCLUDES(mu_);

  // Runs the op. `outputs` gets all results; InvalidArgument when there is no room for them. In an
  // asynchronous context the op has been checked when it returns, and runs later.
  Status Execute(const EagerOp& op, std::span<EagerTensor*> outputs, int* num_outputs);
  // A copy of `tensor` on another device.
  StatusOr<RefPtr<EagerTensor>> Copy(EagerTensor& tensor, const Device& device);
  // Later ops prepare new kernels. The old ones are freed, except those of resources, to which handles may
  // refer: they live as long as the context.
  void ClearKernels() MR_EXCLUDES(mu_);
  // Waits for an asynchronous context; its first error, which later calls return, too, until it is cleared.
  Status Await();
  void ClearError();
  // State of steps (tensor arrays, stacks) lives as long as the outermost step.
  void StartStep() MR_EXCLUDES(mu_);
  void EndStep() MR_EXCLUDES(mu_);

  // Prepared kernels, and those that have been dropped but are in use.
  size_t num_kernels_for_test() MR_EXCLUDES(mu_);
  size_t num_dropped_kernels_for_test() MR_EXCLUDES(mu_);

 private:
  EagerContext(const Options& options, std::shared_ptr<LocalDevices> devices);
  struct KernelUse;
  using Kernels = std::vector<RefPtr<EagerKernel>>;
  Status Prepare(const EagerOp& op, KernelUse* use) MR_EXCLUDES(mu_, make_mu_);
  RefPtr<EagerKernel> Find(uint64_t hash, const EagerOp& op, const Device& device) const
      MR_REQUIRES_SHARED(mu_);
  RefPtr<EagerKernel> FindLocked(uint64_t hash, const EagerOp& op, const Device& device) MR_EXCLUDES(mu_);
  // Drops the prepared kernels, of stateful ops only if `stateful`; those that can be freed now, for the
  // caller to free without the lock.
  Kernels Drop(bool stateful) MR_REQUIRES(mu_);
  Status ExecuteLater(const EagerOp& op, const EagerKernel& kernel, std::span<EagerTensor*> outputs);

  const std::shared_ptr<LocalDevices> devices_;
  const std::unique_ptr<LocalWorker> worker_;
  const std::unique_ptr<StepCompiler> compiler_;
  std::shared_ptr<ThreadPool> pool_;        // null: one thread
  std::shared_ptr<ThreadPool> inter_pool_;  // null: one thread
  CancellationManager cancellation_;
  ResourceManager step_resources_{"the step's container"};
  EagerKernel::Environment environment_;
  const std::string* host_device_name_ = nullptr;
  // Changes with ClearKernels; unique among contexts. Caches of threads are tagged with it.
  std::atomic<uint64_t> generation_;

  Mutex make_mu_;  // held while a kernel is made; before mu_
  SharedMutex mu_;
  std::unordered_multimap<uint64_t, RefPtr<EagerKernel>> kernels_ MR_GUARDED_BY(mu_);
  Kernels dropped_ MR_GUARDED_BY(mu_);  // some thread has a reference, or they own resources
  FunctionLibrary functions_ MR_GUARDED_BY(mu_);
  std::vector<FunctionLibrary> removed_ MR_GUARDED_BY(mu_);  // ops may still refer to them
  int open_steps_ MR_GUARDED_BY(mu_) = 0;

  std::unique_ptr<EagerExecutor> executor_;  // null: ops run at once; destroyed first
};

}  // namespace millrace
