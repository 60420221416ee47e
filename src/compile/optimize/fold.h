// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "compile/optimize/constant_evaluator.h"
#include "compile/place/placer.h"
#include "graph/graph.h"
#include "millrace/status.h"

namespace millrace {

struct FoldOptions {
  ConstantEvaluator* evaluator = nullptr;  // REQUIRES: not null
  HasKernelFn has_kernel;                  // of the client device; empty: everything has one
  std::string client_device;               // where constants are evaluated
  std::string client_device_type = "CPU";
  std::set<std::string, std::less<>> preserve;  // nodes that must run even when nothing uses their values
  int64_t max_bytes = 10 * 1024 * 1024;         // of one folded tensor
};

// Replaces what can be computed now by constants: nodes whose inputs are all constant, and the metadata
// (Shape, Size, Rank) of tensors whose shape is known. Stateful and never_fold nodes, references, resources
// and calls of functions stay. What cannot be evaluated stays, too: its error belongs to the run, if it is
// run at all. Nodes that lose their last consumer go, unless they are stateful. Returns how many nodes were
// replaced.
StatusOr<int> FoldConstants(Graph* graph, const FoldOptions& options);

}  // namespace millrace
