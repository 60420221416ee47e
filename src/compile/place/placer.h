// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "device/device_view.h"
#include "graph/graph.h"
#include "millrace/status.h"

namespace millrace {

// "Is there a kernel for this kind of node on this type of device?" KernelRegistry::HasKernel in the engine,
// a table in tests.
using HasKernelFn = std::function<bool(std::string_view device_type, const NodeProps& props)>;

struct PlacementCosts;

struct PlaceOptions {
  const DeviceView* devices = nullptr;  // REQUIRES: not null
  HasKernelFn has_kernel;               // REQUIRES: not empty
  // The lines "  device='CPU'; T in [DT_FLOAT]" of the kernels that an op has, for messages; may be empty.
  std::function<std::string(std::string_view op)> kernels_text;
  // Nodes that no type of device has a kernel for get no device, instead of an error; they restrict no
  // others.
  bool leave_without_kernel = false;
  bool allow_soft_placement =
      false;  // a device that is missing or has no kernel is replaced by one that works
  const PlacementCosts* costs =
      nullptr;  // not null: devices are chosen by simulated execution (cost_placement.h)
  const DeviceDescription* default_device =
      nullptr;                        // preferred by nodes that are free to choose; null: the fastest
  bool log_device_placement = false;  // one line a node: "name: (Op): /job:…/device:CPU:0"
  // Not 0: nodes that are free to choose are strewn over all devices of the best type, by this number and
  // their names; what touches state stays where it would be. For tests.
  uint64_t spread_seed = 0;
  // The same over the devices of all types, and what shares a variable goes to one of them, too.
  bool spread_over_types = false;
};

// Gives every node of `graph` that has no assigned device one. Assigned nodes stay where they are and pull
// the nodes colocated with them. On error the graph's assignments are as before. Linear in nodes and edges.
Status Place(Graph* graph, const PlaceOptions& options);

}  // namespace millrace
