// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "millrace/status.h"
#include "millrace/tensor.h"

namespace millrace {

// The reduction of the tensors of a group.
enum class MergeOp { kAdd, kMul, kMin, kMax };
StatusOr<MergeOp> ParseMergeOp(const std::string& name);

// out[i] = so_far[i] op own[i]; `out` may be either. Half is rounded after each operation. REQUIRES: vectors
// of one type and length, of a type that collectives have.
void Merge(MergeOp op, const Tensor& so_far, const Tensor& own, Tensor* out);
// Divides by the size of the group; integers are rounded towards zero.
void DivideBy(int64_t size, Tensor* values);

}  // namespace millrace
