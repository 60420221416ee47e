// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/branches.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "graph/frames.h"

namespace millrace {
namespace {

bool IsSwitch(const Node& node) { return node.op_name() == "Switch"; }
bool IsMerge(const Node& node) { return node.op_name() == "Merge"; }

bool ClosesLoop(const Node& merge) {
  return std::any_of(merge.data_in_edges().begin(), merge.data_in_edges().end(),
                     [](const Edge* e) { return IsLoopBackEdge(*e); });
}

// The number of inputs of a Merge that can be alive before it has run.
int ForwardInputs(const Node& merge) {
  return static_cast<int>(std::count_if(merge.data_in_edges().begin(), merge.data_in_edges().end(),
                                        [](const Edge* e) { return !IsLoopBackEdge(*e); }));
}

bool TakesOrGivesReferences(const Node& node) {
  return std::any_of(node.props().output_types.begin(), node.props().output_types.end(), IsRefType) ||
         std::any_of(node.props().input_types.begin(), node.props().input_types.end(), IsRefType);
}

// The nodes that are dead because a Switch always takes one branch. A loop that is dead in its first
// iteration has no other one; a loop that is never repeated has dead back edges.
class DeadPart {
 public:
  explicit DeadPart(Rewriter& rewriter) : rewriter_(rewriter) {}

  // False if the part can't be removed.
  bool Find(const Node& node, int dead_output) {
    for (const Edge* edge : node.out_edges()) {
      if (edge->src_output == dead_output && !Reach(*edge)) return false;
    }
    for (size_t next = 0; next < queue_.size(); ++next) {
      for (const Edge* edge : queue_[next]->out_edges()) {
        if (!Reach(*edge)) return false;
      }
    }
    return std::all_of(merges_.begin(), merges_.end(), [&](const auto& merge_and_inputs) {
      return nodes_.contains(merge_and_inputs.first) ||
             CanGo(*merge_and_inputs.first, merge_and_inputs.second);
    });
  }

  const std::vector<Node*>& nodes() const { return queue_; }
  int64_t edges_seen() const { return edges_seen_; }
  bool Contains(Node* node) const { return nodes_.contains(node); }
  // Merges with one remaining input.
  std::vector<Node*> Merges() const {
    std::vector<Node*> merges;
    for (const auto& [merge, dead] : merges_) {
      if (!nodes_.contains(merge)) merges.push_back(merge);
    }
    std::sort(merges.begin(), merges.end(), [](const Node* a, const Node* b) { return a->id() < b->id(); });
    return merges;
  }

 private:
  struct DeadInputs {
    int forward = 0;
    int back = 0;
  };

  bool Reach(const Edge& edge) {
    ++edges_seen_;
    Node* node = edge.dst;
    if (!node->IsOp() || nodes_.contains(node)) return true;
    // A ControlTrigger runs even if its inputs are dead.
    if (FlowOf(*node) == Flow::kTrigger || TakesOrGivesReferences(*node) || node->traits().is_send ||
        node->op_name() == "_Retval")
      return false;
    if (IsMerge(*node)) {
      if (edge.IsControl()) return false;
      DeadInputs& dead = merges_[node];
      ++(IsLoopBackEdge(edge) ? dead.back : dead.forward);
      if (dead.forward < ForwardInputs(*node)) return true;
    }
    if (rewriter_.IsPreserved(*node)) return false;
    nodes_.insert(node);
    queue_.push_back(node);
    return true;
  }

  // Whether one input of the Merge remains and may replace it. A Merge, unlike other nodes, does not become
  // dead by a dead control input.
  bool CanGo(const Node& merge, const DeadInputs& dead) {
    if (rewriter_.IsPreserved(merge) || dead.forward + dead.back != merge.num_inputs() - 1) return false;
    if (ClosesLoop(merge) && dead.forward > 0) return false;
    const std::vector<Node*> waits = Rewriter::ControlInputs(merge);
    return std::none_of(waits.begin(), waits.end(), [&](Node* n) { return rewriter_.MayBeDead(*n); });
  }

  Rewriter& rewriter_;
  std::unordered_set<Node*> nodes_;
  std::vector<Node*> queue_;
  std::unordered_map<Node*, DeadInputs> merges_;
  int64_t edges_seen_ = 0;
};

class BranchResolver {
 public:
  BranchResolver(Graph* graph, const OptimizeOptions& options)
      : graph_(graph), rewriter_(graph, options), edges_left_(4 * int64_t{graph->num_edge_ids()}) {}

  int Run() {
    for (Node* node : graph_->OpNodes()) {
      if (!node->IsOp() || rewriter_.IsPreserved(*node)) continue;
      if (IsSwitch(*node)) {
        FoldPredicate(node);
        ResolveSwitch(node);
      } else if (IsMerge(*node)) {
        ResolveMerge(node);
      }
    }
    if (resolved_ > 0) graph_->FixupSourceAndSinkEdges();
    return resolved_;
  }

