// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "millrace/status.h"
#include "op/op_builder.h"

namespace millrace {

// Looks up an op by name; function libraries precede the registry.
class OpLookup {
 public:
  virtual ~OpLookup() = default;
  // NotFound "Op type not registered 'X' in binary. Make sure …". The result lives as long as the registry.
  virtual StatusOr<const OpRegistration*> LookUp(std::string_view name) const = 0;
};

// Thread-safe. Entries are never removed.
class OpRegistry : public OpLookup {
 public:
  // AlreadyExists for a different registration under the same name; an equal one is allowed.
  Status Register(const OpBuilder& builder) MR_EXCLUDES(mu_);
  Status Register(OpRegistration registration) MR_EXCLUDES(mu_);  // REQUIRES: ValidateOpDef holds
  StatusOr<const OpRegistration*> LookUp(std::string_view name) const override MR_EXCLUDES(mu_);
  // Sorted by name.
  std::vector<const OpRegistration*> All() const MR_EXCLUDES(mu_);

  // Declares ops that have no kernels here, so that graphs with them can be loaded, shown and rewritten.
  // `table` (op_table.h) must live as long; it is read when an unregistered name is first looked up. A
  // registration precedes a declaration of the same name.
  void Declare(std::string_view table) MR_EXCLUDES(mu_);
  // The declared ops that are not registered, sorted by name.
  std::vector<const OpRegistration*> Declared() const MR_EXCLUDES(mu_);

  // The registry that RegisterBuiltins() fills.
  static OpRegistry& Global();

 private:
  struct NameHash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
  };

  using Ops = std::unordered_map<std::string, std::unique_ptr<OpRegistration>, NameHash, std::equal_to<>>;

  void ReadDeclarations() const MR_EXCLUDES(mu_);

  mutable SharedMutex mu_;
  Ops ops_ MR_GUARDED_BY(mu_);
  mutable Ops declared_ MR_GUARDED_BY(mu_);
  mutable std::vector<std::string_view> unread_tables_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace
