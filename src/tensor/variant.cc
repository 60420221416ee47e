// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "tensor/variant.h"

#include <map>

#include "base/mutex.h"
#include "millrace/tensor.h"
#include "tensor/resource_handle.h"

namespace millrace {

VariantData::VariantData() = default;
VariantData::VariantData(std::string type, std::string meta, std::vector<Tensor> parts)
    : type_name(std::move(type)), metadata(std::move(meta)), tensors(std::move(parts)) {}
VariantData::VariantData(const VariantData&) = default;
VariantData::VariantData(VariantData&&) noexcept = default;
VariantData& VariantData::operator=(const VariantData&) = default;
VariantData& VariantData::operator=(VariantData&&) noexcept = default;
VariantData::~VariantData() = default;

namespace {

struct DecoderRegistry {
  Mutex mu;
  std::map<std::string, VariantDecoder, std::less<>> decoders MR_GUARDED_BY(mu);
};

DecoderRegistry& Registry() {
  static DecoderRegistry& registry = *new DecoderRegistry;  // outlives every static object
  return registry;
}

}  // namespace

Status RegisterVariantDecoder(std::string_view type_name, VariantDecoder decoder) {
  DecoderRegistry& registry = Registry();
  MutexLock lock(registry.mu);
  if (!registry.decoders.emplace(type_name, decoder).second) {
    return errors::AlreadyExists("A decoder for variants of type '", type_name, "' is already registered");
  }
  return Status::Ok();
}

std::string Variant::TypeName() const { return value_ == nullptr ? "" : value_->TypeName(); }

VariantData Variant::Encode() const { return value_ == nullptr ? VariantData() : value_->Encode(); }

StatusOr<Variant> Variant::Decode(VariantData data) {
  if (data.type_name.empty() && data.metadata.empty() && data.tensors.empty()) return Variant();
  VariantDecoder decoder = nullptr;
  {
    DecoderRegistry& registry = Registry();
    MutexLock lock(registry.mu);
    if (const auto it = registry.decoders.find(data.type_name); it != registry.decoders.end())
      decoder = it->second;
  }
  if (decoder == nullptr) return Variant(std::move(data));
  return decoder(std::move(data));
}

std::string ResourceHandle::DebugString() const {
  return StrCat("device: ", device, " container: ", container, " name: ", name, " type: ", maybe_type_name);
}

}  // namespace millrace
