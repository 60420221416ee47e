// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/lower/variable_reads.h"

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "graph/frames.h"

namespace millrace {
namespace {

// The most edges to follow in total, so that compilation stays linear; further reads count as early ones.
constexpr int64_t kMostSteps = 20'000'000;

// An output of a node.
struct Value {
  Node* node = nullptr;
  int output = 0;
  friend bool operator<(const Value& a, const Value& b) {
    return std::pair(a.node->id(), a.output) < std::pair(b.node->id(), b.output);
  }
};

bool IsIdentity(const Node& node) { return node.op_name() == "Identity"; }

bool IsLoopConstant(const Node& node) {
  return node.op_name() == "Enter" && node.attrs().Get<bool>("is_constant").value_or(false);
}

// Forwards its first input unchanged.
bool PassesOn(const Node& node) {
  return IsIdentity(node) || IsLoopConstant(node) || node.op_name() == "Switch";
}

// Whether a node with a reference input may write to the variable.
bool MayWrite(const Node& node) {
  return FlowOf(node) == Flow::kNone && node.op_name() != "RefIdentity" &&
         node.op_name() != "IsVariableInitialized";
}

// An output that is a variable: a reference to a tensor of any type that the node itself makes. Handles of
// queues and the like are references to strings.
bool MakesVariable(const Node& node) {
  const std::vector<ArgDef>& outputs = node.op_def().outputs;
  if (outputs.size() != 1 || !outputs[0].is_ref || outputs[0].type_attr.empty()) return false;
  for (int i = 0; i < node.num_inputs(); ++i) {
    if (IsRefType(node.input_type(i))) return false;
  }
  return true;
}

// One variable, and the nodes that refer to it.
class Variable {
 public:
  Variable(Graph& graph, Node* variable, int64_t* steps)
      : graph_(graph), device_(variable->assigned_device_index()), steps_(*steps) {
    Follow({variable, 0});
  }

  StatusOr<int> ReadLate() {
    int changes = 0;
    // `reads_` grows: a node that takes the reference becomes a read itself.
    for (size_t i = 0; i < reads_.size() && !writers_.empty(); ++i) {
      MR_RETURN_IF_ERROR(VisitRead(reads_[i], &changes));
      if (steps_ <= 0) break;
    }
    return changes;
  }

 private:
  // Finds all references to the variable, its writers and its reads.
  void Follow(const Value& first) {
    std::vector<Value> pending{first};
    while (!pending.empty()) {
      const Value value = pending.back();
      pending.pop_back();
      if (!references_.insert(value).second) continue;
      for (const Edge* edge : value.node->out_edges()) {
        if (edge->IsControl() || edge->src_output != value.output) continue;
        Node* const user = edge->dst;
        if (!IsRefType(user->input_type(edge->dst_input))) {
          if (edge->dst_input == 0 && PassesOn(*user)) reads_.push_back(user);
          continue;
        }
        if (MayWrite(*user)) writers_.insert(user);
        for (int i = 0; i < user->num_outputs(); ++i) {
          if (IsRefType(user->output_type(i))) pending.push_back({user, i});
        }
      }
    }
  }

  // By node id: the nodes that run before the read, in the same iteration if it is in a loop.
  std::vector<bool> Before(const Node* read) {
    std::vector<bool> before(static_cast<size_t>(graph_.num_node_ids()));
    std::vector<const Node*> pending{read};
    while (!pending.empty()) {
      const Node* const node = pending.back();
      pending.pop_back();
      for (const Edge* edge : node->in_edges()) {
        --steps_;
        const auto id = static_cast<size_t>(edge->src->id());
        if (before[id] || IsLoopBackEdge(*edge)) continue;
        before[id] = true;
        pending.push_back(edge->src);
      }
    }
    return before;
  }

  // By node id: the nodes that run after a writer that does not run before `read`.
  std::vector<bool> AfterWriters(const Node* read) {
    std::vector<bool> after(static_cast<size_t>(graph_.num_node_ids()));
    steps_ -= graph_.num_node_ids() / 64;
    const std::vector<bool> before = Before(read);
    std::vector<const Node*> pending;
    for (const Node* writer : writers_) {
      if (!before[static_cast<size_t>(writer->id())]) pending.push_back(writer);
    }
    while (!pending.empty()) {
      const Node* const node = pending.back();
      pending.pop_back();
      for (const Edge* edge : node->out_edges()) {
        --steps_;
        const auto id = static_cast<size_t>(edge->dst->id());
        if (edge->dst == read || after[id]) continue;
        after[id] = true;
        pending.push_back(edge->dst);
      }
    }
    return after;
  }

