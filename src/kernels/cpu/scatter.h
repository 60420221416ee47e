// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Writing rows of one tensor into another by index.
#pragma once

#include "kernels/cpu/kernel_util.h"

namespace millrace {

enum class ScatterOp { kAssign, kAdd, kSub, kMul, kDiv, kMin, kMax };

// The element types for which ScatterRows has `op`.
TypeList ScatterTypes(ScatterOp op);

// into row (offsets[i]) op= row i of `updates`, in the order of i; `repeat` reads row 0 (of one element)
// every time. REQUIRES: offsets, in rows, lie in the array; the type is among ScatterTypes(op).
// InvalidArgument when an integer is divided by zero.
struct ScatterRowsArgs {
  ScatterOp op = ScatterOp::kAssign;
  DataType dtype = DataType::kInvalid;
  void* into = nullptr;
  const void* updates = nullptr;
  std::span<const int64_t> offsets;
  int64_t row = 1;  // elements
  bool repeat = false;
};
Status ScatterRows(const ScatterRowsArgs& args);

// params[indices[i], ...] op= updates[i, ...], with all checks: shapes, every index, before anything is
// written. `writable` is called once, after the checks, and returns the array to write to.
Status CheckScatter(const Tensor& params, const Tensor& indices, const Tensor& updates);
// params[indices[i], ...] op= updates[i, ...]. REQUIRES: CheckScatter passed; nobody else uses the buffer of params.
Status Scatter(ScatterOp op, Tensor& params, const Tensor& indices, const Tensor& updates);

}  // namespace millrace
