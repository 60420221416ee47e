// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace millrace {

// Tensors that a step writes to files while it runs, for debuggers: see RunOptions::debug_watches.
struct DebugWatch {
  std::string node;  // "*": all nodes
  int output = 0;    // -1: all outputs
  // "DebugIdentity", "DebugNanCount", "DebugNumericSummary(lower_bound=-1; mute_if_healthy=true)"
  std::vector<std::string> ops;
  std::vector<std::string> urls;   // "file:///folder"
  bool tolerate_failures = false;  // an op that has no kernel for the tensor's type is left out
};

}  // namespace millrace
