// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/mutex.h"
#include "kernel/op_kernel.h"
#include "millrace/status.h"

namespace millrace {

// Which nodes a kernel serves: KernelDef("MatMul").Device("CPU").Type<float>("T").
class KernelDef {
 public:
  explicit KernelDef(std::string op) : op_(std::move(op)) {}
  KernelDef& Device(std::string type) {
    device_type_ = std::move(type);
    return *this;
  }
  KernelDef& Type(std::string attr, DataType dtype) { return Types(std::move(attr), {dtype}); }
  KernelDef& Types(std::string attr, std::vector<DataType> allowed) {
    constraints_.emplace_back(std::move(attr), std::move(allowed));
    return *this;
  }
  template <typename T>
  KernelDef& Type(std::string attr) {
    return Type(std::move(attr), kDataTypeOf<T>);
  }
  KernelDef& HostMemory(std::string arg) {
    host_memory_args_.push_back(std::move(arg));
    return *this;
  }
  KernelDef& Priority(int priority) {
    priority_ = priority;
    return *this;
  }
  KernelDef& Label(std::string label) {
    label_ = std::move(label);
    return *this;
  }  // matches attr _kernel
  // Says that the kernel may wait for something without holding a thread.
  KernelDef& Async(bool is_async = true) {
    is_async_ = is_async;
    return *this;
  }

  const std::string& op() const { return op_; }
  const std::string& device_type() const { return device_type_; }
  const std::vector<std::string>& host_memory_args() const { return host_memory_args_; }
  int priority() const { return priority_; }
  const std::string& label() const { return label_; }
  bool is_async() const { return is_async_; }
  // True when the attributes meet every constraint; an attr may be a type or a list of types.
  bool Matches(const AttrMap& attrs) const;
  std::string ToString() const;

 private:
  std::string op_;
  std::string device_type_ = "CPU";
  std::vector<std::pair<std::string, std::vector<DataType>>> constraints_;
  std::vector<std::string> host_memory_args_;
  std::string label_;
  int priority_ = 0;
  bool is_async_ = false;
};

using KernelFactory = std::function<std::unique_ptr<OpKernel>(KernelConstruction&)>;

// Kernels by op and device type. Thread-safe.
class KernelRegistry {
 public:
  void Register(KernelDef def, KernelFactory factory) MR_EXCLUDES(mu_);
  template <typename K>
  void Register(KernelDef def) {
    Register(std::move(def.Async(std::is_base_of_v<AsyncOpKernel, K>)),
             [](KernelConstruction& c) -> std::unique_ptr<OpKernel> { return std::make_unique<K>(c); });
  }
  // The matching kernel of highest priority. NotFound "No registered 'X' OpKernel for CPU devices compatible
  // with node …" lists what there is.
  StatusOr<const KernelDef*> Find(std::string_view device_type, const NodeProps& props) const
      MR_EXCLUDES(mu_);
  StatusOr<std::unique_ptr<OpKernel>> Create(std::string_view device_type,
                                             KernelConstruction& construction) const MR_EXCLUDES(mu_);
  bool HasKernel(std::string_view device_type, const NodeProps& props) const {
    return Find(device_type, props).ok();
  }
  // Ops that have at least one kernel, sorted; and the definitions of one op.
  std::vector<std::string> Ops() const MR_EXCLUDES(mu_);
  std::vector<const KernelDef*> KernelsOf(std::string_view op) const MR_EXCLUDES(mu_);

  // The one that RegisterBuiltins() fills.
  static KernelRegistry& Global();

 private:
  struct Entry {
    KernelDef def;
    KernelFactory factory;
  };
  StatusOr<const Entry*> FindEntry(std::string_view device_type, const NodeProps& props) const
      MR_REQUIRES_SHARED(mu_);
  mutable SharedMutex mu_;
  std::unordered_map<std::string, std::vector<std::unique_ptr<Entry>>, StringHash, std::equal_to<>> by_op_
      MR_GUARDED_BY(mu_);
};

}  // namespace millrace
