// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "millrace/status.h"

namespace millrace {

struct PartitionOptions {
  // The partition of an assigned device; asked once per device. Default: the device itself.
  std::function<std::string(std::string_view device)> key;
  // The incarnation of a device, for the keys of transfers. Default: 1.
  std::function<uint64_t(std::string_view device)> incarnation;
  // Floats are sent as bfloat16, the upper half of their bits, and received as floats: half the bytes, and a
  // relative error below 2^-7.
  bool bfloat16_transfers = false;
};

struct GraphPartition {
  std::string key;
  std::unique_ptr<Graph> graph;
};

// Partition keys: the whole device name, or its "/job:…/replica:…/task:…" part (the whole name when it is not
// full).
std::string DeviceKey(std::string_view device);
std::string TaskKey(std::string_view device);

// Partitions a placed graph into one graph per key, in order of the keys. Edges between parts become
// _Send/_Recv pairs, one per tensor (or control dependency) and destination device. A graph with only one key
// is returned unchanged; an empty graph gives one partition with the key "". Each has the functions that its
// nodes may reach, and no others. Loops may run on several devices: see control_loops.h.
StatusOr<std::vector<GraphPartition>> PartitionGraph(std::unique_ptr<Graph> graph,
                                                     const PartitionOptions& options);

}  // namespace millrace
