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

// What cutting a graph with loops needs to know. Empty for a graph without loops.
struct ControlLoops {
  // On a _Recv: what it receives may be dead, so its part needs an executor that knows of dead values.
  static constexpr std::string_view kMayBeDeadAttr = "_may_be_dead";

  bool may_be_dead = false;  // whether values of the graph can be
  // By node id: the frame in which the outputs of the node are; 0 is the top.
  std::vector<int> frame_of_outputs;
  // By frame and device index: a node that runs in every iteration of that frame on that device.
  std::map<std::pair<int, int>, Node*> pivots;

  // What a _Recv on `device` of something that comes from `src` has to wait for, so that it runs in the frame
  // of what it receives, once in each iteration. Null at the top.
  Node* PivotFor(const Node& src, int device) const {
    const auto id = static_cast<size_t>(src.id());
    if (id >= frame_of_outputs.size() || frame_of_outputs[id] <= 0) return nullptr;
    const auto it = pivots.find({frame_of_outputs[id], device});
    return it == pivots.end() ? nullptr : it->second;
  }
};

// Makes a placed graph whose loops run on several devices fit to be cut between any of them. A device that
// receives something within a loop gets a small loop of its own there, which goes round as often as the whole
// loop does: its Switch takes the predicate from the device that has the LoopCond. Enters, Exits, Switches
// and NextIterations move to the devices of what they serve. A graph that has been through here is left as it
// is, save that its pivots are found again. InvalidArgument for loops that are badly made or have no
// LoopCond.
StatusOr<ControlLoops> AddControlLoops(Graph* graph);

}  // namespace millrace
