// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "millrace/status.h"

namespace millrace {

// The effect of a control-flow node on its values. The op for references has the same.
enum class Flow : uint8_t {
  kNone,     // an ordinary node
  kSwitch,   // sends its data to one of two outputs; the other is dead
  kMerge,    // passes on the first input that is alive
  kEnter,    // into the first iteration of a frame below this one
  kExit,     // out of the last iteration, to the frame above
  kNext,     // NextIteration
  kCond,     // LoopCond: passes its input on
  kTrigger,  // ControlTrigger: runs even if its inputs are dead
};
Flow FlowOf(const Node& node);

// The frames of a graph: the loops in which nodes run, found by following Enter and Exit. Frame 0 is the top;
// a frame comes after its parent.
struct Frames {
  struct Frame {
    std::string name;  // full: "outer/inner" for nested loops; "" for the top
    int parent = -1;
    int depth = 0;  // number of loops around its nodes
    int parallel_iterations = 1;
    int num_enters = 0;
  };
  std::vector<Frame> frames;
  std::vector<int> frame_of;   // by node id: the frame in which the node runs; -1: no such node
  std::vector<int> target_of;  // by node id: the frame of its outputs, which differs for Enter and Exit
};

// `order` is the graph's topological order. InvalidArgument naming the node when frames are inconsistent:
// inputs from different frames, an Exit or NextIteration outside a loop, one frame entered from two, a Merge
// that closes a loop without an Enter, a result from within a loop, ….
StatusOr<Frames> FindFrames(const Graph& graph, const std::vector<Node*>& order);

}  // namespace millrace
