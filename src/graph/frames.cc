// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/frames.h"
#include "graph/node_def_text.h"

#include <array>
#include <unordered_map>
#include <utility>

namespace millrace {
namespace {

constexpr std::array<std::pair<std::string_view, Flow>, 12> kFlows = {{
    {"Switch", Flow::kSwitch},
    {"RefSwitch", Flow::kSwitch},
    {"Merge", Flow::kMerge},
    {"RefMerge", Flow::kMerge},
    {"Enter", Flow::kEnter},
    {"RefEnter", Flow::kEnter},
    {"Exit", Flow::kExit},
    {"RefExit", Flow::kExit},
    {"NextIteration", Flow::kNext},
    {"RefNextIteration", Flow::kNext},
    {"LoopCond", Flow::kCond},
    {"ControlTrigger", Flow::kTrigger},
}};

// The full name of a frame grows with its depth.
constexpr int kMostNested = 1000;

class FrameFinder {
 public:
  explicit FrameFinder(const Graph& graph) {
    out_.frames.emplace_back();
    out_.frame_of.assign(static_cast<size_t>(graph.num_node_ids()), -1);
    out_.target_of.assign(static_cast<size_t>(graph.num_node_ids()), -1);
  }

  Status Visit(const Node& node) {
    MR_ASSIGN_OR_RETURN(const int frame, FrameOfInputs(node));
    out_.frame_of[node.id()] = frame;
    if (frame > 0 && node.op_name() == "_Retval") {
      return errors::InvalidArgument("Node '", node.name(), "' (op ", node.op_name(), ") is in the loop '",
                                     out_.frames[frame].name,
                                     "': only values that leave it through an Exit can be results");
    }
    int target = frame;
    switch (FlowOf(node)) {
      case Flow::kEnter: {
        MR_ASSIGN_OR_RETURN(target, Enter(node, frame));
        break;
      }
      case Flow::kExit:
        if (frame == 0) return Outside(node);
        target = out_.frames[frame].parent;
        break;
      case Flow::kNext:
        if (frame == 0) return Outside(node);
        break;
      default:
        break;
    }
    out_.target_of[node.id()] = target;
    return Status();
  }

  // The edges that the order leaves out close loops: they must stay within a frame, and only they lead from
  // one iteration to the next.
  Status CheckBackEdges(const Node& node) const {
    const Flow flow = FlowOf(node);
    if (flow == Flow::kNext) return CheckNext(node);
    if (flow != Flow::kMerge) return Status();
    const Node* next = nullptr;
    for (const Edge* e : node.data_in_edges()) {
      if (e == nullptr || !IsLoopBackEdge(*e)) continue;
      next = e->src;
      if (out_.target_of[next->id()] != out_.frame_of[node.id()]) return Different(node, *next, *next);
    }
    return next == nullptr ? Status() : CheckEntrance(node);
  }

  Frames Take() { return std::move(out_); }

 private:
  static Status CheckNext(const Node& node) {
    for (const Edge* e : node.out_edges()) {
      if (!e->dst->IsOp() || (!e->IsControl() && FlowOf(*e->dst) == Flow::kMerge)) continue;
      return errors::InvalidArgument("Node '", node.name(), "' (op ", node.op_name(), ") leads to '",
                                     e->dst->name(), "' (op ", e->dst->op_name(),
                                     "), but only a Merge can take a value to the next iteration");
    }
    return Status();
  }

  // The inputs of a Merge that closes a loop are NextIterations and values that enter the first iteration
  // from outside.
  static Status CheckEntrance(const Node& merge) {
    bool entered = false;
    for (const Edge* e : merge.data_in_edges()) {
      if (e == nullptr || IsLoopBackEdge(*e)) continue;
      if (FlowOf(*e->src) != Flow::kEnter || e->src->Attr<bool>("is_constant").value_or(false)) {
        return errors::InvalidArgument("Node '", merge.name(), "' (op ", merge.op_name(),
                                       ") closes a loop, but its input '", e->src->name(), "' (op ",
                                       e->src->op_name(), ") is not an Enter for the first iteration");
      }
      entered = true;
    }
    if (entered) return Status();
    return errors::InvalidArgument("Node '", merge.name(), "' (op ", merge.op_name(),
                                   ") closes a loop that has no Enter");
  }

