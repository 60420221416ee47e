// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "compile/compile_options.h"
#include "device/device_view.h"
#include "graph/graph.h"
#include "millrace/status.h"

namespace millrace {

// "Is there a kernel for this kind of node on this type of device?" KernelRegistry::HasKernel in the engine,
// a table in tests.
using HasKernelFn = std::function<bool(std::string_view device_type, const NodeProps& props)>;

struct PlacementCosts;

struct PlaceOptions {
  const CompileOptions& compile;
  const DeviceView* devices = nullptr;  // REQUIRES: not null
  HasKernelFn has_kernel{};             // REQUIRES: not empty
  // The lines "  device='CPU'; T in [DT_FLOAT]" of the kernels of an op, for messages; may be empty.
  std::function<std::string(std::string_view op)> kernels_text{};
  // Nodes without a kernel on any type of device get no device, instead of an error; they do not restrict
  // others.
  bool leave_without_kernel = false;
  // Not null: devices are chosen by simulated execution (cost_placement.h).
  const PlacementCosts* costs = nullptr;
  // Preferred by nodes without constraints; null: the fastest.
  const DeviceDescription* default_device = nullptr;
};

// Gives every node of `graph` that has no assigned device one. Assigned nodes stay where they are and pull
// the nodes colocated with them. On error the graph's assignments are as before. Linear in nodes and edges.
Status Place(Graph* graph, const PlaceOptions& options);

}  // namespace millrace
