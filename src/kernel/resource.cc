// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernel/resource.h"

#include <cxxabi.h>

#include <cstdlib>
#include <utility>

#include "base/hash.h"

namespace millrace {
namespace {

// The C++ name of a type, "millrace::Variable"; the mangled one when it can't be had.
std::string TypeName(std::type_index type) {
  int error = 0;
  char* name = abi::__cxa_demangle(type.name(), nullptr, nullptr, &error);
  std::string out = error == 0 && name != nullptr ? name : type.name();
  std::free(name);
  return out;
}

// Equal in all processes built from the same sources.
uint64_t TypeHash(std::type_index type) { return Hash64(type.name()); }

std::string_view OrDefault(std::string_view container) {
  return container.empty() ? ResourceManager::kDefaultContainer : container;
}

}  // namespace

StatusOr<RefPtr<Resource>> ResourceManager::DoLookup(std::string_view container, std::type_index type,
                                                     std::string_view name) const {
  container = OrDefault(container);
  {
    ReaderLock lock(mu_);
    if (const auto c = containers_.find(container); c != containers_.end()) {
      if (const auto r = c->second.find(KeyView(type, name)); r != c->second.end()) return r->second;
    }
  }
  return errors::NotFound("Resource ", container, "/", name, "/", TypeName(type), " does not exist.");
}

Status ResourceManager::DoCreate(std::string_view container, std::type_index type, std::string_view name,
                                 RefPtr<Resource> resource) {
  container = OrDefault(container);
  {
    WriterLock lock(mu_);
    auto c = containers_.find(container);
    if (c == containers_.end()) c = containers_.emplace(std::string(container), Container()).first;
    // On a conflict `resource` stays whole and dies after the lock is gone.
    if (c->second.try_emplace(Key(type, std::string(name)), std::move(resource)).second) return Status();
  }
  return errors::AlreadyExists("Resource ", container, "/", name, "/", TypeName(type));
}

Status ResourceManager::DoDelete(std::string_view container, std::type_index type, std::string_view name) {
  container = OrDefault(container);
  RefPtr<Resource> dropped;  // dies after the lock is gone
  {
    WriterLock lock(mu_);
    if (const auto c = containers_.find(container); c != containers_.end()) {
      if (const auto r = c->second.find(KeyView(type, name)); r != c->second.end()) {
        dropped = std::move(r->second);
        c->second.erase(r);
        generation_.fetch_add(1, std::memory_order_release);
        return Status();
      }
    }
  }
  return errors::NotFound("Resource ", container, "/", name, "/", TypeName(type), " does not exist.");
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
  std::map<std::string, Container, std::less<>> dropped;
  WriterLock lock(mu_);
  dropped.swap(containers_);
  generation_.fetch_add(1, std::memory_order_release);
}

std::string ResourceManager::DebugString() const {
  // References, so that resources describe themselves without the lock.
  std::vector<std::pair<std::string, RefPtr<Resource>>> all;
  {
    ReaderLock lock(mu_);
    for (const auto& [container, resources] : containers_) {
      for (const auto& [key, resource] : resources) {
        all.emplace_back(StrCat(container, " | ", TypeName(key.first), " | ", key.second), resource);
      }
    }
  }
  std::string out;
  for (const auto& [name, resource] : all) out += StrCat(name, " | ", resource->DebugString(), "\n");
  return out;
}

ResourceHandle ResourceManager::DoMakeHandle(std::string_view container, std::type_index type,
                                             std::string_view name) const {
  ResourceHandle handle;
  handle.device = device_name_;
  handle.container = OrDefault(container);
  handle.name = name;
  handle.maybe_type_name = TypeName(type);
  handle.hash_code = TypeHash(type);
  return handle;
}

Status ResourceManager::CheckHandle(const ResourceHandle& handle, std::type_index type) const {
  if (handle.device != device_name_) {
    return errors::InvalidArgument("Trying to access resource ", handle.name, " located in device ",
                                   handle.device, " from device ", device_name_);
  }
  if (handle.hash_code != TypeHash(type)) {
    return errors::InvalidArgument("Trying to access resource using the wrong type. Expected ",
                                   TypeName(type), " got ", handle.maybe_type_name);
  }
  return Status();
}

std::string Variable::DebugString() const {
  return StrCat(DataTypeName(tensor_.dtype()), "/", tensor_.shape().ToString());
}

}  // namespace millrace
