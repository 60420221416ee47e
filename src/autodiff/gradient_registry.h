// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "millrace/status.h"

namespace millrace {

class GradientContext;
class Node;
class OpRegistry;
// Adds the nodes that compute the gradients of a node's inputs and passes them to SetInputGrad. May be called
// by several threads at once, for different graphs.
using GradientFn = std::function<Status(GradientContext&)>;

// The gradient of each op, or the fact that it has none. Names are those of ops, or values of the attribute
// "_gradient_op_type" of nodes. Thread-safe; entries are never removed.
class GradientRegistry {
 public:
  struct Entry {
    GradientFn fn;  // empty: not differentiable, gradients end here
  };

  // Ops without an entry here are looked up in `parent` (null: none), which must outlive this.
  explicit GradientRegistry(const GradientRegistry* parent = nullptr) : parent_(parent) {}
  GradientRegistry(const GradientRegistry&) = delete;
  GradientRegistry& operator=(const GradientRegistry&) = delete;

  // AlreadyExists when `name` has another entry here; registering the same plain function again is allowed.
  Status Register(std::string_view name, GradientFn fn) MR_EXCLUDES(mu_);
  // Declares that the outputs do not depend differentiably on the inputs.
  Status RegisterNotDifferentiable(std::string_view name) MR_EXCLUDES(mu_);
  // The same for all ops in `ops` whose record has the mark (OpTraits::not_differentiable).
  Status RegisterNotDifferentiable(const OpRegistry& ops) MR_EXCLUDES(mu_);
  // NotFound "No gradient defined for op: X". The entry lives as long as the registry and its parents.
  StatusOr<const Entry*> LookUp(std::string_view name) const MR_EXCLUDES(mu_);
  // The entry for a node: by its attribute "_gradient_op_type", or by its op. A node that calls a function by
  // its name has the gradient of a call.
  StatusOr<const Entry*> LookUpFor(const Node& node) const MR_EXCLUDES(mu_);
  // Names that have an entry here, sorted.
  std::vector<std::string> Ops() const MR_EXCLUDES(mu_);

  // The registry that RegisterBuiltins() fills.
  static GradientRegistry& Global();

 private:
  Status Insert(std::string_view name, Entry entry) MR_EXCLUDES(mu_);
  const Entry* Find(std::string_view name) const MR_EXCLUDES(mu_);

  struct NameHash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
  };

  const GradientRegistry* const parent_;
  mutable SharedMutex mu_;
  std::unordered_map<std::string, Entry, NameHash, std::equal_to<>> entries_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace
