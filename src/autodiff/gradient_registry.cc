// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "autodiff/gradient_registry.h"

#include <algorithm>

namespace millrace {

Status GradientRegistry::Insert(std::string_view op, Entry entry) {
  const WriterLock lock(mu_);
  const auto [it, is_new] = entries_.try_emplace(std::string(op), entry);
  if (!is_new && it->second.fn != entry.fn) {
    return errors::AlreadyExists("Gradient for op '", op, "' is already registered");
  }
  return Status();
}

Status GradientRegistry::Register(std::string_view op, GradientFn fn) {
  if (fn == nullptr) return errors::InvalidArgument("Gradient for op '", op, "' is null");
  return Insert(op, Entry{fn});
}

Status GradientRegistry::RegisterNotDifferentiable(std::string_view op) { return Insert(op, Entry{}); }

StatusOr<const GradientRegistry::Entry*> GradientRegistry::LookUp(std::string_view op) const {
  const ReaderLock lock(mu_);
  const auto it = entries_.find(op);
  if (it == entries_.end()) return errors::NotFound("No gradient defined for op: ", op);
  return &it->second;
}

std::vector<std::string> GradientRegistry::Ops() const {
  std::vector<std::string> names;
  {
    const ReaderLock lock(mu_);
    for (const auto& [name, entry] : entries_) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

GradientRegistry& GradientRegistry::Global() {
  static auto* const registry = new GradientRegistry;
  return *registry;
}

}  // namespace millrace
