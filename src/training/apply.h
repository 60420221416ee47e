// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "millrace/gradient_value.h"
#include "millrace/optimizers.h"
#include "millrace/scope.h"

// The nodes of updates: of whole variables and of rows, by reference and by handle.
namespace millrace {

#pragma GCC visibility push(hidden)

// A node of any op; returns its output 0, unset after an error, which is in the scope's status.
Operation AddNode(const Scope& scope, const char* op, const std::vector<Input>& inputs,
                  const OpAttrs& attrs = {});
Output AddOp(const Scope& scope, const char* op, const std::vector<Input>& inputs, const OpAttrs& attrs = {});

// The same slices without repeated indices: rows of one index are summed.
IndexedSlices WithoutRepeats(const Scope& scope, const IndexedSlices& slices);

// A call of one of the ops Apply<rule>, SparseApply<rule>, ResourceApply<rule>, ResourceSparseApply<rule>:
// the variable, its slots, `before`, the gradient with its indices, `after`.
struct ApplyCall {
  std::string_view rule;
  std::vector<Input> before;
  std::vector<Input> after;
  OpAttrs attrs;
};
Operation Apply(const Scope& scope, const GradientAndVariable& gradient,
                const std::vector<GraphVariable>& slots, const ApplyCall& call);

// Consecutive changes of a variable, each of which waits for the one before it.
class VariableChanges {
 public:
  VariableChanges(const Scope& scope, const GraphVariable& variable);
  // The value after the changes so far.
  Output Value();
  Output Rows(const Output& indices);
  void Assign(const Output& value);
  void Add(const Output& delta);
  void Subtract(const Output& delta);
  void AddRows(const IndexedSlices& rows);
  void SubtractRows(const IndexedSlices& rows);
  void UpdateRows(const IndexedSlices& rows);
  // The last change.
  Operation Done() const { return last_; }

 private:
  // `op` on a reference, `resource_op` on a handle.
  void Change(const char* op, const char* resource_op, const std::vector<Output>& operands);

  const Scope scope_;
  const GraphVariable variable_;
  Output ref_;  // the variable after the changes; its handle
  Operation last_;
};

#pragma GCC visibility pop

}  // namespace millrace
