// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "millrace/status.h"
#include "millrace/tensor.h"
#include "op/node_props.h"

namespace millrace {

// Runs the CPU's kernel of a node outside of any step, on the calling thread: for values that are needed
// while a graph is built. REQUIRES: the op has no state, and `inputs` are initialised and of the node's
// types. Unimplemented for kernels that wait; else the errors of creating and running the kernel.
StatusOr<std::vector<Tensor>> EvaluateOp(std::string_view name, const std::shared_ptr<const NodeProps>& props,
                                         std::span<const Tensor> inputs);

}  // namespace millrace
