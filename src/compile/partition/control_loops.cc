// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Why the parts of a loop stay in step: in every iteration that begins, each node of the frame runs once on
// its device, alive or dead, so each _Send in the loop sends once in each iteration, if necessary a dead
// tensor. The control loop of a device begins with an iteration of the enclosing loop (or, at the top, when
// the step starts) and continues exactly if LoopCond was true, so the device has the same iterations as
// LoopCond's; its Merge starts each _Recv once in each of them. If the loop is on a branch that is not taken,
// LoopCond is dead, its dead value is sent, and the control loop ends after one iteration, in which every
// _Recv gets the dead tensor that the other side sends.
#include "compile/partition/control_loops.h"

#include <algorithm>
#include <set>
#include <string>

#include "graph/frames.h"
#include "millrace/tensor.h"

namespace millrace {
namespace {

// Marks the Merge of a control loop.
constexpr std::string_view kPivotAttr = "_control_loop";

// Frame names are arbitrary, names of nodes that are sent to other tasks are not.
std::string AsNodeName(std::string frame) {
  for (char& c : frame) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!plain && c != '_' && c != '.' && c != '/' && c != '-') c = '_';
  }
  return frame.empty() || frame[0] == '/' || frame[0] == '-' ? StrCat("_", frame) : frame;
}

bool CrossesDevices(const Edge& edge) {
  return edge.src->IsOp() && edge.dst->IsOp() &&
         edge.src->assigned_device_index() != edge.dst->assigned_device_index();
}

class LoopSplitter {
 public:
  explicit LoopSplitter(Graph* graph) : graph_(graph) {}

  StatusOr<ControlLoops> Run() {
    MR_ASSIGN_OR_RETURN(order_, TopologicalOrder(*graph_));
    MoveToServed();
    MR_ASSIGN_OR_RETURN(frames_, FindFrames(*graph_, order_));
    FindExistingNodes();
    MR_RETURN_IF_ERROR(FindNeeded());
    // Enclosing loops come first, and so do their pairs.
    for (const auto& [frame, device] : needed_) {
      if (out_.pivots.contains({frame, device})) continue;
      MR_ASSIGN_OR_RETURN(Node * pivot, AddLoop(frame, device));
      out_.pivots[{frame, device}] = pivot;
    }
    out_.frame_of_outputs.resize(static_cast<size_t>(graph_->num_node_ids()), 0);
    out_.may_be_dead = true;
    return std::move(out_);
  }

 private:
  void MoveToServed();
  void FindExistingNodes();
  Status FindNeeded();
  StatusOr<Node*> LoopCond(int frame) const;
  StatusOr<Node*> AddNode(int frame, std::string_view what, std::string_view op, AttrMap attrs, int device);
  StatusOr<Node*> AddLoop(int frame, int device);

  Graph* const graph_;
  std::vector<Node*> order_;
  Frames frames_;
  std::vector<const Node*> enters_;             // by frame: one of its Enters
  std::vector<std::vector<Node*>> conditions_;  // by frame: its LoopConds
  std::set<std::pair<int, int>> needed_;        // frame and device
  ControlLoops out_;
};

// A Switch and an Exit are placed with the source of their data, an Enter and a NextIteration with the
// consumer of their value: so the edges that close a loop are on one device, and a value crosses devices
// outside of the loop rather than inside.
void LoopSplitter::MoveToServed() {
  for (Node* node : order_) {
    const Flow flow = FlowOf(*node);
    if (flow != Flow::kSwitch && flow != Flow::kExit) continue;
    node->set_assigned_device_index(node->in_edges()[0]->src->assigned_device_index());
  }
  for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
    Node* node = *it;
    const Flow flow = FlowOf(*node);
    if (flow != Flow::kNext && (flow != Flow::kEnter || IsRefType(node->input_type(0)))) continue;
    const Node* served = nullptr;
    for (const Edge* edge : node->out_edges()) {
      if (edge->IsControl()) continue;
      if (served == nullptr || FlowOf(*edge->dst) == Flow::kMerge) served = edge->dst;
    }
    if (served != nullptr) node->set_assigned_device_index(served->assigned_device_index());
  }
}

void LoopSplitter::FindExistingNodes() {
  enters_.resize(frames_.frames.size(), nullptr);
  conditions_.resize(frames_.frames.size());
  out_.frame_of_outputs = frames_.target_of;
  for (Node* node : order_) {
    if (!node->IsOp()) continue;
    const int frame = frames_.target_of[node->id()];
    const Flow flow = FlowOf(*node);
    if (flow == Flow::kEnter) enters_[frame] = node;
    if (flow == Flow::kCond) conditions_[frame].push_back(node);
    if (flow == Flow::kMerge && node->attrs().Find(kPivotAttr) != nullptr)
      out_.pivots[{frame, node->assigned_device_index()}] = node;
  }
}

