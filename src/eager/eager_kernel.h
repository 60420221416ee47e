// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "eager/eager_op.h"
#include "kernel/function_caller.h"
#include "kernel/kernel_context.h"
#include "op/node_props.h"

namespace millrace {

// The properties of an op that determine its kernel. Equal keys may share a kernel.
struct EagerKey {
  const OpRegistration* op = nullptr;
  const Device* device = nullptr;
  std::vector<DataType> input_types;
  std::vector<int> groups;
  std::vector<AttrMap::Entry> attrs;

  static EagerKey Of(const EagerOp& op, const Device& device);
  static uint64_t Hash(const EagerOp& op, const Device& device);
  bool Is(const EagerOp& op, const Device& device) const;
};

// An op with its attributes, types of inputs and device, ready to run. Made once, run by many threads.
// Threads may hold references beyond the life of its context, which closes it.
class EagerKernel : public RefCounted {
 public:
  // Common to all runs of a context.
  struct Environment {
    CancellationManager* cancellation = nullptr;
    ThreadPool* pool = nullptr;
    ThreadPool* inter_op_pool = nullptr;
    ResourceManager* step_resources = nullptr;
    FunctionCaller* functions = nullptr;
  };

  // Errors of the attributes, or of a missing kernel.
  static StatusOr<RefPtr<EagerKernel>> Make(const EagerOp& op, Device& device, ResourceManager& resources,
                                            const Environment& environment);
  // Destroys the op's kernel with the state that it keeps. No run may be in progress, none may follow.
  void Close() { kernel_.reset(); }

  const EagerKey& key() const { return key_; }
  bool is_stateful() const { return function_ == nullptr && key_.op->def.is_stateful; }
  // Handles that the op has returned may refer to resources that end with the kernel.
  bool owns_resources() const;
  std::span<const DataType> output_types() const { return output_types_; }
  // Names the tensor whose type is wrong, in TensorFlow's words.
  Status CheckInputs(std::span<const RefPtr<EagerTensor>> inputs) const;
  // Runs it; blocks while the kernel waits. Inputs are computed and have the right types.
  Status Run(std::span<const RefPtr<EagerTensor>> inputs, std::span<Tensor> outputs) const;

 private:
  EagerKernel() = default;
  StepServices Services() const;
  Status RunFunction(std::span<const RefPtr<EagerTensor>> inputs, std::span<Tensor> outputs) const;
  Status RunKernel(std::span<TensorValue> inputs, std::span<TensorValue> outputs) const;

  EagerKey key_;
  Environment environment_;
  Device* device_ = nullptr;
  Allocator* allocator_ = nullptr;
  ResourceManager* resources_ = nullptr;
  std::shared_ptr<const NodeProps> props_;
  std::vector<DataType> input_types_;   // a reference type: no input fits
  std::vector<DataType> output_types_;  // base types
  std::unique_ptr<OpKernel> kernel_;    // null: a function
  AsyncOpKernel* async_ = nullptr;
  const FunctionCaller::Function* function_ = nullptr;
};

}  // namespace millrace
