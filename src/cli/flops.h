// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "millrace/status.h"

namespace tensorflow {
class GraphDef;
}  // namespace tensorflow

namespace millrace::cli {

// Floating-point operations of one run of each node; a multiplication and an addition are two. Bodies of
// loops count once, and functions not at all.
struct FlopCount {
  double total = 0;
  std::vector<std::pair<std::string, double>> by_op;  // the most first
  int64_t unknown_nodes = 0;                          // of ops that count, but with unknown shapes
};

// Shapes are inferred from those of placeholders, with `batch` for unknown sizes. Returns the error of the
// import or of the inference.
StatusOr<FlopCount> CountFlops(const tensorflow::GraphDef& graph, int64_t batch);

}  // namespace millrace::cli
