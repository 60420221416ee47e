// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/trace/dependencies.h"
#include "cli/trace/trace.h"

namespace millrace::cli {

struct OpTotal {
  uint32_t op = 0;
  int64_t count = 0;
  int64_t total_ns = 0;
  int64_t longest_ns = 0;
  double mean_ns = 0;
  double share = 0;  // of the time of all events
};

// By falling total.
std::vector<OpTotal> TotalsByOp(const Trace& trace);

// The chain of events, each waiting for the one before it, that took the longest by itself: with any number
// of threads the step takes at least that long.
struct CriticalPath {
  std::vector<uint32_t> events;  // in order
  int64_t busy_ns = 0;           // the sum of their durations
  std::string origin;            // the source of the match, as text for users
  // Without any graph: the events that ended last before one another, which need not depend on each other.
  bool by_time_only = false;
};
CriticalPath FindCriticalPath(const Trace& trace, const EventDependencies& dependencies);
CriticalPath GuessCriticalPath(const Trace& trace);

// Memory over time, one curve for each allocator: from its allocations, or from the memory in use that nodes
// report, or else estimated from the outputs (in use until the last event that depends on them has ended).
std::vector<MemoryCurve> MemoryCurves(const Trace& trace, const EventDependencies* dependencies);

}  // namespace millrace::cli
