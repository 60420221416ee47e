// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "millrace/output.h"
#include "millrace/scope.h"
#include "millrace/shape.h"

namespace millrace {

// Adds nodes under the given scope and returns the results. Tensors from outside may be used
// directly.
using BranchFn = std::function<std::vector<Output>(const Scope&)>;

// The results of one of two branches, selected by a scalar bool. Both are built; a run computes only the
// nodes of the selected one, and their inputs. Branches return equally many results of equal types. The nodes
// are named after the scope's op name (default "cond"), as by TensorFlow's Python client: cond/pred_id,
// cond/Switch, cond/Merge. Errors go to the scope's status; the results are unset then.
std::vector<Output> Cond(const Scope& scope, const Input& pred, const BranchFn& then_fn,
                         const BranchFn& else_fn);

struct WhileOptions {
  int64_t parallel_iterations = 10;  // the maximum number of iterations in progress at a time
  bool back_prop = true;             // false: the loop has no gradient, and asking for it is an error
  bool swap_memory = false;          // accepted; nothing is swapped on a CPU
  std::string name = {};             // "": the scope's op name, or "while"
  // Shapes of the loop variables that hold in all iterations; empty: each keeps its initial
  // shape.
  std::vector<PartialShape> shape_invariants = {};
  // The loop ends after this number of iterations even if its condition holds; a scalar integer.
  std::optional<Input> maximum_iterations = {};
};

using LoopCondFn = std::function<Output(const Scope&, const std::vector<Output>&)>;
using LoopBodyFn = std::function<std::vector<Output>(const Scope&, const std::vector<Output>&)>;

// while (cond(vars)) vars = body(vars); returns the final values of the variables, in order. Loops and
// branches may be nested, and tensors from outside may be used directly. Names are those of TensorFlow's
// Python client: while/Enter, while/Merge, while/Switch, while/Identity, while/NextIteration, while/Exit,
// while/LoopCond. Errors go to the scope's status; the results are unset then.
std::vector<Output> While(const Scope& scope, const std::vector<Input>& loop_vars, const LoopCondFn& cond,
                          const LoopBodyFn& body, const WhileOptions& options = {});

}  // namespace millrace
