// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "millrace/status.h"
#include "op/op_builder.h"

namespace millrace {

// Looks an op up by name; function libraries put themselves in front of a registry.
class OpLookup {
 public:
  virtual ~OpLookup() = default;
  // NotFound "Op type not registered 'X' in binary running on …". The result lives as long as the registry.
  virtual StatusOr<const OpRegistration*> LookUp(std::string_view name) const = 0;
};

// Thread-safe. Entries are never removed.
class OpRegistry : public OpLookup {
 public:
  // AlreadyExists for another registration under the same name; the same one twice is fine.
  Status Register(const OpBuilder& builder) MR_EXCLUDES(mu_);
  StatusOr<const OpRegistration*> LookUp(std::string_view name) const override MR_EXCLUDES(mu_);
  // Sorted by name.
  std::vector<const OpRegistration*> All() const MR_EXCLUDES(mu_);

  // The one that RegisterBuiltins() fills.
  static OpRegistry& Global();

 private:
  mutable SharedMutex mu_;
  std::unordered_map<std::string, std::unique_ptr<OpRegistration>> ops_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace
