// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/function_library.h"

#include <utility>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "op/op_def_codec.h"
#include "tensorflow/core/framework/function.pb.h"

namespace millrace {
namespace {

// Equal for equal functions, whatever the order of their maps.
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

FunctionLibrary::FunctionLibrary() = default;
FunctionLibrary::~FunctionLibrary() = default;
FunctionLibrary::FunctionLibrary(const FunctionLibrary&) = default;
FunctionLibrary& FunctionLibrary::operator=(const FunctionLibrary&) = default;

Status FunctionLibrary::Add(const tensorflow::FunctionDef& def) {
  const std::string& name = def.signature().name();
  if (const auto it = functions_.find(name); it != functions_.end()) {
    if (CanonicalBytes(it->second->def) == CanonicalBytes(def)) return Status();
    return errors::InvalidArgument("Cannot add function '", name,
                                   "' because a different function with the same name already exists.");
  }
  auto entry = std::make_shared<Entry>();
  auto signature = OpDefFromProto(def.signature());
  if (!signature.ok())
    return signature.status().WithContext(StrCat("; in the signature of function '", name, "'"));
  if (Status valid = ValidateSignature(*signature); !valid.ok()) {
    return valid.WithContext(StrCat("; in the signature of function '", name, "'"));
  }
  entry->def = def;
  entry->op.def = *std::move(signature);
  entry->op.traits.has_side_effects = entry->op.def.is_stateful;
  functions_.emplace(name, std::move(entry));
  return Status();
}

Status FunctionLibrary::AddLibrary(const tensorflow::FunctionDefLibrary& library) {
  FunctionLibrary merged = *this;
  for (const tensorflow::FunctionDef& def : library.function()) MR_RETURN_IF_ERROR(merged.Add(def));
  for (const tensorflow::GradientDef& gradient : library.gradient()) {
    const auto [it, is_new] =
        merged.gradients_.try_emplace(gradient.function_name(), gradient.gradient_func());
    if (!is_new && it->second != gradient.gradient_func()) {
      return errors::InvalidArgument("Cannot assign gradient function '", gradient.gradient_func(), "' to '",
                                     gradient.function_name(), "' because it already has gradient function '",
                                     it->second, "'");
    }
  }
  *this = std::move(merged);
  return Status();
}

void FunctionLibrary::Export(tensorflow::FunctionDefLibrary* library) const {
  for (const auto& [name, entry] : functions_) *library->add_function() = entry->def;
  for (const auto& [function, gradient] : gradients_) {
    tensorflow::GradientDef* def = library->add_gradient();
    def->set_function_name(function);
    def->set_gradient_func(gradient);
  }
}

const tensorflow::FunctionDef* FunctionLibrary::Find(std::string_view name) const {
  const auto it = functions_.find(name);
  return it == functions_.end() ? nullptr : &it->second->def;
}

std::string FunctionLibrary::FindGradient(std::string_view name) const {
  const auto it = gradients_.find(name);
  return it == gradients_.end() ? "" : it->second;
}

StatusOr<const OpRegistration*> FunctionLibrary::LookUp(std::string_view name) const {
  const auto it = functions_.find(name);
  if (it == functions_.end()) return errors::NotFound("Function '", name, "' is not in the library");
  return &it->second->op;
}

bool FunctionLibrary::empty() const { return functions_.empty() && gradients_.empty(); }

}  // namespace millrace