 private:
  // Whether an Identity can replace a node.
  bool HasIdentity(const Node& node) const {
    AttrMap attrs;
    attrs.Set("T", BaseType(node.output_type(0)));
    const auto op = graph_->LookUpOp("Identity");
    if (!op.ok()) return false;
    const auto props = NodeProps::Make(**op, std::move(attrs));
    return props.ok() && rewriter_.HasKernel(node, **props);
  }

  // An Identity of `value` in place of `node`, with its control inputs and control outputs.
  Node* StandIn(Node* node, const TensorRef& value) {
    AttrMap attrs;
    attrs.Set("T", BaseType(value.node->output_type(value.output)));
    Node* identity = rewriter_.Add(*node, "taken", "Identity", std::move(attrs), {value});
    if (identity == nullptr) return nullptr;
    for (Node* wait : Rewriter::ControlInputs(*node)) graph_->AddControlEdge(wait, identity);
    std::vector<Edge*> waiting;
    for (Edge* edge : node->out_edges()) {
      if (edge->IsControl() && edge->dst->IsOp()) waiting.push_back(edge);
    }
    for (Edge* edge : waiting) {
      Node* dst = edge->dst;
      graph_->RemoveEdge(edge);
      graph_->AddControlEdge(identity, dst);
    }
    return identity;
  }

  // The output that a Switch always takes. A loop matters only if it is never entered: others don't end.
  static std::optional<bool> Direction(const Node& node) {
    const Node* pred = InputOf(node, 1).node;
    const bool loop = FlowOf(*pred) == Flow::kCond;
    if (loop) pred = InputOf(*pred, 0).node;
    const Tensor* value = ConstTensorOf(*pred);
    if (value == nullptr || value->dtype() != DataType::kBool || value->rank() != 0) return std::nullopt;
    return loop && value->scalar<bool>() ? std::nullopt : std::optional(value->scalar<bool>());
  }

  // Whether the loop's condition in the frame of `node` starts nodes on one device only.
  bool FrameIsOnOneDevice(const Node& node) {
    if (device_of_frame_.empty()) FindDevicesOfFrames();
    const auto id = static_cast<size_t>(node.id());
    if (id >= frame_of_.size() || frame_of_[id] < 0) return false;
    return device_of_frame_[static_cast<size_t>(frame_of_[id])] != kSeveral;
  }

  void FindDevicesOfFrames() {
    device_of_frame_ = {kSeveral};
    const auto order = TopologicalOrder(*graph_);
    if (!order.ok()) return;
    auto frames = FindFrames(*graph_, *order);
    if (!frames.ok()) return;
    frame_of_ = std::move(frames->target_of);
    device_of_frame_.assign(frames->frames.size(), kNone);
    const auto add = [&](int frame, int device) {
      int& known = device_of_frame_[static_cast<size_t>(frame)];
      known = known == kNone || known == device ? device : kSeveral;
    };
    for (const Node* node : *order) {
      if (!node->IsOp()) continue;
      const auto id = static_cast<size_t>(node->id());
      add(frame_of_[id], node->assigned_device_index());
      add(frames->frame_of[id], node->assigned_device_index());
    }
  }

  void ResolveSwitch(Node* node) {
    const std::optional<bool> direction = Direction(*node);
    if (!direction) return;
    if (FlowOf(*InputOf(*node, 1).node) == Flow::kCond && !FrameIsOnOneDevice(*node)) return;
    const int live = *direction ? 1 : 0;
    if (!HasIdentity(*node) || edges_left_ < 0) return;
    DeadPart dead(rewriter_);
    if (!dead.Find(*node, 1 - live)) {
      edges_left_ -= dead.edges_seen();
      return;
    }
    for (Node* merge : dead.Merges()) {
      if (!HasIdentity(*merge)) return;
    }
    Node* pred = InputOf(*node, 1).node;
    // The loop's condition would hide the inputs of its constant.
    if (FlowOf(*pred) == Flow::kCond && !HasControlInputs(*pred)) pred = InputOf(*pred, 0).node;
    Node* taken = StandIn(node, InputOf(*node, 0));
    if (taken == nullptr) return;
    if (!IsFreeConst(*pred)) graph_->AddControlEdge(pred, taken);
    rewriter_.MoveConsumers({node, live}, {taken, 0});
    for (Node* merge : dead.Merges()) {
      for (int i = 0; i < merge->num_inputs(); ++i) {
        const TensorRef input = InputOf(*merge, i);
        if (!dead.Contains(input.node) && input.node != node) TakeInput(merge, i);
        if (!merge->IsOp()) break;
      }
    }
    for (Node* gone : dead.nodes()) graph_->RemoveNode(gone);
    graph_->RemoveNode(node);
    ++resolved_;
  }

