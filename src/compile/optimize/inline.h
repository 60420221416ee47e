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
  // If, While and Case nodes that ask for it ("_lower_using_switch_merge") become Switch, Merge, Enter, ….
  bool lower_functional = true;
  // Calls stay calls once this many nodes have been added: functions that call others twice grow like 2^n.
  int max_added_nodes = 200'000;
  // Or once the names of calls that go before those of their nodes take so much: they grow with each level.
  int64_t max_added_name_bytes = int64_t{16} << 20;
  HasKernelFn has_kernel{};  // empty: everything has one
};

struct InlineResult {
  int inlined = 0;
  int lowered = 0;
};

// Puts the bodies of functions where they are called, under names "<call>/<node>", also within what is put
// there. A node of a body without a device is put where the call is, or, if that type of device has no kernel
// for it or for a node that must share its device, into the same task (inline_devices.h). Nodes that wait for
// the call wait for all that has effects in it and for its results. Left alone: functions and calls marked
// "_noinline", calls within calls of the same function, and calls that can't be made ready (running them
// tells why). `must_run` (null: empty) has the names of nodes that must run although nothing uses them. Of a
// call among them that goes, what gives its results takes the place; control outputs of all bodies are added.
StatusOr<InlineResult> InlineFunctions(Graph* graph, const InlineOptions& options,
                                       std::set<std::string, std::less<>>* must_run = nullptr);

}  // namespace millrace
