// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "graph/graph.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

namespace millrace {

// Evaluates a constant part of a graph during compilation; implemented by step/. Thread-safe.
class ConstantEvaluator {
 public:
  virtual ~ConstantEvaluator() = default;
  // `graph` has no feeds and no stateful ops; its results are `_Retval` nodes with the indices 0 …
  // num_outputs - 1. Every node is assigned to the client device. After an error this part of the graph is
  // not changed.
  virtual StatusOr<std::vector<Tensor>> Evaluate(std::unique_ptr<Graph> graph, int num_outputs) = 0;
};

}  // namespace millrace