  // A node that forwards the variable's value, and its predecessor on the path from the read.
  struct Place {
    Node* node = nullptr;
    int output = 0;   // of the predecessor
    int before = -1;  // index of the predecessor; -1: `node` is the read
  };

  Status VisitRead(Node* read, int* changes) {
    if (read->assigned_device_index() != device_ || !visited_.insert(read).second) return Status();
    const std::vector<bool> after = AfterWriters(read);
    std::vector<Place> places{{.node = read}};
    for (size_t at = 0; at < places.size(); ++at) {
      Node* const node = places[at].node;
      const std::vector<Edge*> edges(node->out_edges().begin(), node->out_edges().end());
      for (const Edge* const edge : edges) {
        Node* const user = edge->dst;
        const int slot = edge->dst_input, output = edge->src_output;
        if (edge->IsControl() || user->assigned_device_index() != device_) continue;
        const bool passes_on = slot == 0 && PassesOn(*user);
        if (!passes_on && FlowOf(*user) != Flow::kNone) continue;
        const auto id = static_cast<size_t>(user->id());
        if (id < after.size() && after[id]) {
          std::vector<Node*> earlier;
          MR_ASSIGN_OR_RETURN(const Value reference,
                              ReferenceAt(places, static_cast<int>(at), output, &earlier));
          graph_.UpdateInput(user, slot, reference.node, reference.output);
          for (Node* const passed : earlier) graph_.AddControlEdge(passed, user);
          ++*changes;
          if (passes_on) reads_.push_back(user);
        } else if (passes_on) {
          places.push_back({user, output, static_cast<int>(at)});
        }
      }
    }
    return Status();
  }

  // The reference that corresponds to an output of places[at]: the input of an Identity, or the output of a
  // parallel node like places[at]. Appends to `earlier` the Identity nodes on the way, which run first.
  StatusOr<Value> ReferenceAt(const std::vector<Place>& places, int at, int output,
                              std::vector<Node*>* earlier) {
    const Place& place = places[static_cast<size_t>(at)];
    Node* const node = place.node;
    if (Node* const made = MadeFor(node); made != nullptr) return Value{made, output};
    Value input;
    if (place.before < 0) {
      const Edge* const edge = node->data_in_edges()[0];
      input = {edge->src, edge->src_output};
    } else {
      MR_ASSIGN_OR_RETURN(input, ReferenceAt(places, place.before, place.output, earlier));
    }
    if (IsIdentity(*node)) {
      earlier->push_back(node);
      return input;
    }
    AttrMap attrs = node->attrs();
    MR_ASSIGN_OR_RETURN(Node* const made, graph_.AddNode(graph_.NewName(StrCat(node->name(), "/ref")),
                                                         StrCat("Ref", node->op_name()), std::move(attrs)));
    made->set_requested_device_index(node->requested_device_index());
    made->set_assigned_device_index(node->assigned_device_index());
    graph_.AddEdge(input.node, input.output, made, 0);
    for (int i = 1; i < node->num_inputs(); ++i) {
      const Edge* const edge = node->data_in_edges()[static_cast<size_t>(i)];
      graph_.AddEdge(edge->src, edge->src_output, made, i);
    }
    for (const Edge* edge : node->control_in_edges()) graph_.AddControlEdge(edge->src, made);
    for (Node* const passed : *earlier) graph_.AddControlEdge(passed, made);
    earlier->clear();
    made_[node] = made;
    return Value{made, output};
  }

  Node* MadeFor(Node* node) const {
    const auto found = made_.find(node);
    return found == made_.end() ? nullptr : found->second;
  }

  Graph& graph_;
  const int device_;
  int64_t& steps_;
  std::set<Value> references_;
  std::set<Node*> writers_;
  std::vector<Node*> reads_;
  std::set<Node*> visited_;
  std::map<Node*, Node*> made_;  // nodes that forward the reference, by those that forward the value
};

}  // namespace

StatusOr<int> ReadVariablesLate(Graph* graph) {
  int changes = 0;
  int64_t steps = kMostSteps;
  for (Node* const node : graph->OpNodes()) {
    if (!MakesVariable(*node) || steps <= 0) continue;
    MR_ASSIGN_OR_RETURN(const int changed, Variable(*graph, node, &steps).ReadLate());
    changes += changed;
  }
  return changes;
}

}  // namespace millrace
