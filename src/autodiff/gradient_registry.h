// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "millrace/status.h"

namespace millrace {

class GradientContext;
// Adds the nodes that compute the gradients of a node's inputs and names them with SetInputGrad.
using GradientFn = Status (*)(GradientContext&);

// The gradient of each op, or the fact that it has none. Thread-safe; entries are never removed.
class GradientRegistry {
 public:
  struct Entry {
    GradientFn fn = nullptr;  // null: not differentiable, gradients end here
  };

  // AlreadyExists when `op` has another entry; the same one twice is fine.
  Status Register(std::string_view op, GradientFn fn) MR_EXCLUDES(mu_);
  // Says that the outputs do not depend on the inputs in a way that can be differentiated.
  Status RegisterNotDifferentiable(std::string_view op) MR_EXCLUDES(mu_);
  // NotFound "No gradient defined for op: X". The entry lives as long as the registry.
  StatusOr<const Entry*> LookUp(std::string_view op) const MR_EXCLUDES(mu_);
  // Names of the ops that have an entry, sorted.
  std::vector<std::string> Ops() const MR_EXCLUDES(mu_);

  // The one that RegisterBuiltins() fills.
  static GradientRegistry& Global();

 private:
  Status Insert(std::string_view op, Entry entry) MR_EXCLUDES(mu_);

  struct NameHash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
  };

  mutable SharedMutex mu_;
  std::unordered_map<std::string, Entry, NameHash, std::equal_to<>> entries_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace
