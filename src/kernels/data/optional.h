// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "data/dataset.h"
#include "kernel/kernel_context.h"
#include "tensor/variant.h"

namespace millrace::data {

// The content of a variant tensor that is an optional value.
class OptionalVariant {
 public:
  static constexpr char kVariantTypeName[] = "tensorflow::data::Optional";
  OptionalVariant() = default;
  explicit OptionalVariant(Element value) : value_(std::make_shared<const Element>(std::move(value))) {}
  // Null: none.
  const Element* value() const { return value_.get(); }

  // In TensorFlow's format. Beyond 2 GiB only the name is written.
  VariantData EncodeVariant() const;
  static StatusOr<OptionalVariant> DecodeVariant(VariantData data);

 private:
  // Subtracts the bytes that serialization takes from *left; false if the result is negative. One value may
  // be nested in others many times.
  bool Spend(int64_t* left) const;

  std::shared_ptr<const Element> value_;
};

}  // namespace millrace::data
