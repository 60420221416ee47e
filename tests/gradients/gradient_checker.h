// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "graph/graph.h"
#include "millrace/output.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

namespace millrace {

// A placeholder and its value.
struct Point {
  Output tensor;
  Tensor value;
};

struct CheckOptions {
  double delta = 1e-5;  // half of the distance between the two points of a difference
  bool second = true;   // check the gradients of the gradients, too
  bool fold = true;     // let the session fold constants
  bool shapes = true;   // let the incoming gradients of the ys have known shapes
};

// Adds the gradients of `ys` with respect to `xs` to the graph and compares them, at that point, with central
// differences computed by a session; with `second`, the gradients of those as well, also with respect to the
// incoming gradients of the ys. Returns the largest error, relative if the derivative exceeds 1. An unset
// gradient counts as 0. Floating and complex tensors.
StatusOr<double> MaxGradientError(Graph& graph, const std::vector<Point>& xs, const std::vector<Output>& ys,
                                  const CheckOptions& options);

}  // namespace millrace