  static Status Outside(const Node& node) {
    return errors::InvalidArgument("Node '", node.name(), "' (op ", node.op_name(), ") is not in a loop");
  }

  Status Different(const Node& node, const Node& a, const Node& b) const {
    const auto frame = [this](const Node& n) {
      const int f = out_.target_of[n.id()];
      return f < 0 ? std::string() : out_.frames[f].name;
    };
    return errors::InvalidArgument(NodeTag(node.name()), " has inputs from different frames. The input ",
                                   NodeTag(a.name()), " is in frame '", frame(a), "'. The input ",
                                   NodeTag(b.name()), " is in frame '",
                                   &a == &b ? out_.frames[out_.frame_of[node.id()]].name : frame(b), "'.");
  }

  StatusOr<int> FrameOfInputs(const Node& node) const {
    const Node* first = nullptr;
    for (const Edge* e : node.in_edges()) {
      if (e == nullptr || !e->src->IsOp() || IsLoopBackEdge(*e)) continue;
      if (first == nullptr) {
        first = e->src;
      } else if (out_.target_of[e->src->id()] != out_.target_of[first->id()]) {
        return Different(node, *first, *e->src);
      }
    }
    return first == nullptr ? 0 : out_.target_of[first->id()];
  }

  StatusOr<int> Enter(const Node& node, int from) {
    MR_ASSIGN_OR_RETURN(const std::string name, node.Attr<std::string>("frame_name"));
    MR_ASSIGN_OR_RETURN(const int64_t parallel, node.Attr<int64_t>("parallel_iterations"));
    if (parallel < 1) {
      return errors::InvalidArgument("Node '", node.name(), "': parallel_iterations must be positive, got ",
                                     parallel);
    }
    if (parallel > INT32_MAX) {
      return errors::InvalidArgument("Node '", node.name(), "': parallel_iterations must be at most ",
                                     INT32_MAX, ", got ", parallel);
    }
    const auto [it, is_new] = by_name_.try_emplace(name, static_cast<int>(out_.frames.size()));
    if (is_new) {
      const int depth = out_.frames[from].depth + 1;
      if (depth > kMostNested) {
        return errors::InvalidArgument("Node '", node.name(), "': more than ", kMostNested, " nested loops");
      }
      Frames::Frame& f = out_.frames.emplace_back();
      f.depth = depth;
      f.name = from == 0 ? name : StrCat(out_.frames[from].name, "/", name);
      f.parent = from;
      f.parallel_iterations = static_cast<int>(parallel);
    }
    Frames::Frame& f = out_.frames[it->second];
    if (f.parent != from) {
      return errors::InvalidArgument("Node '", node.name(), "' enters the frame '", name,
                                     "' from the frame '", out_.frames[from].name,
                                     "', other nodes enter it from '", out_.frames[f.parent].name, "'");
    }
    ++f.num_enters;
    return it->second;
  }

  Frames out_;
  std::unordered_map<std::string, int> by_name_;
};

}  // namespace

Flow FlowOf(const Node& node) {
  if (!node.traits().is_control_flow) return Flow::kNone;
  for (const auto& [op, flow] : kFlows) {
    if (op == node.op_name()) return flow;
  }
  return Flow::kNone;
}

StatusOr<Frames> FindFrames(const Graph& graph, const std::vector<Node*>& order) {
  FrameFinder finder(graph);
  for (const Node* node : order) {
    if (node->IsOp()) MR_RETURN_IF_ERROR(finder.Visit(*node));
  }
  for (const Node* node : order) {
    if (node->IsOp()) MR_RETURN_IF_ERROR(finder.CheckBackEdges(*node));
  }
  return finder.Take();
}

}  // namespace millrace
