// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include "compile/place/placer.h"
#include "graph/graph.h"
#include "millrace/status.h"

namespace millrace {

struct InlineOptions {
  bool inline_calls = true;
  // If, While and Case nodes with the attribute ("_lower_using_switch_merge") become Switch, Merge, Enter, ….
  bool lower_functional = true;
  // Calls stay calls once this number of nodes has been added: nested functions with two calls each grow like
  // 2^n.
  int max_added_nodes = 200'000;
  // Or once the prefixes of nodes' names take this much memory: they grow with each level.
  int64_t max_added_name_bytes = int64_t{16} << 20;
  HasKernelFn has_kernel{};  // empty: all nodes have one
};

struct InlineResult {
  int inlined = 0;
  int lowered = 0;
};

// Replaces calls by the bodies of functions, under names "<call>/<node>", also within these bodies. A node of
// a body without a device gets that of the call or, if that type of device has no kernel for it or for a node
// that must share its device, the same task (inline_devices.h). Nodes that wait for the call wait for all its
// side effects and for its results. Not inlined: functions and calls marked "_noinline", calls within calls
// of the same function, and calls that can't be prepared (running them gives the error). `must_run` (null:
// empty) has the names of nodes that must run even if their outputs are not used. A call among them that is
// removed is replaced by the nodes of its results; control outputs of all bodies are added.
StatusOr<InlineResult> InlineFunctions(Graph* graph, const InlineOptions& options,
                                       std::set<std::string, std::less<>>* must_run = nullptr);

}  // namespace millrace
