// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "kernel/kernel_context.h"
#include "kernel/kernel_registry.h"
#include "kernel/op_kernel.h"
#include "kernel/resource.h"
#include "op/op_registry.h"

namespace millrace {

// For tests: makes the kernel of one op on a CPU device and runs it on given tensors, with the checks that
// the executor would do. Ops and kernels come from the global registries, which the test fills. One thread.
//   KernelRunner("Add").Input(a).Input(b).Run()
// Type attributes that no Attr() call sets follow from the inputs; a number or list attribute too when it is
// the only one of an input argument.
class KernelRunner {
 public:
  explicit KernelRunner(std::string op);
  ~KernelRunner();
  KernelRunner(const KernelRunner&) = delete;
  KernelRunner& operator=(const KernelRunner&) = delete;

  KernelRunner& Attr(std::string_view name, AttrValue value);
  KernelRunner& Name(std::string name);
  // A value with another reference, so that the kernel must not overwrite it.
  KernelRunner& Input(Tensor value);
  // A value that only the node holds, so that the kernel may compute in place; for one Run().
  KernelRunner& OwnedInput(Tensor value);
  // A reference to the tensor of a variable, which must outlive the runner.
  KernelRunner& RefInput(Variable& variable);
  // Null, the default: all on this thread.
  KernelRunner& Pool(ThreadPool* pool);
  // Shares resources between runners; by default each has its own.
  KernelRunner& Resources(ResourceManager* resources);
  KernelRunner& WithRendezvous(Rendezvous* rendezvous);
  KernelRunner& Frame(CallFrame* frame);

  // Whether the op's signature allows these attributes and inputs: the error that importing such a node would
  // give.
  Status CheckSignature();
  // Makes the kernel on the first call. Returns the outputs' values (of reference outputs too).
  StatusOr<std::vector<Tensor>> Run();
  // The same for ops with one output.
  StatusOr<Tensor> RunOne();
  // After Run(): the raw outputs, for tests of references and sharing.
  const std::vector<TensorValue>& outputs() const { return outputs_; }
  // After Run(): the kernel.
  OpKernel* kernel() { return kernel_.get(); }
  // That of the step that Run() makes.
  CancellationManager& cancellation() { return cancellation_; }
  Device& device() { return *device_; }
  ResourceManager& resources() { return *resources_; }

  // The device that all runners share the name of.
  static constexpr std::string_view kDeviceName = "/job:localhost/replica:0/task:0/device:CPU:0";

 private:
  Status Prepare();
  void InferAttrs(const OpDef& op);
  Status CheckInputs() const;

  const std::string op_;
  std::string name_;
  AttrMap attrs_;
  std::vector<TensorValue> inputs_;
  std::vector<bool> owned_;
  std::vector<TensorValue> outputs_;
  std::unique_ptr<DeviceSet> devices_;
  Device* device_ = nullptr;
  std::unique_ptr<ResourceManager> own_resources_;
  ResourceManager* resources_ = nullptr;
  CancellationManager cancellation_;
  Rendezvous* rendezvous_ = nullptr;
  CallFrame* frame_ = nullptr;
  ThreadPool* pool_ = nullptr;
  std::unique_ptr<OpKernel> kernel_;
};

}  // namespace millrace
