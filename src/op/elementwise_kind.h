// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "op/op_builder.h"

namespace millrace {

// What an op does with a batch: tensors that are stacked along a new first dimension. The values are part of
// the C API (Millrace_ElementwiseKind).
enum class ElementwiseKind : uint8_t {
  kNone,        // it depends on the op
  kOne,         // of one input: the op itself
  kBroadcasts,  // of two inputs: the op itself, once their ranks are equal
  kSameShape,   // the op itself, if all inputs are stacked
};

// By the op's record: element-wise ops and those that forward their input. Select, which takes conditions of
// a lower rank, is kNone.
ElementwiseKind ElementwiseKindOf(const OpRegistration& op);

}  // namespace millrace
