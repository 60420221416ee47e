// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Training updates: one pass over memory. Types: half, bfloat16 (both in float), float, double; complex64 and
// complex128 for the rules for which TensorFlow has them.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cpu/contract/parallel.h"
#include "kernels/cpu/vector/ops.h"
#include "millrace/dtype.h"

namespace millrace::cpu {

// The operands of a rule. Arrays don't overlap. With `from` the new values of a slot are written to `slots`
// and the old ones are read from `from`: one pass, for a variable whose old values are still in use.
struct UpdateArgs {
  UpdateRule rule = UpdateRule::kGradientDescent;
  DataType type = DataType::kFloat;
  void* slots[kMaxUpdateSlots] = {};            // the variable first
  const void* from[kMaxUpdateSlots] = {};       // null: the slot itself; all null for UpdateRows
  const void* grad = nullptr;                   // like the variable, or a row of it for each index
  const void* scalars[kMaxUpdateScalars] = {};  // of that type, in the order of the op's inputs
  int64_t step = 0;                             // of kAdagradDualAveraging, which has one scalar less
};

bool HasUpdate(UpdateRule rule, DataType type);
// The number of slots of the rule, including the variable.
int NumUpdateSlots(UpdateRule rule);

// Updates all n elements. REQUIRES: HasUpdate.
void Update(const UpdateArgs& args, int64_t n, Parallel& parallel);

// For each i in order: updates row indices[i] of the slots by row i of the gradient. The bits are those of
// one thread. REQUIRES: HasUpdate; 0 <= indices[i] < rows.
void UpdateRows(const UpdateArgs& args, std::span<const int64_t> indices, int64_t rows, int64_t row_size,
                Parallel& parallel);

}  // namespace millrace::cpu
