// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "millrace/ref.h"
#include "millrace/status.h"
#include "millrace/tensor.h"
#include "tensor/resource_handle.h"

namespace millrace {

// State that outlives a step: a variable, a queue, a table. Shared by reference count; thread-safe by its own
// means.
class Resource : public RefCounted {
 public:
  virtual std::string DebugString() const = 0;
};

// The resources of one device, by container, type and name. Thread-safe. Resources are destroyed outside the
// lock.
class ResourceManager {
 public:
  static constexpr std::string_view kDefaultContainer = "localhost";

  explicit ResourceManager(std::string device_name) : device_name_(std::move(device_name)) {}
  const std::string& device_name() const { return device_name_; }

  // An empty container means the default one. NotFound "Resource <container>/<name>/<type> does not exist."
  template <typename T>
  StatusOr<RefPtr<T>> Lookup(std::string_view container, std::string_view name) const {
    MR_ASSIGN_OR_RETURN(RefPtr<Resource> r, DoLookup(container, typeid(T), name));
    return RefPtr<T>(static_cast<T*>(r.release()));
  }
  template <typename T>
  Status Create(std::string_view container, std::string_view name, RefPtr<T> resource) {
    return DoCreate(container, typeid(T), name, std::move(resource));
  }
  // `create` may run more than once when callers race; all of them get the same resource.
  template <typename T>
  StatusOr<RefPtr<T>> LookupOrCreate(std::string_view container, std::string_view name,
                                     const std::function<StatusOr<RefPtr<T>>()>& create) {
    while (true) {
      if (auto found = Lookup<T>(container, name); found.ok()) return found;
      MR_ASSIGN_OR_RETURN(RefPtr<T> made, create());
      Status created = Create<T>(container, name, made);
      if (created.ok()) return made;
      if (!errors::IsAlreadyExists(created)) return created;
    }
  }
  template <typename T>
  Status Delete(std::string_view container, std::string_view name) {
    return DoDelete(container, typeid(T), name);
  }
  // Drops everything in `container`; fine when there is nothing.
  void Cleanup(std::string_view container) MR_EXCLUDES(mu_);
  void Clear() MR_EXCLUDES(mu_);
  std::string DebugString() const MR_EXCLUDES(mu_);
  // Changes whenever a resource is dropped, so that a look-up may be cached as long as it stays the same.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

  // A handle to resource type T under these names. Lookup by handle checks device and type:
  // InvalidArgument "Trying to access resource x located in device d1 from device d2".
  template <typename T>
  ResourceHandle MakeHandle(std::string_view container, std::string_view name) const {
    return DoMakeHandle(container, typeid(T), name);
  }
  template <typename T>
  StatusOr<RefPtr<T>> LookupHandle(const ResourceHandle& handle) const {
    MR_RETURN_IF_ERROR(CheckHandle(handle, typeid(T)));
    return Lookup<T>(handle.container, handle.name);
  }
  template <typename T>
  StatusOr<RefPtr<T>> LookupOrCreateHandle(const ResourceHandle& handle,
                                           const std::function<StatusOr<RefPtr<T>>()>& create) {
    MR_RETURN_IF_ERROR(CheckHandle(handle, typeid(T)));
    return LookupOrCreate<T>(handle.container, handle.name, create);
  }
  template <typename T>
  Status DeleteHandle(const ResourceHandle& handle) {
    MR_RETURN_IF_ERROR(CheckHandle(handle, typeid(T)));
    return Delete<T>(handle.container, handle.name);
  }

 private:
  using Key = std::pair<std::type_index, std::string>;
  using KeyView = std::pair<std::type_index, std::string_view>;
  struct KeyLess {  // lets a look-up go without a copy of the name
    using is_transparent = void;
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      if (a.first != b.first) return a.first < b.first;
      return std::string_view(a.second) < std::string_view(b.second);
    }
  };
  using Container = std::map<Key, RefPtr<Resource>, KeyLess>;
  StatusOr<RefPtr<Resource>> DoLookup(std::string_view container, std::type_index type,
                                      std::string_view name) const MR_EXCLUDES(mu_);
  Status DoCreate(std::string_view container, std::type_index type, std::string_view name,
                  RefPtr<Resource> resource) MR_EXCLUDES(mu_);
  Status DoDelete(std::string_view container, std::type_index type, std::string_view name) MR_EXCLUDES(mu_);
  ResourceHandle DoMakeHandle(std::string_view container, std::type_index type, std::string_view name) const;
  Status CheckHandle(const ResourceHandle& handle, std::type_index type) const;

  const std::string device_name_;
  std::atomic<uint64_t> generation_{0};  // raised, by release, after the resource is gone from the tables
  mutable SharedMutex mu_;
  std::map<std::string, Container, std::less<>> containers_ MR_GUARDED_BY(mu_);
};

// The tensor behind a variable, of either kind. A reference variable hands out `tensor()` and `mu()`; a
// resource variable is read by copying the tensor under the lock and written through CopyOnWrite.
class Variable : public Resource {
 public:
  explicit Variable(DataType dtype) : tensor_(dtype, TensorShape({0})) {}
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
