// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "millrace/status.h"

namespace millrace {

class Tensor;

// The serialised form of a variant.
struct VariantData {
  std::string type_name;
  std::string metadata;
  std::vector<Tensor> tensors;

  VariantData();
  VariantData(std::string type, std::string meta, std::vector<Tensor> parts);
  VariantData(const VariantData&);
  VariantData(VariantData&&) noexcept;
  VariantData& operator=(const VariantData&);
  VariantData& operator=(VariantData&&) noexcept;
  ~VariantData();
};

// A type that a Variant can convert to bytes and back: it has a name, known to peers and files.
template <typename T>
concept SerializableVariant = requires(const T& value, VariantData data) {
  { T::kVariantTypeName } -> std::convertible_to<std::string_view>;
  { value.EncodeVariant() } -> std::convertible_to<VariantData>;
  { T::DecodeVariant(std::move(data)) } -> std::same_as<StatusOr<T>>;
};

// The element type of variant tensors: a copyable value of any type, or none. Copying copies the value.
class Variant {
 public:
  Variant() = default;
  template <typename T>
  requires(!std::is_same_v<std::remove_cvref_t<T>, Variant> &&
           std::copy_constructible<std::remove_cvref_t<T>>)
      Variant(T&& value)  // NOLINT(google-explicit-constructor)
      : value_(std::make_unique<Holder<std::remove_cvref_t<T>>>(std::forward<T>(value))) {}
  Variant(const Variant& o) : value_(o.value_ == nullptr ? nullptr : o.value_->Clone()) {}
  Variant(Variant&&) noexcept = default;
  Variant& operator=(const Variant& o) {
    if (this != &o) *this = Variant(o);
    return *this;
  }
  Variant& operator=(Variant&&) noexcept = default;
  ~Variant() = default;

  bool empty() const { return value_ == nullptr; }
  // The value, or null when it is of another type.
  template <typename T>
  T* get() {
    return value_ != nullptr && value_->type() == typeid(T) ? &static_cast<Holder<T>*>(value_.get())->value
                                                            : nullptr;
  }
  template <typename T>
  const T* get() const {
    return const_cast<Variant*>(this)->get<T>();
  }
  // The serialised name; for types without one the compiler's name of the type; empty when there is no
  // value.
  std::string TypeName() const;
  // For a value that cannot be serialised only its name.
  VariantData Encode() const;
  // Creates the registered type of data.type_name; an unregistered type stays VariantData, which encodes to
  // the same bytes again.
  static StatusOr<Variant> Decode(VariantData data);

 private:
  struct HolderBase {
    virtual ~HolderBase() = default;
    virtual std::unique_ptr<HolderBase> Clone() const = 0;
    virtual const std::type_info& type() const = 0;
    virtual std::string TypeName() const = 0;
    virtual VariantData Encode() const = 0;
  };
  template <typename T>
  struct Holder;

  std::unique_ptr<HolderBase> value_;
};

using VariantDecoder = StatusOr<Variant> (*)(VariantData data);
// AlreadyExists for a name in use. Thread-safe.
Status RegisterVariantDecoder(std::string_view type_name, VariantDecoder decoder);
template <SerializableVariant T>
Status RegisterVariantType() {
  return RegisterVariantDecoder(T::kVariantTypeName, [](VariantData data) -> StatusOr<Variant> {
    StatusOr<T> value = T::DecodeVariant(std::move(data));
    if (!value.ok()) return std::move(value).status();
    return Variant(std::move(value).value());
  });
}

template <typename T>
struct Variant::Holder final : Variant::HolderBase {
  template <typename U>
  explicit Holder(U&& v) : value(std::forward<U>(v)) {}
  std::unique_ptr<HolderBase> Clone() const override { return std::make_unique<Holder>(value); }
  const std::type_info& type() const override { return typeid(T); }
  std::string TypeName() const override {
    if constexpr (std::is_same_v<T, VariantData>) {
      return value.type_name;
    } else if constexpr (SerializableVariant<T>) {
      return std::string(std::string_view(T::kVariantTypeName));
    } else {
      return typeid(T).name();
    }
  }
  VariantData Encode() const override {
    if constexpr (std::is_same_v<T, VariantData>) {
      return value;
    } else if constexpr (SerializableVariant<T>) {
      VariantData data = value.EncodeVariant();
      data.type_name = std::string_view(T::kVariantTypeName);
      return data;
    } else {
      return VariantData(TypeName(), "", {});
    }
  }
  T value;
};

}  // namespace millrace
