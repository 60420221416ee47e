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

// The nodes that a kernel implements: KernelDef("MatMul").Device("CPU").Type<float>("T").
class KernelDef {
 public:
  explicit KernelDef(std::string_view op);
  KernelDef(const KernelDef& o);
  KernelDef(KernelDef&& o) noexcept;
  KernelDef& operator=(const KernelDef& o);
  KernelDef& operator=(KernelDef&& o) noexcept;
  ~KernelDef();
  KernelDef& Device(std::string_view type);
  KernelDef& Type(std::string_view attr, DataType dtype);
  KernelDef& Types(std::string_view attr, std::vector<DataType> allowed);
  template <typename T>
  KernelDef& Type(std::string_view attr) {
    return Type(attr, kDataTypeOf<T>);
  }
  // On a device with memory of its own this argument, an input or output of the op by name, is in host
  // memory.
  KernelDef& HostMemory(std::string_view arg);
  KernelDef& Priority(int priority);
  KernelDef& Label(std::string_view label);  // matches attr _kernel
  // Uses the kernel of another device type for the node. It must not access elements that are not in host
  // memory here.
  KernelDef& SameAs(std::string_view type);
  // Declares that the kernel may wait without blocking a thread.
  KernelDef& Async(bool is_async = true);

  const std::string& op() const { return op_; }
  const std::string& device_type() const { return device_type_; }
  const std::vector<std::string>& host_memory_args() const { return host_memory_args_; }
  int priority() const { return priority_; }
  const std::string& label() const { return label_; }
  const std::string& same_as() const { return same_as_; }  // "": a kernel of its own
  bool is_async() const { return is_async_; }
  // True when the attributes satisfy all constraints; an attr may be a type or a list of types.
  bool Matches(const AttrMap& attrs) const;
  std::string ToString() const;

 private:
  std::string op_;
  std::string device_type_ = "CPU";
  std::vector<std::pair<std::string, std::vector<DataType>>> constraints_;
  std::vector<std::string> host_memory_args_;
  std::string label_;
  std::string same_as_;
  int priority_ = 0;
  bool is_async_ = false;
};

using KernelFactory = std::function<std::unique_ptr<OpKernel>(KernelConstruction&)>;

// Kernels by op and device type. Thread-safe.
class KernelRegistry {
 public:
  KernelRegistry();
  ~KernelRegistry();
  void Register(KernelDef def, KernelFactory factory) MR_EXCLUDES(mu_);
  template <typename K>
  void Register(KernelDef def) {
    RegisterClass(std::move(def), std::is_base_of_v<AsyncOpKernel, K>,
                  [](KernelConstruction& c) -> std::unique_ptr<OpKernel> { return std::make_unique<K>(c); });
  }
  // A kernel that is the same as another device type's.
  void RegisterSame(KernelDef def) { Register(std::move(def), nullptr); }
  // The matching kernel of highest priority. NotFound "No registered 'X' OpKernel for CPU devices compatible
  // with node …" lists the existing ones.
  StatusOr<const KernelDef*> Find(std::string_view device_type, const NodeProps& props) const
      MR_EXCLUDES(mu_);
  // The memory types of its inputs and outputs on a device with memory of its own.
  StatusOr<KernelMemory> MemoryOf(std::string_view device_type, const NodeProps& props) const
      MR_EXCLUDES(mu_);
  StatusOr<std::unique_ptr<OpKernel>> Create(std::string_view device_type,
                                             KernelConstruction& construction) const MR_EXCLUDES(mu_);
  bool HasKernel(std::string_view device_type, const NodeProps& props) const {
    return Find(device_type, props).ok();
  }
  // Ops that have at least one kernel, sorted; and the definitions of one op.
  std::vector<std::string> Ops() const MR_EXCLUDES(mu_);
  std::vector<const KernelDef*> KernelsOf(std::string_view op) const MR_EXCLUDES(mu_);

  // The registry that RegisterBuiltins() fills.
  static KernelRegistry& Global();

 private:
  struct Entry {
    KernelDef def;
    KernelFactory factory;  // empty: see KernelDef::SameAs
  };
  void RegisterClass(KernelDef def, bool is_async, std::unique_ptr<OpKernel> (*make)(KernelConstruction&));
  StatusOr<const Entry*> FindEntry(std::string_view device_type, const NodeProps& props) const
      MR_REQUIRES_SHARED(mu_);
  using Entries = std::vector<std::unique_ptr<Entry>>;
  // The best one of that type; null if there is none, with *mismatch set when attributes are the reason. With
  // `own` only kernels that are not another type's.
  static const Entry* FindBest(const Entries& entries, std::string_view device_type, const NodeProps& props,
                               bool own, bool* mismatch);
  // The factory of that kernel, or of the one that it reuses.
  static const KernelFactory& FactoryOf(const Entries& entries, const Entry& entry, const NodeProps& props);
  mutable SharedMutex mu_;
  std::unordered_map<std::string, std::vector<std::unique_ptr<Entry>>, StringHash, std::equal_to<>> by_op_
      MR_GUARDED_BY(mu_);
};

}  // namespace millrace
