// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "millrace/dtype.h"
#include "millrace/shape.h"

namespace tensorflow {
class RunMetadata;
}

namespace millrace {

// One run of one node. Times are in nanoseconds of the steady clock and count from the start of the step.
struct NodeStats {
  std::string node;
  std::string op;
  std::string label;         // "name = Op(input, input)", as timelines show it
  int64_t scheduled_ns = 0;  // when the last of its inputs was there
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  uint32_t thread = 0;
  struct Output {
    int slot = 0;
    DataType dtype = DataType::kInvalid;
    TensorShape shape;
    int64_t bytes = 0;
    // Of the memory behind the tensor; nodes that pass one buffer on show the same address.
    uint64_t address = 0;
    bool sole_owner = false;
  };
  std::vector<Output> outputs;
  // Memory that grew or shrank because of this node.
  struct Allocation {
    int64_t ns = 0;
    int64_t bytes = 0;  // negative: given back
  };
  // What the kernel had from the device's allocator; memory that it gets elsewhere is not seen.
  struct Memory {
    int64_t requested_bytes = 0;
    int64_t peak_bytes = 0;               // most of it in use at one time while the node ran
    int64_t live_bytes = 0;               // still in use when the node ended
    int64_t allocator_bytes_in_use = 0;   // of the whole step and what was there before, then
    std::vector<Allocation> allocations;  // by time, with what was given back by the end of the step
  };
  Memory memory;
};

struct DeviceStats {
  std::string device;
  std::string allocator;
  std::vector<NodeStats> nodes;  // in the order in which they ended
  std::map<uint32_t, std::string> thread_names;
  int64_t nodes_left_out = 0;  // beyond the most that one step may record
};

// A node of a partition with what it costs on average, by the session's cost model.
struct CostNode {
  std::string name;
  std::string device;
  int id = 0;  // position in RunMetadata::cost_graph
  struct Input {
    int node = 0;
    int port = 0;
  };
  std::vector<Input> inputs;
  std::vector<int> control_inputs;
  struct Output {
    DataType dtype = DataType::kInvalid;
    TensorShape shape;   // of the last measured run
    int64_t bytes = -1;  // -1: never measured
  };
  std::vector<Output> outputs;
  int64_t peak_bytes = 0;  // most memory of its own in use at one time
  int64_t compute_ns = 0;
  bool measured = false;  // otherwise the numbers are 0
  bool is_final = false;  // its output leaves the step
};

// What a Run with tracing tells about itself.
struct RunMetadata {
  int64_t step_start_unix_us = 0;
  std::vector<DeviceStats> devices;
  std::vector<std::string> partition_graphs;  // serialised GraphDefs, when asked for
  std::vector<CostNode> cost_graph;           // in the steps of SessionOptions::build_cost_model

  // The wire form, as a message and as the bytes of one (what `millrace trace` reads).
  void ToProto(tensorflow::RunMetadata* proto) const;
  std::string SerializeAsString() const;
  // A JSON document in the Chrome trace-event format, which Perfetto and chrome://tracing open.
  std::string ToChromeTrace() const;
};

}  // namespace millrace