Status LoopSplitter::FindNeeded() {
  for (const Node* node : order_) {
    if (!node->IsOp()) continue;
    int frame = frames_.target_of[node->id()];
    if (frame == 0) continue;
    for (const Edge* edge : node->out_edges()) {
      if (!CrossesDevices(*edge)) continue;
      if (FlowOf(*node) == Flow::kEnter && !node->Attr<bool>("is_constant").value_or(false)) {
        return errors::Unimplemented("Node '", node->name(), "' (op ", node->op_name(),
                                     ") brings a value into a loop for several devices: '",
                                     edge->dst->assigned_device(), "' and '", node->assigned_device(), "'");
      }
      // A control loop is started by the enclosing one.
      const int device = edge->dst->assigned_device_index();
      for (int f = frame; f > 0 && !out_.pivots.contains({f, device}); f = frames_.frames[f].parent)
        needed_.insert({f, device});
    }
  }
  return Status();
}

StatusOr<Node*> LoopSplitter::LoopCond(int frame) const {
  const std::vector<Node*>& found = conditions_[frame];
  const std::string& name = frames_.frames[frame].name;
  if (found.empty()) {
    return errors::InvalidArgument("Invalid loop structure: Loop \"", name,
                                   "\" runs on several devices and has no LoopCond node");
  }
  if (found.size() > 1) {
    return errors::InvalidArgument("Invalid loop structure: Loop \"", name,
                                   "\" has more than one LoopCond node: \"", found[0]->name(), "\" and \"",
                                   found[1]->name(), "\"");
  }
  return found[0];
}

StatusOr<Node*> LoopSplitter::AddNode(int frame, std::string_view what, std::string_view op, AttrMap attrs,
                                      int device) {
  const std::string name =
      graph_->NewName(StrCat(AsNodeName(frames_.frames[frame].name), "/_control_loop/", what));
  MR_ASSIGN_OR_RETURN(Node * node, graph_->AddNode(name, op, std::move(attrs)));
  node->set_assigned_device_index(device);
  out_.frame_of_outputs.resize(static_cast<size_t>(graph_->num_node_ids()), 0);
  out_.frame_of_outputs[static_cast<size_t>(node->id())] = frame;
  return node;
}

// Const -> Enter -> Merge -> Switch(LoopCond) -> NextIteration -> Merge.
StatusOr<Node*> LoopSplitter::AddLoop(int frame, int device) {
  MR_ASSIGN_OR_RETURN(Node * condition, LoopCond(frame));
  const int above = frames_.frames[frame].parent;
  const AttrMap type = {{"T", DataType::kFloat}};
  AttrMap start_attrs = {{"dtype", DataType::kFloat}};
  start_attrs.Set("value", Tensor(DataType::kFloat, TensorShape({0})));
  MR_ASSIGN_OR_RETURN(Node * start, AddNode(frame, "start", "Const", std::move(start_attrs), device));
  out_.frame_of_outputs[static_cast<size_t>(start->id())] = above;
  if (above > 0) graph_->AddControlEdge(out_.pivots.at({above, device}), start);
  AttrMap enter_attrs = type;
  for (const char* attr : {"frame_name", "parallel_iterations"})
    enter_attrs.Set(attr, *enters_[frame]->attrs().Find(attr));
  MR_ASSIGN_OR_RETURN(Node * enter, AddNode(frame, "Enter", "Enter", std::move(enter_attrs), device));
  graph_->AddEdge(start, 0, enter, 0);
  AttrMap merge_attrs = type;
  merge_attrs.Set("N", 2);
  merge_attrs.Set(kPivotAttr, true);
  MR_ASSIGN_OR_RETURN(Node * merge, AddNode(frame, "Merge", "Merge", std::move(merge_attrs), device));
  MR_ASSIGN_OR_RETURN(Node * way, AddNode(frame, "Switch", "Switch", type, device));
  MR_ASSIGN_OR_RETURN(Node * next, AddNode(frame, "NextIteration", "NextIteration", type, device));
  graph_->AddEdge(enter, 0, merge, 0);
  graph_->AddEdge(next, 0, merge, 1);
  graph_->AddEdge(merge, 0, way, 0);
  graph_->AddEdge(condition, 0, way, 1);
  graph_->AddEdge(way, 1, next, 0);
  return merge;
}

}  // namespace

StatusOr<ControlLoops> AddControlLoops(Graph* graph) {
  ControlLoops out;
  for (int id = 2; id < graph->num_node_ids(); ++id) {
    const Node* node = graph->node(id);
    if (node == nullptr) continue;
    if (node->traits().is_control_flow) return LoopSplitter(graph).Run();
    out.may_be_dead |= node->traits().is_recv && node->attrs().Find(ControlLoops::kMayBeDeadAttr) != nullptr;
  }
  return out;
}

}  // namespace millrace
