// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/function.h"
#include "device/device.h"
#include "millrace/status.h"
#include "op/node_props.h"

namespace millrace {

class AsyncOpKernel;
class FunctionCaller;
class KernelContext;
class ResourceManager;

// The inputs and outputs of a kernel in host memory, by index, on a device with memory of its own: those
// that its registration names, and those with elements that only the host can hold (strings, handles,
// variants).
struct KernelMemory {
  std::vector<bool> host_inputs;
  std::vector<bool> host_outputs;
};

// The argument of a kernel's constructor. An attribute that is missing or has another type is kept as the
// error of the construction, so constructors need no error handling.
class KernelConstruction {
 public:
  KernelConstruction(std::string_view name, std::shared_ptr<const NodeProps> props, Device& device,
                     ResourceManager& resources, FunctionCaller* functions = nullptr)
      : name_(name),
        props_(std::move(props)),
        device_(device),
        resources_(resources),
        functions_(functions) {}

  std::string_view name() const { return name_; }
  const std::shared_ptr<const NodeProps>& props() const { return props_; }
  const AttrMap& attrs() const { return props_->attrs; }
  Device& device() const { return device_; }
  ResourceManager& resources() const { return resources_; }
  // Calls the functions of the node's graph; null if there are none. Outlives the kernel.
  FunctionCaller* functions() const { return functions_; }
  // Null: all inputs and outputs are in host memory. Set by the registry.
  const std::shared_ptr<const KernelMemory>& memory() const { return memory_; }
  void set_memory(std::shared_ptr<const KernelMemory> memory) { memory_ = std::move(memory); }
  template <typename T>
  T Attr(std::string_view attr) {
    auto value = props_->attrs.Get<T>(attr);
    if (value.ok()) return *std::move(value);
    SetError(value.status());
    return T();
  }
  bool HasAttr(std::string_view attr) const { return props_->attrs.Find(attr) != nullptr; }
  // Keeps the first error.
  void SetError(const Status& status) { status_.Update(status); }
  const Status& status() const { return status_; }

 private:
  std::string_view name_;
  std::shared_ptr<const NodeProps> props_;
  Device& device_;
  ResourceManager& resources_;
  FunctionCaller* const functions_;
  std::shared_ptr<const KernelMemory> memory_;
  Status status_;
};

// The implementation of one node on one device. Made once and shared by all steps, which may run at the same
// time: Compute must be thread-safe.
class OpKernel {
 public:
  explicit OpKernel(KernelConstruction& c) : name_(c.name()), props_(c.props()), memory_(c.memory()) {}
  virtual ~OpKernel() = default;
  OpKernel(const OpKernel&) = delete;
  OpKernel& operator=(const OpKernel&) = delete;

  // Must not block. An error ends the step; the executor adds the node's name. On a device with a stream the
  // outputs need not be computed on return: work in the stream may still compute them.
  virtual Status Compute(KernelContext& context) = 0;
  virtual AsyncOpKernel* AsAsync() { return nullptr; }
  // The value of output 0 when it never changes (Const), else null. Such a node isn't run at all.
  virtual const Tensor* ConstantOutput() const { return nullptr; }

  const std::string& name() const { return name_; }
  const NodeProps& props() const { return *props_; }
  const std::string& op_name() const { return props_->op->def.name; }
  DataType input_type(int i) const { return props_->input_types[i]; }
  DataType output_type(int i) const { return props_->output_types[i]; }
  int num_inputs() const { return static_cast<int>(props_->input_types.size()); }
  int num_outputs() const { return static_cast<int>(props_->output_types.size()); }
  // Whether an input or output is in host memory, rather than in the device's own.
  bool input_on_host(int i) const { return memory_ == nullptr || memory_->host_inputs[i]; }
  bool output_on_host(int i) const { return memory_ == nullptr || memory_->host_outputs[i]; }

 private:
  const std::string name_;
  const std::shared_ptr<const NodeProps> props_;
  const std::shared_ptr<const KernelMemory> memory_;
};

// A kernel that may wait without blocking a thread.
class AsyncOpKernel : public OpKernel {
 public:
  using OpKernel::OpKernel;
  using Done = UniqueFunction<void(Status)>;
  // Calls `done` exactly once, from any thread, possibly before returning. `context` lives until then.
  virtual void ComputeAsync(KernelContext& context, Done done) = 0;
  // The whole computation, with its result in `status`, if it need not wait: true. Else false, and nothing
  // has happened. Saves the cost of starting an asynchronous kernel.
  virtual bool TryCompute(KernelContext& /*context*/, Status& /*status*/) { return false; }
  // Whether TryCompute is worth a call.
  virtual bool tries() const { return false; }
  Status Compute(KernelContext& context) final;  // Internal: never called by the executor
  AsyncOpKernel* AsAsync() final { return this; }
};

}  // namespace millrace
