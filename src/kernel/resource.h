// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <typeinfo>
#include <unordered_map>
#include <utility>

#include "base/function.h"
#include "base/hash.h"
#include "base/mutex.h"
#include "millrace/ref.h"
#include "millrace/status.h"
#include "millrace/tensor.h"
#include "tensor/resource_handle.h"

namespace millrace {

class FunctionCaller;

// State that outlives a step: a variable, a queue, a table. Shared by reference count; ensures its own thread
// safety.
class Resource : public RefCounted {
 public:
  virtual std::string DebugString() const = 0;
  // The caller of its functions, possibly on its own threads; it must outlive the resource. Null: none.
  virtual const FunctionCaller* functions() const { return nullptr; }
};

// Identifies the type of a resource: equal in all processes built from the same sources.
struct ResourceType {
  uint64_t hash = 0;
  std::string name;  // "millrace::Variable"

  template <typename T>
  static const ResourceType& Of() {
    static const ResourceType type = Make(typeid(T));
    return type;
  }

 private:
  static ResourceType Make(const std::type_info& type);
};

// The resources of one device, by container, type and name. Thread-safe. Resources are destroyed outside the
// lock; users hold references, so a resource may be dropped here at any time.
class ResourceManager {
 public:
  static constexpr std::string_view kDefaultContainer = "localhost";

  explicit ResourceManager(std::string device_name);
  ~ResourceManager();
  const std::string& device_name() const { return device_name_; }

  // An empty container means the default one. NotFound "Container c does not exist. (Could not find resource:
  // c/n)" or "Resource <container>/<name>/<type> does not exist."
  template <typename T>
  StatusOr<RefPtr<T>> Lookup(std::string_view container, std::string_view name) const {
    MR_ASSIGN_OR_RETURN(RefPtr<Resource> r, DoLookup(container, ResourceType::Of<T>(), name));
    return RefPtr<T>(static_cast<T*>(r.release()));
  }
  template <typename T>
  Status Create(std::string_view container, std::string_view name, RefPtr<T> resource) {
    return DoCreate(container, ResourceType::Of<T>(), name, std::move(resource));
  }
  // When callers race, one runs `create` and the others wait for it, so it must not wait itself. After an
  // error the next caller tries again.
  template <typename T>
  StatusOr<RefPtr<T>> LookupOrCreate(std::string_view container, std::string_view name,
                                     FunctionRef<StatusOr<RefPtr<T>>()> create) {
    const auto make = [&]() -> StatusOr<RefPtr<Resource>> {
      MR_ASSIGN_OR_RETURN(RefPtr<T> made, create());
      return RefPtr<Resource>(std::move(made));
    };
    MR_ASSIGN_OR_RETURN(RefPtr<Resource> r, DoLookupOrCreate(container, ResourceType::Of<T>(), name, make));
    return RefPtr<T>(static_cast<T*>(r.release()));
  }
  template <typename T>
  Status Delete(std::string_view container, std::string_view name) {
    return DoDelete(container, ResourceType::Of<T>().hash, ResourceType::Of<T>().name, name);
  }
  // Drops everything in `container`, which may be empty.
  void Cleanup(std::string_view container) MR_EXCLUDES(mu_);
  // Drops the resources that call these functions.
  void DropUsersOf(const FunctionCaller& functions);
  void Clear() MR_EXCLUDES(mu_);
  // One line for each resource, sorted.
  std::string DebugString() const MR_EXCLUDES(mu_);
  // Changes whenever a resource is dropped, so that a look-up may be cached while it stays the same.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
  // True if nothing was created here since the last Clear, at the cost of one load.
  bool unused() const { return !used_.load(std::memory_order_acquire); }

