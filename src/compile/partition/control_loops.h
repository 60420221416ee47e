// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "millrace/status.h"

namespace millrace {

// Data for partitioning a graph with loops. Empty for a graph without loops.
struct ControlLoops {
  // On a _Recv: its value may be dead, so its partition needs an executor that handles dead values.
  static constexpr std::string_view kMayBeDeadAttr = "_may_be_dead";

  bool may_be_dead = false;  // whether values of the graph can be
  // By node id: the frame in which the outputs of the node are; 0 is the top.
  std::vector<int> frame_of_outputs;
  // By frame and device index: a node that runs in every iteration of that frame on that device.
  std::map<std::pair<int, int>, Node*> pivots;

  // The control input of a _Recv on `device` for a value from `src`, so that it runs in the frame of the
  // value, once in each iteration. Null at the top.
  Node* PivotFor(const Node& src, int device) const {
    const auto id = static_cast<size_t>(src.id());
    if (id >= frame_of_outputs.size() || frame_of_outputs[id] <= 0) return nullptr;
    const auto it = pivots.find({frame_of_outputs[id], device});
    return it == pivots.end() ? nullptr : it->second;
  }
};

// Prepares a placed graph whose loops run on several devices for partitioning. A device that receives a
// value within a loop gets a small loop of its own there, with as many iterations as the whole loop: its
// Switch takes the predicate from the device that has the LoopCond. Enters, Exits, Switches and
// NextIterations move to the devices of the nodes that they serve. A graph that has been prepared before is
// not changed, but its pivots are found again. InvalidArgument for invalid loops and loops without a
// LoopCond.
StatusOr<ControlLoops> AddControlLoops(Graph* graph);

}  // namespace millrace