  // In each branch the value of the predicate is known.
  void FoldPredicate(Node* node) {
    if (InputOf(*node, 0) != InputOf(*node, 1) || TakesOrGivesReferences(*node)) return;
    for (int output = 0; output < 2; ++output) {
      std::vector<Edge*> wanted;
      for (Edge* edge : node->out_edges()) {
        if (edge->src_output != output) continue;
        if (edge->dst->op_name() != "Identity") {
          wanted.push_back(edge);
          continue;
        }
        for (Edge* next : edge->dst->out_edges()) {
          if (!next->IsControl()) wanted.push_back(next);
        }
      }
      for (Edge* edge : wanted) {
        Node* const from = edge->src == node ? rewriter_.Anchor(*edge->dst, {node, output}) : edge->src;
        if (from == nullptr || from == edge->dst) continue;
        Node* constant = rewriter_.AddConst(*from, "value", Tensor::Scalar(output == 1), {from});
        if (constant == nullptr) return;
        graph_->UpdateInput(edge->dst, edge->dst_input, constant, 0);
        ++resolved_;
      }
    }
  }

  // Replaces `merge` by its input i.
  void TakeInput(Node* merge, int i) {
    Node* taken = StandIn(merge, InputOf(*merge, i));
    if (taken == nullptr) return;
    rewriter_.MoveConsumers({merge, 0}, {taken, 0});
    if (merge->num_outputs() > 1 && CountConsumers(*merge, 1) > 0) {
      std::vector<Node*> after;
      if (!IsFreeConst(*InputOf(*taken, 0).node)) after.push_back(taken);
      Node* index = rewriter_.AddConst(*merge, "index", Tensor::Scalar(static_cast<int32_t>(i)), after);
      rewriter_.MoveConsumers({merge, 1}, {index, 0});
    }
    graph_->RemoveNode(merge);
    ++resolved_;
  }

  // An input that is always alive can be used; both outputs of a Switch together are its input.
  void ResolveMerge(Node* node) {
    if (HasControlInputs(*node) || ClosesLoop(*node) || !HasIdentity(*node)) return;
    for (int i = 0; i < node->num_inputs(); ++i) {
      if (!IsFreeConst(*InputOf(*node, i).node)) continue;
      std::vector<Node*> inputs;
      for (int j = 0; j < node->num_inputs(); ++j) inputs.push_back(InputOf(*node, j).node);
      TakeInput(node, i);
      for (Node* input : inputs) rewriter_.RemoveUnused(input);
      return;
    }
    if (node->num_inputs() != 2 || CountConsumers(*node, 1) > 0) return;
    const TensorRef a = InputOf(*node, 0);
    const TensorRef b = InputOf(*node, 1);
    if (!IsSwitch(*a.node) || !IsSwitch(*b.node) || a.output == b.output) return;
    for (int i = 0; i < 2; ++i) {
      if (InputOf(*a.node, i) != InputOf(*b.node, i)) return;
    }
    if (a.node != b.node && (HasControlInputs(*a.node) || HasControlInputs(*b.node))) return;
    const TensorRef data = InputOf(*a.node, 0);
    if (IsRefType(data.node->output_type(data.output))) return;
    Node* const decided = rewriter_.Anchor(*node, InputOf(*a.node, 1));
    Node* const taken = decided == nullptr ? nullptr : StandIn(node, data);
    if (taken == nullptr) return;
    graph_->AddControlEdge(decided, taken);
    for (Node* wait : Rewriter::ControlInputs(*a.node)) graph_->AddControlEdge(wait, taken);
    rewriter_.MoveConsumers({node, 0}, {taken, 0});
    graph_->RemoveNode(node);
    for (Node* unused : {a.node, b.node}) {
      if (unused->IsOp()) rewriter_.RemoveUnused(unused);
    }
    ++resolved_;
  }

  static constexpr int kNone = -2, kSeveral = -3;  // of device_of_frame_

  Graph* const graph_;
  Rewriter rewriter_;
  std::vector<int> frame_of_;         // by node id, of the graph when the first loop was found
  std::vector<int> device_of_frame_;  // an index of a device, kNone or kSeveral
  int64_t edges_left_;                // the number of edges that unsuccessful searches may still visit
  int resolved_ = 0;
};

}  // namespace

int ResolveBranches(Graph* graph, const OptimizeOptions& options) {
  const std::vector<Node*> nodes = graph->OpNodes();
  const bool any = std::any_of(nodes.begin(), nodes.end(), [](const Node* n) {
    return n->traits().is_control_flow && (IsSwitch(*n) || IsMerge(*n));
  });
  return any ? BranchResolver(graph, options).Run() : 0;
}

}  // namespace millrace