  // A handle to resource type T under these names. Lookup by handle checks device and type:
  // InvalidArgument "Trying to access resource x located in device d1 from device d2".
  template <typename T>
  ResourceHandle MakeHandle(std::string_view container, std::string_view name) const {
    return DoMakeHandle(container, ResourceType::Of<T>(), name);
  }
  template <typename T>
  StatusOr<RefPtr<T>> LookupHandle(const ResourceHandle& handle) const {
    MR_RETURN_IF_ERROR(CheckHandle(handle, ResourceType::Of<T>()));
    return Lookup<T>(handle.container, handle.name);
  }
  template <typename T>
  StatusOr<RefPtr<T>> LookupOrCreateHandle(const ResourceHandle& handle,
                                           FunctionRef<StatusOr<RefPtr<T>>()> create) {
    MR_RETURN_IF_ERROR(CheckHandle(handle, ResourceType::Of<T>()));
    return LookupOrCreate<T>(handle.container, handle.name, create);
  }
  // Drops what the handle names, of whatever type.
  Status DeleteHandle(const ResourceHandle& handle);

 private:
  using Key = std::pair<uint64_t, std::string>;  // hash of the type, name
  using KeyView = std::pair<uint64_t, std::string_view>;
  struct KeyHash {  // look-ups without a copy of the name
    using is_transparent = void;
    size_t operator()(const KeyView& key) const { return Hash64(key.second, key.first); }
    size_t operator()(const Key& key) const { return (*this)(KeyView(key)); }
  };
  struct KeyEqual {
    using is_transparent = void;
    bool operator()(const KeyView& a, const KeyView& b) const { return a == b; }
  };
  struct Entry {
    RefPtr<Resource> resource;
    std::string_view type_name;  // ResourceType::name, which lives for ever
  };
  using Container = std::unordered_map<Key, Entry, KeyHash, KeyEqual>;
  using Containers = std::unordered_map<std::string, Container, StringHash, std::equal_to<>>;
  StatusOr<RefPtr<Resource>> DoLookup(std::string_view container, const ResourceType& type,
                                      std::string_view name) const MR_EXCLUDES(mu_);
  StatusOr<RefPtr<Resource>> DoLookupOrCreate(std::string_view container, const ResourceType& type,
                                              std::string_view name,
                                              FunctionRef<StatusOr<RefPtr<Resource>>()> create)
      MR_EXCLUDES(mu_, create_mu_);
  Status DoCreate(std::string_view container, const ResourceType& type, std::string_view name,
                  RefPtr<Resource> resource) MR_EXCLUDES(mu_);
  Status DoDelete(std::string_view container, uint64_t type_hash, std::string_view type_name,
                  std::string_view name) MR_EXCLUDES(mu_);
  ResourceHandle DoMakeHandle(std::string_view container, const ResourceType& type,
                              std::string_view name) const;
  Status CheckDevice(const ResourceHandle& handle) const;
  Status CheckHandle(const ResourceHandle& handle, const ResourceType& type) const;

  const std::string device_name_;
  std::atomic<uint64_t> generation_{0};  // raised, by release, after the resource is gone from the tables
  std::atomic<bool> used_{false};        // written under mu_
  mutable SharedMutex mu_;
  Containers containers_ MR_GUARDED_BY(mu_);
  Mutex create_mu_;
  CondVar created_;
  std::set<std::pair<std::string, Key>> creating_ MR_GUARDED_BY(create_mu_);
};

// The tensor of a variable, of either kind. A reference variable provides `tensor()` and `mu()`; a resource
// variable is read by copying the tensor under the lock; writers copy a buffer that others refer to first.
class Variable : public Resource {
 public:
  explicit Variable(DataType dtype);
  ~Variable() override;
  Mutex& mu() { return mu_; }
  // Guarded by mu(), except in the documented racy reads of reference variables.
  Tensor& tensor() { return tensor_; }
  bool is_initialized = false;  // Guarded by mu().
  std::string DebugString() const override;

 private:
  Mutex mu_;
  Tensor tensor_;
};

}  // namespace millrace
