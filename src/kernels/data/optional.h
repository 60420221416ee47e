// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "data/dataset.h"
#include "kernel/kernel_context.h"

namespace millrace::data {

// What a variant tensor that stands for a value or none holds.
class OptionalVariant {
 public:
  OptionalVariant() = default;
  explicit OptionalVariant(Element value) : value_(std::make_shared<const Element>(std::move(value))) {}
  // Null: none.
  const Element* value() const { return value_.get(); }

 private:
  std::shared_ptr<const Element> value_;
};

}  // namespace millrace::data
