// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "autodiff/gradient_registry.h"

#include <algorithm>
#include <utility>

#include "graph/function_gradient.h"
#include "graph/function_library.h"
#include "graph/graph.h"
#include "op/attr_value.h"
#include "op/op_registry.h"

namespace millrace {
namespace {

// Before the name of a function: an entry that makes its gradient when it is first needed.
constexpr std::string_view kMadeGradient = "SymbolicGradient:";

// What the attributes of a node name, or the node itself.
std::vector<NameAttrList> FunctionsOf(const Node& node) {
  std::vector<NameAttrList> functions;
  if (node.graph().functions().Find(node.op_name()) != nullptr)
    functions.push_back({node.op_name(), nullptr});
  for (const auto& [name, value] : node.attrs()) {
    if (const auto* f = value.As<NameAttrList>(); f != nullptr) functions.push_back(*f);
    if (const auto* list = value.As<std::vector<NameAttrList>>(); list != nullptr)
      functions.insert(functions.end(), list->begin(), list->end());
  }
  return functions;
}

using PlainFunction = Status (*)(GradientContext&);

bool AreSame(const GradientFn& a, const GradientFn& b) {
  if (!a || !b) return !a && !b;
  const PlainFunction* first = a.target<PlainFunction>();
  const PlainFunction* second = b.target<PlainFunction>();
  return first != nullptr && second != nullptr && *first == *second;
}

}  // namespace

Status GradientRegistry::Insert(std::string_view name, Entry entry) {
  const WriterLock lock(mu_);
  const auto it = entries_.find(name);
  if (it == entries_.end()) {
    entries_.emplace(std::string(name), std::move(entry));
    return Status();
  }
  if (AreSame(it->second.fn, entry.fn)) return Status();
  return errors::AlreadyExists("Gradient for op '", name, "' is already registered");
}

Status GradientRegistry::Register(std::string_view name, GradientFn fn) {
  if (fn == nullptr) return errors::InvalidArgument("Gradient for op '", name, "' is null");
  return Insert(name, Entry{std::move(fn)});
}

Status GradientRegistry::RegisterNotDifferentiable(std::string_view name) { return Insert(name, Entry{}); }

Status GradientRegistry::RegisterNotDifferentiable(const OpRegistry& ops) {
  for (const OpRegistration* op : ops.All()) {
    if (op->traits.not_differentiable) MR_RETURN_IF_ERROR(RegisterNotDifferentiable(op->def.name));
  }
  return Status();
}

const GradientRegistry::Entry* GradientRegistry::Find(std::string_view name) const {
  {
    const ReaderLock lock(mu_);
    const auto it = entries_.find(name);
    if (it != entries_.end()) return &it->second;
  }
  return parent_ != nullptr ? parent_->Find(name) : nullptr;
}

StatusOr<const GradientRegistry::Entry*> GradientRegistry::LookUp(std::string_view name) const {
  const Entry* entry = Find(name);
  if (entry == nullptr) return errors::NotFound("No gradient defined for op: ", name);
  return entry;
}

StatusOr<const GradientRegistry::Entry*> GradientRegistry::LookUpFor(const Node& node) const {
  if (node.attrs().Find("_gradient_op_type") != nullptr) {
    MR_ASSIGN_OR_RETURN(const std::string name, node.Attr<std::string>("_gradient_op_type"));
    return LookUp(name);
  }
  const Entry* const entry = Find(node.op_name());
  if (node.graph().functions().empty() && entry != nullptr) return entry;
  const bool by_name = node.graph().functions().Find(node.op_name()) != nullptr;
  if (by_name && entry != nullptr) return entry;
  for (const NameAttrList& f : FunctionsOf(node)) {
    const NameAttrList of = RegisteredFunction(node.graph().functions(), f);
    if (!node.graph().functions().FindGradient(of.name).empty()) continue;
    if (const Entry* made = Find(StrCat(kMadeGradient, of.name)); made != nullptr) return made;
  }
  if (entry != nullptr) return entry;
  if (node.graph().functions().Find(node.op_name()) != nullptr) return LookUp("PartitionedCall");
  return LookUp(node.op_name());
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
