// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "graph/graph.h"
#include "millrace/graph_options.h"

namespace millrace {

// All options of a compilation: those of users, and those of tests and tools. Made once for each session; the
// compiler and its passes hold a reference.
struct CompileOptions : GraphOptions {
  // Not 0: nodes without constraints are spread over all devices of the best type, by this number and
  // their names; nodes with state are placed as usual. For tests.
  uint64_t spread_seed = 0;
  // The same over the devices of all types; nodes that share a variable are placed together.
  bool spread_over_types = false;
  // Called with the graph after each pass; empty: no dumps. `part` is the partition's key, "" before
  // partitioning.
  std::function<void(std::string_view pass, std::string_view part, const Graph& graph)> dump{};
  // Checks the graph's invariants after each pass.
#ifdef NDEBUG
  bool validate = false;
#else
  bool validate = true;
#endif
};

}  // namespace millrace
