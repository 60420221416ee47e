// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/function_library.h"

#include <algorithm>
#include <map>
#include <utility>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "op/function_attrs.h"
#include "op/op_def_codec.h"
#include "tensorflow/core/framework/function.pb.h"

namespace millrace {
namespace {

// Equal for equal functions, independent of the order of their maps.
std::string CanonicalBytes(const tensorflow::FunctionDef& def) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream out(&stream);
  out.SetSerializationDeterministic(true);
  def.SerializeToCodedStream(&out);
  out.Trim();
  return bytes;
}

}  // namespace

struct FunctionLibrary::Entry {
  tensorflow::FunctionDef def;
  OpRegistration op;
};

struct FunctionLibrary::Table {
  std::map<std::string, std::shared_ptr<const Entry>, std::less<>> functions;
  std::map<std::string, std::string, std::less<>> gradients;
};

FunctionLibrary::FunctionLibrary() {
  static const auto* const empty = new std::shared_ptr<const Table>(std::make_shared<Table>());
  table_ = *empty;
}
FunctionLibrary::~FunctionLibrary() = default;
FunctionLibrary::FunctionLibrary(const FunctionLibrary&) = default;
FunctionLibrary& FunctionLibrary::operator=(const FunctionLibrary&) = default;

// A table that no copy shares; copies keep the old one.
FunctionLibrary::Table& FunctionLibrary::Own() {
  auto own = std::make_shared<Table>(*table_);
  Table& table = *own;
  table_ = std::move(own);
  return table;
}

namespace {

Status DifferentFunction(const std::string& name) {
  return errors::InvalidArgument("Cannot add function '", name,
                                 "' because a different function with the same name already exists.");
}

Status SecondGradient(const std::string& function, const std::string& old, const std::string& gradient) {
  return errors::InvalidArgument("Cannot assign gradient function '", gradient, "' to '", function,
                                 "' because it already has gradient function '", old, "'");
}

}  // namespace

Status FunctionLibrary::Add(const tensorflow::FunctionDef& def) {
  tensorflow::FunctionDefLibrary one;
  *one.add_function() = def;
  return AddLibrary(one);
}

Status FunctionLibrary::AddLibrary(const tensorflow::FunctionDefLibrary& library) {
  if (library.function_size() == 0 && library.gradient_size() == 0) return Status();
  FunctionLibrary merged = *this;
  Table& table = merged.Own();
  for (const tensorflow::FunctionDef& def : library.function()) {
    const std::string& name = def.signature().name();
    if (const auto it = table.functions.find(name); it != table.functions.end()) {
      if (CanonicalBytes(it->second->def) != CanonicalBytes(def)) return DifferentFunction(name);
      continue;
    }
    const auto in_signature = [&](const Status& s) {
      return s.WithContext(StrCat("; in the signature of function '", name, "'"));
    };
    auto signature = OpDefFromProto(def.signature());
    if (!signature.ok()) return in_signature(signature.status());
    if (Status valid = ValidateSignature(*signature); !valid.ok()) return in_signature(valid);
    auto entry = std::make_shared<Entry>();
    entry->def = def;
    entry->op.def = *std::move(signature);
    entry->op.traits.has_side_effects = entry->op.def.is_stateful;
    // A call must not run during compilation: it would compile its function.
    entry->op.traits.never_fold = true;
    table.functions.emplace(name, std::move(entry));
    const auto of = def.attr().find(std::string(kGradientOfAttr));
    if (of == def.attr().end()) continue;
    const auto [gradient, added] = table.gradients.emplace(of->second.s(), name);
    if (!added && gradient->second != name) return SecondGradient(gradient->first, gradient->second, name);
  }
  for (const tensorflow::GradientDef& gradient : library.gradient())
    MR_RETURN_IF_ERROR(merged.AddGradient(gradient.function_name(), gradient.gradient_func()));
  *this = merged;
  return Status();
}

Status FunctionLibrary::AddGradient(const std::string& function, const std::string& gradient) {
  const auto it = table_->gradients.find(function);
  if (it == table_->gradients.end()) {
    Own().gradients.emplace(function, gradient);
    return Status();
  }
  if (it->second == gradient) return Status();
  return SecondGradient(function, it->second, gradient);
}

bool FunctionLibrary::HasAllOf(const FunctionLibrary& other) const {
  const auto has = [](const auto& all, const auto& item) {
    const auto it = all.find(item.first);
    return it != all.end() && it->second == item.second;
  };
  const Table& mine = *table_;
  return std::ranges::all_of(other.table_->functions,
                             [&](const auto& f) { return has(mine.functions, f); }) &&
         std::ranges::all_of(other.table_->gradients, [&](const auto& g) { return has(mine.gradients, g); });
}

Status FunctionLibrary::Merge(const FunctionLibrary& other) {
  if (SharesTableWith(other) || other.empty()) return Status();
  if (empty()) {
    *this = other;
    return Status();
  }
  if (HasAllOf(other)) return Status();
  FunctionLibrary merged = *this;
  Table& table = merged.Own();
  for (const auto& [name, entry] : other.table_->functions) {
    const auto [it, is_new] = table.functions.try_emplace(name, entry);
    if (is_new || it->second == entry || CanonicalBytes(it->second->def) == CanonicalBytes(entry->def))
      continue;
    return DifferentFunction(name);
  }
  for (const auto& [function, gradient] : other.table_->gradients)
    MR_RETURN_IF_ERROR(merged.AddGradient(function, gradient));
  *this = merged;
  return Status();
}

void FunctionLibrary::Export(tensorflow::FunctionDefLibrary* library) const {
  for (const auto& [name, entry] : table_->functions) *library->add_function() = entry->def;
  for (const auto& [function, gradient] : table_->gradients) {
    tensorflow::GradientDef* def = library->add_gradient();
    def->set_function_name(function);
    def->set_gradient_func(gradient);
  }
}

const tensorflow::FunctionDef* FunctionLibrary::Find(std::string_view name) const {
  const auto it = table_->functions.find(name);
  return it == table_->functions.end() ? nullptr : &it->second->def;
}

std::string FunctionLibrary::FindGradient(std::string_view name) const {
  const auto it = table_->gradients.find(name);
  return it == table_->gradients.end() ? "" : it->second;
}

StatusOr<const OpRegistration*> FunctionLibrary::LookUp(std::string_view name) const {
  const auto it = table_->functions.find(name);
  if (it == table_->functions.end()) return errors::NotFound("Function '", name, "' is not in the library");
  return &it->second->op;
}

std::vector<std::string> FunctionLibrary::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : table_->functions) names.push_back(name);
  return names;
}

FunctionLibrary FunctionLibrary::Only(const std::set<std::string, std::less<>>& names) const {
  FunctionLibrary some;
  auto table = std::make_shared<Table>();
  for (const std::string& name : names) {
    if (const auto it = table_->functions.find(name); it != table_->functions.end())
      table->functions.insert(*it);
    if (const auto it = table_->gradients.find(name); it != table_->gradients.end())
      table->gradients.insert(*it);
  }
  const bool all = table->functions.size() == table_->functions.size() &&
                   table->gradients.size() == table_->gradients.size();
  if (all) return *this;
  some.table_ = std::move(table);
  return some;
}

bool FunctionLibrary::empty() const { return table_->functions.empty() && table_->gradients.empty(); }

}  // namespace millrace
