// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/kernel_runner.h"
#include "exec/plan.h"
#include "exec/step_state.h"

namespace millrace {

// Runs all nodes of a plan on the calling thread in topological order: no counts, no atomics, no queue.
// REQUIRES: !plan.has_async(). Kernels may share their loops with the pool. Returns the first error, or
// Cancelled. When a node has to wait, *waits_at is its index, and nodes before it have run; else num_nodes().
// run, and their outputs are in their consumers' slots; else it is num_nodes().
Status RunSequentially(const Plan& plan, StepState& state, const StepServices& services,
                       const NodeNotes& notes, uint32_t* waits_at);

}  // namespace millrace
