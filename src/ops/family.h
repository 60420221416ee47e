// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "op/op_builder.h"
#include "op/op_registry.h"
#include "op/shape_inference.h"

// Common code of the files of this folder.
namespace millrace::ops {

// Type constraints that many ops have.
inline constexpr char kFloating[] = "T: {half, float, double}";
inline constexpr char kNumber[] = "T: numbertype";
inline constexpr char kRealNumber[] = "T: realnumbertype";
inline constexpr char kAnyType[] = "T: type";
inline constexpr char kIndex[] = "Tidx: {int32, int64} = DT_INT32";
inline constexpr char kIndices[] = "Tindices: {int32, int64}";

// The integer types of ops that came after TensorFlow 1.2.
inline constexpr char kResourceNumber[] =
    "dtype: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, bfloat16, "
    "uint16, "
    "complex128, half, uint32, uint64}";

// Traits that many ops have.
inline constexpr OpTraits kElementwise{.elementwise = true};
inline constexpr OpTraits kCheap{.cheap = true};
inline constexpr OpTraits kAliasing{.cheap = true, .aliasing = true};
inline constexpr OpTraits kGenerator{.generator = true};
inline constexpr OpTraits kEffect{.has_side_effects = true};

// An op's name and summary with a longer name: WithSuffix("Size: How many there are.", "V2") is "SizeV2: How
// many there are.".
inline std::string WithSuffix(std::string_view op, std::string_view suffix) {
  const size_t end = std::min(op.find(':'), op.size());
  return StrCat(op.substr(0, end), suffix, op.substr(end));
}
// Only the name.
inline std::string_view NameOf(std::string_view op) { return op.substr(0, op.find(':')); }

// The same ops, marked as not differentiable.
inline std::vector<OpBuilder> NotDifferentiable(std::vector<OpBuilder> family) {
  for (OpBuilder& op : family) op.NotDifferentiable();
  return family;
}

// Registers in order; returns the first error.
inline Status RegisterEach(OpRegistry& registry, const std::vector<OpBuilder>& family) {
  for (const OpBuilder& op : family) MR_RETURN_IF_ERROR(registry.Register(op));
  return Status::Ok();
}

}  // namespace millrace::ops
