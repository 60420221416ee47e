// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace millrace::cli {

// Interned strings.
class StringPool {
 public:
  uint32_t Add(std::string_view text) {
    const auto [it, added] = ids_.try_emplace(std::string(text), static_cast<uint32_t>(texts_.size()));
    if (added) texts_.push_back(&it->first);
    return it->second;
  }
  const std::string& operator[](uint32_t id) const { return *texts_[id]; }
  size_t size() const { return texts_.size(); }

 private:
  std::unordered_map<std::string, uint32_t> ids_;
  std::vector<const std::string*> texts_;  // keys of ids_, which stay where they are
};

// One run of one node. Times are in nanoseconds from the first event of the trace.
struct TraceEvent {
  uint32_t node = 0;  // in Trace::nodes
  uint32_t row = 0;   // in Trace::rows
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t waited_ns = 0;        // ready, but not started
  int64_t output_bytes = 0;     // of all outputs
  int64_t requested_bytes = 0;  // requested from allocators
  int64_t peak_bytes = 0;
  uint32_t shapes = 0;  // in Trace::shapes
  int64_t duration_ns() const { return end_ns - start_ns; }
};

// A node as the events name it, apart from those of other devices.
struct TraceNode {
  uint32_t device = 0;
  std::string name;
  uint32_t op = 0;     // in Trace::ops
  std::string inputs;  // "a, b:1, ^c", as the label of the node has them; "" when it has none
};

// A thread of a device. Events that overlap, as those of asynchronous kernels, get rows of their own.
struct TraceRow {
  uint32_t device = 0;
  uint32_t thread = 0;
  uint32_t part = 0;  // 0 is the first row of the thread
  std::string name;
};

// Memory in use over time: `bytes[i]` from `ns[i]` on.
struct MemoryCurve {
  std::string name;
  std::string origin;  // how it was found
  std::vector<int64_t> ns;
  std::vector<int64_t> bytes;
  int64_t peak_bytes = 0;
  int64_t peak_ns = 0;
};

// A change of the memory of one allocator, or (absolute) its memory in use.
struct MemoryNote {
  uint32_t allocator = 0;  // in Trace::allocators
  int64_t ns = 0;
  int64_t bytes = 0;
};

// A traced step, read from a RunMetadata message.
struct Trace {
  std::vector<std::string> devices;
  std::vector<TraceRow> rows;  // by device and thread
  std::vector<TraceNode> nodes;
  std::vector<TraceEvent> events;  // by start
  StringPool ops;
  StringPool shapes;
  StringPool allocators;                   // "device: allocator"
  std::vector<MemoryNote> memory_changes;  // allocations and releases
  std::vector<MemoryNote> memory_in_use;   // totals
  int64_t length_ns = 0;                   // from the first start to the last end
  int64_t resolution_ns = 1;               // of the times
};

}  // namespace millrace::cli
