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
  int64_t scheduled_ns = 0;  // when the last of its inputs was available
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  uint32_t thread = 0;
  struct Output {
    int slot = 0;
    DataType dtype = DataType::kInvalid;
    TensorShape shape;
    int64_t bytes = 0;
    // The address of the tensor's memory; nodes that forward a buffer show the same address.
    uint64_t address = 0;
    bool sole_owner = false;
  };
  std::vector<Output> outputs;
  // A change of allocated memory by this node.
  struct Allocation {
    int64_t ns = 0;
    int64_t bytes = 0;  // negative: freed
  };
  // The kernel's use of the device's allocator; memory from other sources is not included.
  struct Memory {
    int64_t requested_bytes = 0;
    int64_t peak_bytes = 0;               // peak use while the node ran
    int64_t live_bytes = 0;               // still in use when the node ended
    int64_t allocator_bytes_in_use = 0;   // of the step and before it, when the node ended
    std::vector<Allocation> allocations;  // by time, including memory freed until the end of the step
  };
  Memory memory;
};

struct DeviceStats {
  std::string device;
  std::string allocator;
  std::vector<NodeStats> nodes;  // in the order in which they ended
  std::map<uint32_t, std::string> thread_names;
  int64_t nodes_left_out = 0;  // beyond the limit for one step
};

// A node of a partition with its average cost in the session's cost model.
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
  int64_t peak_bytes = 0;  // peak use of memory that it allocated
  int64_t compute_ns = 0;
  bool measured = false;  // otherwise the numbers are 0
  bool is_final = false;  // its output is a result of the step
};

// Statistics of a Run with tracing.
struct RunMetadata {
  int64_t step_start_unix_us = 0;
  std::vector<DeviceStats> devices;
  std::vector<std::string> partition_graphs;  // serialised GraphDefs, if requested
  std::vector<CostNode> cost_graph;           // in the steps of SessionOptions::build_cost_model

  // Conversion to the message, and to its serialised form (which `millrace trace` reads).
  void ToProto(tensorflow::RunMetadata* proto) const;
  std::string SerializeAsString() const;
  // A JSON document in the Chrome trace-event format, which Perfetto and chrome://tracing open.
  std::string ToChromeTrace() const;
};

}  // namespace millrace
