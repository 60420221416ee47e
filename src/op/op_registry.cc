// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "op/op_registry.h"

#include <algorithm>

namespace millrace {

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
  {
    ReaderLock lock(mu_);
    const auto it = ops_.find(name);
    if (it != ops_.end()) return it->second.get();
  }
  return errors::NotFound(
      "Op type not registered '", name,
      "' in binary. Make sure the Op and Kernel are registered in the binary running in this "
      "process.");
}

std::vector<const OpRegistration*> OpRegistry::All() const {
  std::vector<const OpRegistration*> all;
  {
    ReaderLock lock(mu_);
    all.reserve(ops_.size());
    for (const auto& [name, registration] : ops_) all.push_back(registration.get());
  }
  std::ranges::sort(all, {}, [](const OpRegistration* r) { return std::string_view(r->def.name); });
  return all;
}

OpRegistry& OpRegistry::Global() {
  static OpRegistry* const registry =
      new OpRegistry;  // never destroyed: threads may look ops up until the end
  return *registry;
}

}  // namespace millrace
