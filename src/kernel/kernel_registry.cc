// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernel/kernel_registry.h"

#include <algorithm>
#include <utility>

#include "op/op_def.h"
#include "tensor/dtype_table.h"

namespace millrace {
namespace {

bool Allows(const std::vector<DataType>& allowed, DataType dtype) {
  return std::find(allowed.begin(), allowed.end(), dtype) != allowed.end();
}

bool MatchesType(const AttrValue* value, const std::vector<DataType>& allowed) {
  if (value == nullptr) return false;
  if (const auto* one = value->As<DataType>(); one != nullptr) return Allows(allowed, *one);
  if (const auto* many = value->As<std::vector<DataType>>(); many != nullptr) {
    return std::all_of(many->begin(), many->end(), [&](DataType t) { return Allows(allowed, t); });
  }
  return value->As<EmptyList>() != nullptr;
}

// Whether each flat input (or output) is in host memory: `names` are the arguments that are.
Status FindHostMemory(const std::vector<ArgDef>& args, const AttrMap& attrs,
                      const std::vector<std::string>& names, const std::vector<DataType>& types,
                      std::vector<bool>* on_host) {
  std::vector<ArgRange> ranges;
  MR_RETURN_IF_ERROR(InferArgRanges(args, attrs, &ranges));
  on_host->resize(types.size());
  for (size_t i = 0; i < types.size(); ++i) (*on_host)[i] = OwnsMemory(BaseType(types[i]));
  for (const ArgRange& range : ranges) {
    if (std::find(names.begin(), names.end(), range.name) == names.end()) continue;
    for (int i = range.begin; i < range.end; ++i) (*on_host)[static_cast<size_t>(i)] = true;
  }
  return Status();
}

Status CheckHostMemoryArgs(const OpDef& op, const std::vector<std::string>& names) {
  const auto has = [](const std::vector<ArgDef>& args, const std::string& name) {
    return std::any_of(args.begin(), args.end(), [&](const ArgDef& arg) { return arg.name == name; });
  };
  std::string missing;
  for (const std::string& name : names) {
    if (!has(op.inputs, name) && !has(op.outputs, name))
      missing += StrCat(missing.empty() ? "'" : "', '", name);
  }
  if (missing.empty()) return Status();
  return errors::InvalidArgument("HostMemory args ", missing, "' not found in OpDef: Op<name=", op.name, ">");
}

StatusOr<KernelMemory> FindMemory(const KernelDef& kernel, const NodeProps& props) {
  const OpDef& op = props.op->def;
  const std::vector<std::string>& names = kernel.host_memory_args();
  MR_RETURN_IF_ERROR(CheckHostMemoryArgs(op, names));
  KernelMemory memory;
  MR_RETURN_IF_ERROR(FindHostMemory(op.inputs, props.attrs, names, props.input_types, &memory.host_inputs));
  MR_RETURN_IF_ERROR(
      FindHostMemory(op.outputs, props.attrs, names, props.output_types, &memory.host_outputs));
  return memory;
}

// The attributes that hold types, as "T=DT_FLOAT, Tidx=DT_INT32".
std::string TypeAttrs(const AttrMap& attrs) {
  std::string out;
  for (const auto& [name, value] : attrs) {
    if (value.As<DataType>() == nullptr && value.As<std::vector<DataType>>() == nullptr) continue;
    out += StrCat(out.empty() ? "" : ", ", name, "=", value.ToString());
  }
  return out;
}

}  // namespace

KernelDef::KernelDef(std::string_view op) : op_(op) {}
KernelDef::KernelDef(const KernelDef& o) = default;
KernelDef::KernelDef(KernelDef&& o) noexcept = default;
KernelDef& KernelDef::operator=(const KernelDef& o) = default;
KernelDef& KernelDef::operator=(KernelDef&& o) noexcept = default;
KernelDef::~KernelDef() = default;

KernelDef& KernelDef::Device(std::string_view type) {
  device_type_ = type;
  return *this;
}
KernelDef& KernelDef::Type(std::string_view attr, DataType dtype) { return Types(attr, {dtype}); }
KernelDef& KernelDef::Types(std::string_view attr, std::vector<DataType> allowed) {
  constraints_.emplace_back(std::string(attr), std::move(allowed));
  return *this;
}
KernelDef& KernelDef::HostMemory(std::string_view arg) {
  host_memory_args_.emplace_back(arg);
  return *this;
}
KernelDef& KernelDef::Priority(int priority) {
  priority_ = priority;
  return *this;
}
KernelDef& KernelDef::SameAs(std::string_view type) {
  same_as_ = type;
  return *this;
}
KernelDef& KernelDef::Label(std::string_view label) {
  label_ = label;
  return *this;
}
KernelDef& KernelDef::Async(bool is_async) {
  is_async_ = is_async;
  return *this;
}

bool KernelDef::Matches(const AttrMap& attrs) const {
  for (const auto& [attr, allowed] : constraints_) {
    if (!MatchesType(attrs.Find(attr), allowed)) return false;
  }
  return true;
}

std::string KernelDef::ToString() const {
  std::string out = StrCat("device='", device_type_, "'");
  if (!label_.empty()) out += StrCat("; label='", label_, "'");
  for (const auto& [attr, allowed] : constraints_) {
    out += StrCat("; ", attr, " in [");
    for (size_t i = 0; i < allowed.size(); ++i)
      out += StrCat(i == 0 ? "" : ", ", DataTypeEnumName(allowed[i]));
    out += "]";
  }
  return out;
}

KernelRegistry::KernelRegistry() = default;
KernelRegistry::~KernelRegistry() = default;

void KernelRegistry::RegisterClass(KernelDef def, bool is_async,
                                   std::unique_ptr<OpKernel> (*make)(KernelConstruction&)) {
  def.Async(is_async);
  Register(std::move(def), make);
}

void KernelRegistry::Register(KernelDef def, KernelFactory factory) {
  WriterLock lock(mu_);
  std::string op = def.op();
  by_op_[std::move(op)].push_back(std::make_unique<Entry>(Entry{std::move(def), std::move(factory)}));
}

const KernelRegistry::Entry* KernelRegistry::FindBest(const Entries& entries, std::string_view device_type,
                                                      const NodeProps& props, bool own, bool* mismatch) {
  const AttrValue* label_attr = props.attrs.Find("_kernel");
  const std::string* label = label_attr == nullptr ? nullptr : label_attr->As<std::string>();
  const Entry* best = nullptr;
  for (const auto& entry : entries) {
    const KernelDef& def = entry->def;
    if (def.device_type() != device_type || (own && !def.same_as().empty())) continue;
    if (std::string_view(def.label()) != (label == nullptr ? std::string_view() : std::string_view(*label)))
      continue;
    const bool is_there =
        def.same_as().empty() || FindBest(entries, def.same_as(), props, true, mismatch) != nullptr;
    if (!is_there || !def.Matches(props.attrs)) {
      *mismatch = true;
    } else if (best == nullptr || def.priority() > best->def.priority()) {
      best = entry.get();
    }
  }
  return best;
}

const KernelFactory& KernelRegistry::FactoryOf(const Entries& entries, const Entry& entry,
                                               const NodeProps& props) {
  if (entry.def.same_as().empty()) return entry.factory;
  bool mismatch = false;
  return FindBest(entries, entry.def.same_as(), props, true, &mismatch)->factory;
}

StatusOr<const KernelRegistry::Entry*> KernelRegistry::FindEntry(std::string_view device_type,
                                                                 const NodeProps& props) const {
  const std::string& op = props.op->def.name;
  bool mismatch = false;
  const auto found = by_op_.find(std::string_view(op));
  if (found != by_op_.end()) {
    if (const Entry* best = FindBest(found->second, device_type, props, false, &mismatch); best != nullptr)
      return best;
  }
  std::string registered;
  if (found == by_op_.end()) {
    registered = "  <no registered kernels>\n";
  } else {
    for (const auto& entry : found->second) registered += StrCat("  ", entry->def.ToString(), "\n");
  }
  return errors::NotFound("No registered '", op, "' OpKernel for ", device_type,
                          " devices compatible with node with attributes [", TypeAttrs(props.attrs), "]",
                          mismatch ? " (OpKernel was found, but attributes didn't match)" : "",
                          ".  Registered:", registered);
}

StatusOr<const KernelDef*> KernelRegistry::Find(std::string_view device_type, const NodeProps& props) const {
  ReaderLock lock(mu_);
  MR_ASSIGN_OR_RETURN(const Entry* entry, FindEntry(device_type, props));
  return &entry->def;
}

StatusOr<KernelMemory> KernelRegistry::MemoryOf(std::string_view device_type, const NodeProps& props) const {
  ReaderLock lock(mu_);
  MR_ASSIGN_OR_RETURN(const Entry* entry, FindEntry(device_type, props));
  return FindMemory(entry->def, props);
}

StatusOr<std::unique_ptr<OpKernel>> KernelRegistry::Create(std::string_view device_type,
                                                           KernelConstruction& construction) const {
  const Entry* entry = nullptr;
  const KernelFactory* factory = nullptr;
  const NodeProps& props = *construction.props();
  {
    ReaderLock lock(mu_);
    MR_ASSIGN_OR_RETURN(entry, FindEntry(device_type, props));
    factory = &FactoryOf(by_op_.find(std::string_view(entry->def.op()))->second, *entry, props);
  }
  if (construction.device().has_own_memory()) {
    MR_ASSIGN_OR_RETURN(KernelMemory memory, FindMemory(entry->def, props));
    construction.set_memory(std::make_shared<const KernelMemory>(std::move(memory)));
  }
  // Entries are never removed, so the factory may run without the lock.
  std::unique_ptr<OpKernel> kernel = *factory ? (*factory)(construction) : nullptr;
  MR_RETURN_IF_ERROR(construction.status());
  if (kernel == nullptr) {
    return errors::Internal("The factory of '", construction.props()->op->def.name, "' made no kernel");
  }
  if (kernel->AsAsync() != nullptr && !entry->def.is_async() && entry->def.same_as().empty()) {
    return errors::Internal("The kernel of '", construction.props()->op->def.name,
                            "' may block, but its registration does not declare it");
  }
  return kernel;
}

std::vector<std::string> KernelRegistry::Ops() const {
  std::vector<std::string> out;
  {
    ReaderLock lock(mu_);
    for (const auto& [op, entries] : by_op_) out.push_back(op);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<const KernelDef*> KernelRegistry::KernelsOf(std::string_view op) const {
  std::vector<const KernelDef*> out;
  ReaderLock lock(mu_);
  if (const auto found = by_op_.find(op); found != by_op_.end()) {
    for (const auto& entry : found->second) out.push_back(&entry->def);
  }
  return out;
}

KernelRegistry& KernelRegistry::Global() {
  static auto& registry = *new KernelRegistry();
  return registry;
}

}  // namespace millrace
