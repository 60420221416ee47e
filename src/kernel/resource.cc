// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernel/resource.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace millrace {
namespace {

std::string_view OrDefault(std::string_view container) {
  return container.empty() ? ResourceManager::kDefaultContainer : container;
}

Status NoSuchContainer(std::string_view container, std::string_view name) {
  return errors::NotFound("Container ", container, " does not exist. (Could not find resource: ", container,
                          "/", name, ")");
}

Status NoSuchResource(std::string_view container, std::string_view name, std::string_view type) {
  return errors::NotFound("Resource ", container, "/", name, "/", type, " does not exist.");
}

}  // namespace

ResourceType ResourceType::Make(const std::type_info& type) {
  int error = 0;
  char* name = abi::__cxa_demangle(type.name(), nullptr, nullptr, &error);
  ResourceType made;
  made.hash = Hash64(type.name());
  made.name = error == 0 && name != nullptr ? name : type.name();
  std::free(name);
  return made;
}

ResourceManager::ResourceManager(std::string device_name) : device_name_(std::move(device_name)) {}
ResourceManager::~ResourceManager() = default;

Variable::Variable(DataType dtype) : tensor_(dtype, TensorShape({0})) {}
Variable::~Variable() = default;

StatusOr<RefPtr<Resource>> ResourceManager::DoLookup(std::string_view container, const ResourceType& type,
                                                     std::string_view name) const {
  container = OrDefault(container);
  {
    ReaderLock lock(mu_);
    const auto c = containers_.find(container);
    if (c == containers_.end()) return NoSuchContainer(container, name);
    if (const auto r = c->second.find(KeyView(type.hash, name)); r != c->second.end())
      return r->second.resource;
  }
  return NoSuchResource(container, name, type.name);
}

StatusOr<RefPtr<Resource>> ResourceManager::DoLookupOrCreate(
    std::string_view container, const ResourceType& type, std::string_view name,
    FunctionRef<StatusOr<RefPtr<Resource>>()> create) {
  if (auto found = DoLookup(container, type, name); found.ok()) return found;
  const std::pair<std::string, Key> place(OrDefault(container), Key(type.hash, name));
  {
    MutexLock lock(create_mu_);
    while (!creating_.insert(place).second) created_.Wait(create_mu_);
  }
  // Another caller may have created it before this one took the lock; Create() may still run in between.
  StatusOr<RefPtr<Resource>> result = DoLookup(container, type, name);
  if (!result.ok()) {
    result = create();
    if (result.ok() && !DoCreate(container, type, name, *result).ok()) {
      result = DoLookup(container, type, name);
    }
  }
  MutexLock lock(create_mu_);
  creating_.erase(place);
  created_.NotifyAll();
  return result;
}

Status ResourceManager::DoCreate(std::string_view container, const ResourceType& type, std::string_view name,
                                 RefPtr<Resource> resource) {
  container = OrDefault(container);
  {
    WriterLock lock(mu_);
    used_.store(true, std::memory_order_release);
    auto c = containers_.find(container);
    if (c == containers_.end()) c = containers_.emplace(std::string(container), Container()).first;
    // On a conflict `resource` is unchanged and is destroyed after the lock is released.
    const auto [at, added] = c->second.try_emplace(Key(type.hash, std::string(name)));
    if (added) {
      at->second = {std::move(resource), type.name};
      return Status();
    }
  }
  return errors::AlreadyExists("Resource ", container, "/", name, "/", type.name);
}

Status ResourceManager::DoDelete(std::string_view container, uint64_t type_hash, std::string_view type_name,
                                 std::string_view name) {
  container = OrDefault(container);
  RefPtr<Resource> dropped;  // destroyed after the lock is released
  {
    WriterLock lock(mu_);
    const auto c = containers_.find(container);
    if (c == containers_.end()) return NoSuchContainer(container, name);
    if (const auto r = c->second.find(KeyView(type_hash, name)); r != c->second.end()) {
      dropped = std::move(r->second.resource);
      c->second.erase(r);
      generation_.fetch_add(1, std::memory_order_release);
      return Status();
    }
  }
  return NoSuchResource(container, name, type_name);
}

void ResourceManager::Cleanup(std::string_view container) {
  Container dropped;
  WriterLock lock(mu_);
  if (const auto c = containers_.find(OrDefault(container)); c != containers_.end()) {
    dropped = std::move(c->second);
    containers_.erase(c);
    generation_.fetch_add(1, std::memory_order_release);
  }
}

void ResourceManager::Clear() {
  Containers dropped;
  WriterLock lock(mu_);
  dropped.swap(containers_);
  used_.store(false, std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_release);
}

void ResourceManager::DropUsersOf(const FunctionCaller& functions) {
  if (unused()) return;
  std::vector<RefPtr<Resource>> all;
  {
    ReaderLock lock(mu_);
    for (const auto& [container, resources] : containers_) {
      for (const auto& [key, entry] : resources) all.push_back(entry.resource);
    }
  }
  // Methods and destructors of resources are called without the lock.
  std::erase_if(all, [&](const RefPtr<Resource>& resource) { return resource->functions() != &functions; });
  if (all.empty()) return;
  WriterLock lock(mu_);
  for (auto& [container, resources] : containers_) {
    std::erase_if(resources, [&](const auto& item) {
      return std::find(all.begin(), all.end(), item.second.resource) != all.end();
    });
  }
  generation_.fetch_add(1, std::memory_order_release);
}

std::string ResourceManager::DebugString() const {
  // References, so that resources describe themselves without the lock.
  std::vector<std::pair<std::string, RefPtr<Resource>>> all;
  {
    ReaderLock lock(mu_);
    for (const auto& [container, resources] : containers_) {
      for (const auto& [key, entry] : resources) {
        all.emplace_back(StrCat(container, " | ", entry.type_name, " | ", key.second), entry.resource);
      }
    }
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string out;
  for (const auto& [name, resource] : all) out += StrCat(name, " | ", resource->DebugString(), "\n");
  return out;
}

ResourceHandle ResourceManager::DoMakeHandle(std::string_view container, const ResourceType& type,
                                             std::string_view name) const {
  ResourceHandle handle;
  handle.device = device_name_;
  handle.container = OrDefault(container);
  handle.name = name;
  handle.maybe_type_name = type.name;
  handle.hash_code = type.hash;
  return handle;
}

Status ResourceManager::CheckDevice(const ResourceHandle& handle) const {
  if (handle.device == device_name_) return Status();
  return errors::InvalidArgument("Trying to access resource ", handle.name, " located in device ",
                                 handle.device, " from device ", device_name_);
}

Status ResourceManager::CheckHandle(const ResourceHandle& handle, const ResourceType& type) const {
  MR_RETURN_IF_ERROR(CheckDevice(handle));
  if (handle.hash_code == type.hash) return Status();
  return errors::InvalidArgument("Trying to access resource using the wrong type. Expected ", type.name,
                                 " got ", handle.maybe_type_name);
}

Status ResourceManager::DeleteHandle(const ResourceHandle& handle) {
  MR_RETURN_IF_ERROR(CheckDevice(handle));
  return DoDelete(handle.container, handle.hash_code, handle.maybe_type_name, handle.name);
}

std::string Variable::DebugString() const {
  return StrCat(DataTypeName(tensor_.dtype()), "/", tensor_.shape().ToString());
}

}  // namespace millrace
