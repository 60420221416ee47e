// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "graph/graph.h"

namespace millrace::bench {

// A kind of graph that can be made of any size: how compiling grows with it shows what isn't linear.
struct GraphShape {
  const char* name;
  const char* what;
  // About n nodes; "x" is fed, "result" is fetched.
  std::unique_ptr<Graph> (*make)(int n);
};
const std::vector<GraphShape>& GraphShapes();

}  // namespace millrace::bench
