// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Code that the kernels that call functions share.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "base/small_vector.h"
#include "kernel/function_caller.h"
#include "kernel/kernel_context.h"
#include "kernel/kernel_registry.h"
#include "kernel/op_kernel.h"

namespace millrace {

// The function that an attribute of a node names. The first call instantiates it: a recursive function must
// not require its own instantiation. Thread-safe.
class BoundFunction {
 public:
  BoundFunction(KernelConstruction& c, NameAttrList f)
      : caller_(c.functions()), device_(c.device()), f_(std::move(f)) {
    if (caller_ == nullptr) c.SetError(errors::Internal("No function library is provided."));
  }
  // OK if calls pass arguments of these types and get results of those.
  StatusOr<const FunctionCaller::Function*> Get(std::span<const DataType> args,
                                                std::span<const DataType> rets) const;
  // The same for the body of a loop.
  StatusOr<const FunctionCaller::Function*> GetBody(std::span<const DataType> types) const;
  // The same for a function of one result, of any type.
  StatusOr<const FunctionCaller::Function*> GetPredicate(std::span<const DataType> args) const;

 private:
  FunctionCaller* const caller_;
  const Device& device_;  // not that of the step, which tracing may replace
  const NameAttrList f_;
  mutable std::atomic<const FunctionCaller::Function*> function_{nullptr};
};

// Results of a call; a small number needs no allocation.
class CallResults {
 public:
  explicit CallResults(size_t size) : size_(size) {
    if (size > kInline) heap_.resize(size);
  }
  std::span<Tensor> tensors() { return {size_ > kInline ? heap_.data() : inline_.data(), size_}; }
  // Moves them to the outputs of the node.
  void SetOutputs(KernelContext& context) {
    const std::span<Tensor> values = tensors();
    for (size_t i = 0; i < size_; ++i) context.set_output(static_cast<int>(i), std::move(values[i]));
  }

 private:
  static constexpr size_t kInline = 3;
  size_t size_;
  std::array<Tensor, kInline> inline_;
  std::vector<Tensor> heap_;
};

using ArgPointers = SmallVector<const Tensor*, 8>;

// Whether a tensor is true: a scalar other than zero (a string that is not empty), or any with elements.
StatusOr<bool> ToBool(const Tensor& value);

// Whether an attribute of the node names a function that may wait.
bool NamesFunctionThatWaits(const KernelConstruction& c);

// Registers a kernel under `op`, made with Async where a function that it names may wait, else with Sync.
template <typename Sync, typename Async>
void RegisterCalling(KernelRegistry& registry, const char* op) {
  registry.Register(KernelDef(op).Async(), [](KernelConstruction& c) -> std::unique_ptr<OpKernel> {
    if (NamesFunctionThatWaits(c)) return std::make_unique<Async>(c);
    return std::make_unique<Sync>(c);
  });
}

}  // namespace millrace
