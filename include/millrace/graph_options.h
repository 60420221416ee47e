// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <string>

namespace millrace {

// How the graphs of steps are placed and optimised. Part of SessionOptions; the compiler and its passes read
// these fields themselves.
struct GraphOptions {
  // A device that does not exist or has no kernel is replaced by one that has.
  bool allow_soft_placement = false;
  bool log_device_placement = false;  // one line a node: "name: (Op): /job:…/device:CPU:0"
  // Devices are chosen by simulating the graph with measured or estimated costs, see docs/placement.md.
  bool place_by_cost = false;
  bool bfloat16_transfers = false;  // floats are sent as bfloat16 between devices (16 bits of mantissa lost)
  bool fold_constants = true;
  bool eliminate_common_subexpressions = true;
  int64_t max_folded_constant_bytes = int64_t{10} << 20;  // of one tensor
  std::set<std::string> disabled_passes;                  // by name, see docs/session-options.md
  bool aggressive_arithmetic = false;                     // also sums and products of floats in another order
  bool strip_checks = false;                              // Assert, CheckNumerics and Print do nothing
  // Products and convolutions of floats round their operands to bfloat16 and accumulate in float; see
  // docs/optimisation.md.
  bool auto_mixed_precision = false;
  int max_optimizer_rounds = 0;         // of optimising passes; 0: until nothing changes, at most five
  int min_optimized_nodes = 0;          // smaller graphs are not optimised
  int64_t optimizer_timeout_in_ms = 0;  // after which no further pass starts; 0: none
};

}  // namespace millrace
