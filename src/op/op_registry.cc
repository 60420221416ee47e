// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "op/op_registry.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/logging.h"
#include "op/op_table.h"

namespace millrace {
namespace {

void SortByName(std::vector<const OpRegistration*>* ops) {
  std::ranges::sort(*ops, {}, [](const OpRegistration* r) { return std::string_view(r->def.name); });
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown";
}

}  // namespace

Status OpRegistry::Register(const OpBuilder& builder) {
  MR_ASSIGN_OR_RETURN(OpRegistration registration, builder.Finalize());
  return Register(std::move(registration));
}

Status OpRegistry::Register(OpRegistration registration) {
  WriterLock lock(mu_);
  std::unique_ptr<OpRegistration>& slot = ops_[registration.def.name];
  if (slot == nullptr) {
    slot = std::make_unique<OpRegistration>(std::move(registration));
    return Status::Ok();
  }
  if (slot->def == registration.def) return Status::Ok();
  return errors::AlreadyExists("Op with name ", registration.def.name,
                               " is registered with another signature: ", SummarizeOp(slot->def), " and ",
                               SummarizeOp(registration.def));
}

StatusOr<const OpRegistration*> OpRegistry::LookUp(std::string_view name) const {
  const auto find = [&]() -> std::optional<const OpRegistration*> {
    ReaderLock lock(mu_);
    for (const Ops* ops : {&ops_, &std::as_const(declared_)}) {
      const auto it = ops->find(name);
      if (it != ops->end()) return it->second.get();
    }
    if (unread_tables_.empty()) return nullptr;
    return std::nullopt;
  };
  std::optional<const OpRegistration*> found = find();
  if (!found.has_value()) {
    ReadDeclarations();
    found = find();
  }
  if (*found != nullptr) return *found;
  return errors::NotFound(
      "Op type not registered '", name, "' in binary running on ", HostName(),
      ". Make sure the Op and Kernel are registered in the binary running in this process. Note that if you "
      "are loading a saved graph which used ops from tf.contrib, accessing (e.g.) `tf.contrib.resampler` "
      "should be done before importing the graph, as contrib ops are lazily registered when the module is "
      "first accessed.");
}

std::vector<const OpRegistration*> OpRegistry::All() const {
  std::vector<const OpRegistration*> all;
  {
    ReaderLock lock(mu_);
    all.reserve(ops_.size());
    for (const auto& [name, registration] : ops_) all.push_back(registration.get());
  }
  SortByName(&all);
  return all;
}

void OpRegistry::Declare(std::string_view table) {
  WriterLock lock(mu_);
  unread_tables_.push_back(table);
}

void OpRegistry::ReadDeclarations() const {
  WriterLock lock(mu_);
  for (const std::string_view table : std::exchange(unread_tables_, {})) {
    StatusOr<std::vector<OpRegistration>> ops = ParseOpTable(table);
    MR_CHECK(ops.ok());  // tables are part of the program
    for (OpRegistration& op : *ops) {
      std::string name = op.def.name;
      declared_.try_emplace(std::move(name), std::make_unique<OpRegistration>(std::move(op)));
    }
  }
}

std::vector<const OpRegistration*> OpRegistry::Declared() const {
  ReadDeclarations();
  std::vector<const OpRegistration*> declared;
  {
    ReaderLock lock(mu_);
    for (const auto& [name, registration] : declared_) {
      if (!ops_.contains(name)) declared.push_back(registration.get());
    }
  }
  SortByName(&declared);
  return declared;
}

OpRegistry& OpRegistry::Global() {
  static OpRegistry* const registry =
      new OpRegistry;  // never destroyed: threads may look ops up until the end
  return *registry;
}

}  // namespace millrace
