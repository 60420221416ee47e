// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/trace/analysis.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace millrace::cli {
namespace {

constexpr uint32_t kNoEvent = ~uint32_t{0};

void AddPoint(int64_t ns, int64_t bytes, MemoryCurve* curve) {
  if (!curve->ns.empty() && curve->ns.back() == ns) {
    curve->bytes.back() = bytes;
  } else {
    curve->ns.push_back(ns);
    curve->bytes.push_back(bytes);
  }
  if (bytes > curve->peak_bytes) {
    curve->peak_bytes = bytes;
    curve->peak_ns = ns;
  }
}

// Curves of notes, by allocator. At equal times releases come before allocations.
std::vector<MemoryCurve> CurvesOf(const Trace& trace, std::vector<MemoryNote> notes, bool are_changes) {
  std::sort(notes.begin(), notes.end(), [](const MemoryNote& a, const MemoryNote& b) {
    return std::tuple(a.allocator, a.ns, a.bytes) < std::tuple(b.allocator, b.ns, b.bytes);
  });
  std::vector<MemoryCurve> curves;
  for (size_t i = 0; i < notes.size(); ++i) {
    if (i == 0 || notes[i].allocator != notes[i - 1].allocator) {
      MemoryCurve& curve = curves.emplace_back();
      curve.name = trace.allocators[notes[i].allocator];
      curve.origin = are_changes ? "allocations of the step" : "bytes in use when nodes ended";
      if (are_changes) AddPoint(0, 0, &curve);
    }
    MemoryCurve& curve = curves.back();
    AddPoint(notes[i].ns, are_changes ? curve.bytes.back() + notes[i].bytes : notes[i].bytes, &curve);
  }
  return curves;
}

MemoryCurve EstimateFromOutputs(const Trace& trace, const EventDependencies& dependencies) {
  std::vector<int64_t> last_use(trace.events.size());
  for (size_t e = 0; e < trace.events.size(); ++e) {
    last_use[e] = std::max(last_use[e], trace.events[e].end_ns);
    for (const uint32_t p : dependencies.of(e)) last_use[p] = std::max(last_use[p], trace.events[e].end_ns);
  }
  std::vector<std::pair<int64_t, int64_t>> changes;
  for (size_t e = 0; e < trace.events.size(); ++e) {
    const int64_t bytes = trace.events[e].output_bytes;
    if (bytes <= 0) continue;
    changes.emplace_back(trace.events[e].start_ns, bytes);
    changes.emplace_back(last_use[e], -bytes);
  }
  std::sort(changes.begin(), changes.end());
  MemoryCurve curve;
  curve.name = "outputs";
  curve.origin = "estimate: outputs until their last use";
  AddPoint(0, 0, &curve);
  for (const auto& [ns, bytes] : changes) AddPoint(ns, curve.bytes.back() + bytes, &curve);
  return curve;
}

}  // namespace

std::vector<OpTotal> TotalsByOp(const Trace& trace) {
  std::map<uint32_t, OpTotal> by_op;
  double all = 0;
  for (const TraceEvent& e : trace.events) {
    OpTotal& total = by_op[trace.nodes[e.node].op];
    ++total.count;
    total.total_ns += e.duration_ns();
    total.longest_ns = std::max(total.longest_ns, e.duration_ns());
    all += static_cast<double>(e.duration_ns());
  }
  std::vector<OpTotal> totals;
  for (auto& [op, total] : by_op) {
    total.op = op;
    total.mean_ns = static_cast<double>(total.total_ns) / static_cast<double>(total.count);
    total.share = all > 0 ? static_cast<double>(total.total_ns) / all : 0;
    totals.push_back(total);
  }
  std::stable_sort(totals.begin(), totals.end(),
                   [](const OpTotal& a, const OpTotal& b) { return a.total_ns > b.total_ns; });
  return totals;
}

CriticalPath FindCriticalPath(const Trace& trace, const EventDependencies& dependencies) {
  // Events follow the events that they depend on, so one pass finds the longest chain up to each.
  std::vector<int64_t> longest(trace.events.size());
  std::vector<uint32_t> before(trace.events.size(), kNoEvent);
  uint32_t last = kNoEvent;
  for (uint32_t e = 0; e < trace.events.size(); ++e) {
    for (const uint32_t p : dependencies.of(e)) {
      if (before[e] == kNoEvent || longest[p] > longest[before[e]]) before[e] = p;
    }
    longest[e] = trace.events[e].duration_ns() + (before[e] == kNoEvent ? 0 : longest[before[e]]);
    if (last == kNoEvent || longest[e] > longest[last]) last = e;
  }
  CriticalPath path;
  if (last != kNoEvent) path.busy_ns = longest[last];
  for (uint32_t e = last; e != kNoEvent; e = before[e]) path.events.push_back(e);
  std::reverse(path.events.begin(), path.events.end());
  return path;
}

CriticalPath GuessCriticalPath(const Trace& trace) {
  std::vector<uint32_t> by_end(trace.events.size());
  for (uint32_t e = 0; e < by_end.size(); ++e) by_end[e] = e;
  std::stable_sort(by_end.begin(), by_end.end(),
                   [&](uint32_t a, uint32_t b) { return trace.events[a].end_ns < trace.events[b].end_ns; });
  CriticalPath path;
  path.by_time_only = true;
  path.origin = "time stamps alone: each event ended last before the next began, which need not depend on it";
  for (size_t end = by_end.size(); end > 0;) {
    const TraceEvent& e = trace.events[by_end[end - 1]];
    path.events.push_back(by_end[end - 1]);
    path.busy_ns += e.duration_ns();
    const auto limit = by_end.begin() + static_cast<ptrdiff_t>(end - 1);
    const auto next = std::upper_bound(by_end.begin(), limit, e.start_ns, [&](int64_t ns, uint32_t other) {
      return ns < trace.events[other].end_ns;
    });
    end = static_cast<size_t>(next - by_end.begin());
  }
  std::reverse(path.events.begin(), path.events.end());
  return path;
}

std::vector<MemoryCurve> MemoryCurves(const Trace& trace, const EventDependencies* dependencies) {
  if (!trace.memory_changes.empty()) return CurvesOf(trace, trace.memory_changes, true);
  if (!trace.memory_in_use.empty()) return CurvesOf(trace, trace.memory_in_use, false);
  const auto has_output = [](const TraceEvent& e) { return e.output_bytes > 0; };
  if (dependencies == nullptr || std::none_of(trace.events.begin(), trace.events.end(), has_output))
    return {};
  return {EstimateFromOutputs(trace, *dependencies)};
}

}  // namespace millrace::cli
