// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/inline.h"

#include <algorithm>
#include <deque>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "compile/lower/function_calls.h"
#include "compile/optimize/inline_cleanup.h"
#include "compile/optimize/inline_devices.h"
#include "graph/frames.h"
#include "graph/function_gradient.h"
#include "graph/lower_functional.h"
#include "tensorflow/core/framework/function.pb.h"

namespace millrace {
namespace {

using NodeNames = std::set<std::string, std::less<>>;

constexpr std::string_view kLoc = "loc:@";

bool IsTrue(const AttrMap& attrs, std::string_view name) {
  const AttrValue* value = attrs.Find(name);
  const bool* flag = value == nullptr ? nullptr : value->As<bool>();
  return flag != nullptr && *flag;
}

// Copies one body to the graph in place of one call.
class CallInliner {
 public:
  CallInliner(Node* call, FunctionBody body, bool has_control_flow, std::unordered_set<int>* own_devices,
              NodeNames* must_run)
      : own_devices_(own_devices),
        call_(*call),
        graph_(call->graph()),
        body_(std::move(body)),
        prefix_(call->name() + "/"),
        has_control_flow_(has_control_flow),
        must_run_(must_run) {}

  // Returns the copies; the call is removed.
  StatusOr<std::vector<Node*>> Run() {
    MR_RETURN_IF_ERROR(FindLoops());
    MR_RETURN_IF_ERROR(CollectInputs());
    MR_RETURN_IF_ERROR(AddInputControl());
    copies_.resize(static_cast<size_t>(body_.graph->num_node_ids()), nullptr);
    sources_.resize(copies_.size());
    for (size_t i = 0; i < body_.args.size(); ++i)
      sources_[static_cast<size_t>(body_.args[i]->id())] = inputs_[i];
    for (const Node* node : body_.graph->OpNodes()) {
      if (!IsBorder(*node)) MR_RETURN_IF_ERROR(CopyNode(*node));
    }
    for (const Node* node : body_.graph->OpNodes()) {
      if (!IsBorder(*node)) CopyInputs(*node);
    }
    MR_RETURN_IF_ERROR(ConnectConsumers());
    for (const Node* node : body_.control_rets) {
      if (must_run_ != nullptr && !IsBorder(*node)) must_run_->insert(CopyOf(node)->name());
    }
    graph_.RemoveNode(&call_);
    return std::move(added_);
  }

 private:
  using Tensor = std::pair<Node*, int>;

  static bool IsBorder(const Node& node) { return node.op_name() == "_Arg" || node.op_name() == "_Retval"; }
  Node* CopyOf(const Node* node) const { return copies_[static_cast<size_t>(node->id())]; }

  static bool HasEffects(const Node& node) {
    return node.op_def().is_stateful || node.traits().has_side_effects;
  }

  // Edges lead into a loop of the body only through an Enter, and out of it through an Exit: nodes with
  // effects in the loop wait, and are waited for, through these.
  Status FindLoops() {
    const std::vector<Node*> nodes = body_.graph->OpNodes();
    if (std::ranges::none_of(nodes, [](const Node* n) { return FlowOf(*n) == Flow::kEnter; }))
      return Status();
    MR_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrderById(*body_.graph));
    MR_ASSIGN_OR_RETURN(loops_, FindFrames(*body_.graph, order));
    effects_in_loops_ =
        std::ranges::any_of(nodes, [this](const Node* n) { return InLoop(*n) && HasEffects(*n); });
    return Status();
  }
  int FrameOf(const Node& node) const {
    return loops_.frames.empty() ? 0 : loops_.frame_of[static_cast<size_t>(node.id())];
  }
  int TargetOf(const Node& node) const {
    return loops_.frames.empty() ? 0 : loops_.target_of[static_cast<size_t>(node.id())];
  }
  bool InLoop(const Node& node) const { return FrameOf(node) > 0; }
  bool EntersEffects(const Node& node) const {
    return effects_in_loops_ && FrameOf(node) == 0 && TargetOf(node) > 0;
  }
  bool LeavesEffects(const Node& node) const {
    return effects_in_loops_ && FrameOf(node) > 0 && TargetOf(node) == 0;
  }

  StatusOr<Node*> Add(const std::string& name, std::string_view op, AttrMap attrs) {
    MR_ASSIGN_OR_RETURN(Node * node, graph_.AddNode(graph_.NewName(prefix_ + name), op, std::move(attrs)));
    node->set_requested_device(Device());
    return node;
  }
  const std::string& Device() const {
    return call_.has_assigned_device() ? call_.assigned_device() : call_.requested_device();
  }

  // The arguments of the parameters; references are read here.
  Status CollectInputs() {
    for (int i = 0; i < call_.num_inputs(); ++i) {
      MR_ASSIGN_OR_RETURN(const Edge* edge, call_.InputEdge(i));
      Tensor source(edge->src, edge->src_output);
      const DataType type = source.first->output_type(source.second);
      if (IsRefType(type)) {
        MR_ASSIGN_OR_RETURN(Node * read, Add("input", "Identity", {{"T", BaseType(type)}}));
        graph_.AddEdge(source.first, source.second, read, 0);
        source = {read, 0};
      }
      inputs_.push_back(source);
    }
    for (const Edge* edge : call_.control_in_edges()) {
      if (edge->src->IsOp()) waits_for_.push_back(edge->src);
    }
    return Status();
  }

  // The nodes for which the call waited, including its inputs if the call can be dead or is in a loop.
  Status AddInputControl() {
    if (waits_for_.empty() && (!has_control_flow_ || inputs_.empty())) return Status();
    MR_ASSIGN_OR_RETURN(input_control_, Add("input_control_node", "NoOp", {}));
    for (Node* node : waits_for_) graph_.AddControlEdge(node, input_control_);
    if (!has_control_flow_) return Status();
    for (const Tensor& input : inputs_) MR_RETURN_IF_ERROR(AddPivot(input));
    return Status();
  }

  // A control edge from a Switch would not show which of its outputs is dead.
  Status AddPivot(const Tensor& input) {
    Node* src = input.first;
    if (src->traits().is_control_flow && src->num_outputs() > 1) {
      MR_ASSIGN_OR_RETURN(src, Add("pivot", "Identity", {{"T", BaseType(src->output_type(input.second))}}));
      graph_.AddEdge(input.first, input.second, src, 0);
    }
    graph_.AddControlEdge(src, input_control_);
    return Status();
  }

  Status CopyNode(const Node& node) {
    AttrMap attrs = node.attrs();
    const bool changed = Rename(node, &attrs);
    std::shared_ptr<const NodeProps> props = node.shared_props();
    if (changed || body_.graph->functions().Find(node.op_name()) != nullptr) {
      // The signature of a function exists as long as the library that it comes from.
      MR_ASSIGN_OR_RETURN(const OpRegistration* op, graph_.LookUpOp(node.op_name()));
      MR_ASSIGN_OR_RETURN(props, NodeProps::Make(*op, std::move(attrs)));
    }
    Node* copy = graph_.AddNodeWithProps(graph_.NewName(prefix_ + node.name()), std::move(props));
    if (node.requested_device().empty()) {
      copy->set_requested_device(Device());
    } else {
      copy->set_requested_device(node.requested_device());
      own_devices_->insert(copy->id());
    }
    copies_[static_cast<size_t>(node.id())] = copy;
    added_.push_back(copy);
    return Status();
  }

  // Names in attributes: of colocated nodes, of loops, of temporary variables, which belong to the call, but
  // not of state, which stays that of the function.
  bool Rename(const Node& node, AttrMap* attrs) const {
    bool changed = RenameTemporary(node, attrs);
    if (const AttrValue* value = node.attrs().Find("_class"); value != nullptr) {
      if (const auto* list = value->As<std::vector<std::string>>()) {
        std::vector<std::string> renamed = *list;
        for (std::string& entry : renamed) {
          if (entry.starts_with(kLoc) && body_.graph->FindNode(entry.substr(kLoc.size())) != nullptr)
            entry = StrCat(kLoc, prefix_, entry.substr(kLoc.size()));
        }
        attrs->Set("_class", std::move(renamed));
        changed = true;
      }
    }
    if (const AttrValue* frame = node.attrs().Find("frame_name"); frame != nullptr) {
      if (const auto* name = frame->As<std::string>()) {
        attrs->Set("frame_name", prefix_ + *name);
        changed = true;
      }
    }
    if (const AttrValue* shared = node.attrs().Find("shared_name"); shared != nullptr) {
      if (const auto* name = shared->As<std::string>(); name != nullptr && name->empty()) {
        attrs->Set("shared_name", node.name());
        changed = true;
      }
    }
    return changed;
  }

  bool RenameTemporary(const Node& node, AttrMap* attrs) const {
    if (node.op_name() != "TemporaryVariable" && node.op_name() != "DestroyTemporaryVariable") return false;
    const std::string name = node.Attr<std::string>("var_name").value_or("");
    attrs->Set("var_name", prefix_ + (name.empty() ? node.name() : name));
    return true;
  }

  void CopyInputs(const Node& node) {
    Node* copy = CopyOf(&node);
    bool has_input = false;
    bool takes_arg = false;
    for (const Edge* edge : node.in_edges()) {
      if (edge == nullptr || !edge->src->IsOp()) continue;
      const bool from_arg = edge->src->op_name() == "_Arg";
      if (edge->IsControl()) {
        // Waiting for a parameter is waiting for its argument.
        graph_.AddControlEdge(from_arg ? Source(*edge->src).first : CopyOf(edge->src), copy);
      } else if (from_arg) {
        graph_.AddEdge(Source(*edge->src).first, Source(*edge->src).second, copy, edge->dst_input);
      } else {
        graph_.AddEdge(CopyOf(edge->src), edge->src_output, copy, edge->dst_input);
      }
      has_input = true;
      takes_arg |= from_arg && MayOutliveCall(*edge->src);
    }
    const bool must_wait =
        HasEffects(node) || EntersEffects(node) || (has_control_flow_ && !has_input) || takes_arg;
    if (input_control_ != nullptr && must_wait && !InLoop(node)) graph_.AddControlEdge(input_control_, copy);
  }

  // Whether a parameter may be alive in a dead call. An output of a Switch, as in lowered conditions and
  // loops, is assumed to be dead with the other inputs.
  bool MayOutliveCall(const Node& arg) const {
    return has_control_flow_ && (!waits_for_.empty() || inputs_.size() > 1) &&
           !Source(arg).first->traits().is_control_flow;
  }

  const Tensor& Source(const Node& arg) const { return sources_[static_cast<size_t>(arg.id())]; }

  Status ConnectConsumers() {
    std::vector<Tensor> results;
    for (const Node* ret : body_.rets) {
      const Edge* edge = ret->in_edges()[0];
      Tensor source =
          edge->src->op_name() == "_Arg" ? Source(*edge->src) : Tensor(CopyOf(edge->src), edge->src_output);
      const DataType type = source.first->output_type(source.second);
      const bool dies =
          edge->src->op_name() == "_Arg" && MayOutliveCall(*edge->src) && input_control_ != nullptr;
      if (IsRefType(type) || dies) {
        MR_ASSIGN_OR_RETURN(Node * read, Add("output", "Identity", {{"T", BaseType(type)}}));
        graph_.AddEdge(source.first, source.second, read, 0);
        if (dies) graph_.AddControlEdge(input_control_, read);
        source = {read, 0};
      }
      results.push_back(source);
    }
    if (must_run_ != nullptr && must_run_->contains(call_.name())) {
      for (const Tensor& result : results) must_run_->insert(result.first->name());
    }
    const std::vector<Edge*> edges(call_.out_edges().begin(), call_.out_edges().end());
    std::vector<Node*> waiting;
    for (Edge* edge : edges) {
      if (edge->IsControl()) {
        if (edge->dst->IsOp()) waiting.push_back(edge->dst);
        continue;
      }
      const Tensor& result = results[static_cast<size_t>(edge->src_output)];
      graph_.UpdateInput(edge->dst, edge->dst_input, result.first, result.second);
    }
    return waiting.empty() ? Status() : AddOutputControl(waiting, results);
  }

  Status AddOutputControl(const std::vector<Node*>& waiting, const std::vector<Tensor>& results) {
    MR_ASSIGN_OR_RETURN(Node * done, Add("output_control_node", "NoOp", {}));
    if (input_control_ != nullptr) graph_.AddControlEdge(input_control_, done);
    for (const Tensor& result : results) graph_.AddControlEdge(result.first, done);
    MR_ASSIGN_OR_RETURN(Node * effects, EffectsOfBody(done));
    for (const Node* node : body_.control_rets) {
      if (!IsBorder(*node)) graph_.AddControlEdge(CopyOf(node), effects);
    }
    for (const Node* node : body_.graph->OpNodes()) {
      if (!IsBorder(*node) && ((HasEffects(*node) && !InLoop(*node)) || LeavesEffects(*node)))
        graph_.AddControlEdge(CopyOf(node), effects);
    }
    for (const Tensor& input : inputs_) graph_.AddControlEdge(input.first, done);
    for (Node* node : waiting) graph_.AddControlEdge(done, node);
    return Status();
  }

  // Nodes that wait for the effects of the body before `done`. Effects in a branch of the body that is not
  // taken are dead, which must not make the end of the call dead: a trigger replaces them. `done` is dead if
  // the call is, by its inputs.
  StatusOr<Node*> EffectsOfBody(Node* done) {
    if (!has_control_flow_) return done;
    MR_ASSIGN_OR_RETURN(Node * trigger, Add("effects", "ControlTrigger", {}));
    graph_.AddControlEdge(trigger, done);
    return trigger;
  }

  std::unordered_set<int>* const own_devices_;  // ids of copies with a device that is set in the body
  Node& call_;
  Graph& graph_;
  FunctionBody body_;
  const std::string prefix_;
  const bool has_control_flow_;
  NodeNames* const must_run_;
  Frames loops_;  // of the body; without frames if there are none
  bool effects_in_loops_ = false;
  std::vector<Tensor> inputs_;
  std::vector<Node*> waits_for_;
  Node* input_control_ = nullptr;
  std::vector<Node*> copies_;    // by id in the body
  std::vector<Tensor> sources_;  // of parameters, by id in the body
  std::vector<Node*> added_;
};

class Inliner {
 public:
  Inliner(Graph* graph, const InlineOptions& options, NodeNames* must_run)
      : graph_(*graph), options_(options), must_run_(must_run) {}

  StatusOr<InlineResult> Run() {
    const int first_added = graph_.num_node_ids();
    for (Node* node : graph_.OpNodes()) {
      has_control_flow_ |= node->traits().is_control_flow;
      Consider(node, nullptr);
    }
    // A lowered condition adds control flow to the rest of the graph, so conditions are inlined first.
    while (!conditions_.empty() || !calls_.empty()) {
      std::deque<Item>& from = conditions_.empty() ? calls_ : conditions_;
      const Item item = from.front();
      from.pop_front();
      if (&from == &conditions_) {
        MR_RETURN_IF_ERROR(Lower(item));
      } else {
        MR_RETURN_IF_ERROR(Inline(item));
      }
    }
    if (result_.inlined + result_.lowered > 0) graph_.FixupSourceAndSinkEdges();
    ReleaseInheritedDevices(&graph_, first_added, own_devices_, options_.has_kernel);
    return result_;
  }

 private:
  // The functions whose bodies contain a node.
  struct Chain {
    std::string function;
    const Chain* parent;
  };
  struct Item {
    Node* node;
    const Chain* within;
  };

  void Consider(Node* node, const Chain* within) {
    if (options_.lower_functional && IsTrue(node->attrs(), kLowerAttr) && CanLower(*node)) {
      conditions_.push_back({node, within});
    } else if (options_.inline_calls && CalleeOf(*node)) {
      calls_.push_back({node, within});
    }
  }

  Status Lower(const Item& item) {
    const auto name_bytes = static_cast<int64_t>(item.node->name().size());
    if (added_ > options_.max_added_nodes || added_name_bytes_ > options_.max_added_name_bytes)
      return Status();
    MR_ASSIGN_OR_RETURN(const LoweredNode lowered, LowerFunctional(item.node));
    added_ += lowered.num_added;
    added_name_bytes_ += name_bytes * lowered.num_added;
    has_control_flow_ = true;
    ++result_.lowered;
    for (Node* call : lowered.calls) Consider(call, item.within);
    return Status();
  }

  bool MayInline(const Node& call, const NameAttrList& callee, const Chain* within) const {
    if (IsTrue(call.attrs(), "_noinline")) return false;
    for (const Chain* c = within; c != nullptr; c = c->parent) {
      if (c->function == callee.name) return false;
    }
    const tensorflow::FunctionDef* def = graph_.functions().Find(callee.name);
    if (def == nullptr) return true;
    const auto flag = def->attr().find("_noinline");
    return flag == def->attr().end() || !flag->second.b();
  }

  Status Inline(const Item& item) {
    const std::optional<NameAttrList> callee = CalleeOf(*item.node);
    const NameAttrList name = Innermost(*callee);
    if (added_ > options_.max_added_nodes || !MayInline(*item.node, name, item.within)) return Status();
    auto body = InstantiateCallee(graph_.functions(), graph_.ops(), *callee);
    if (!body.ok() || !Fits(*item.node, *body)) return Status();
    CleanUpBody(&*body);
    const int64_t name_bytes =
        static_cast<int64_t>(item.node->name().size()) * int64_t{body->graph->num_nodes()};
    if (name_bytes > options_.max_added_name_bytes - added_name_bytes_) return Status();
    added_ += body->graph->num_nodes();
    added_name_bytes_ += name_bytes;
    for (const Node* node : body->graph->OpNodes()) has_control_flow_ |= node->traits().is_control_flow;
    MR_ASSIGN_OR_RETURN(
        const std::vector<Node*> copies,
        CallInliner(item.node, *std::move(body), has_control_flow_, &own_devices_, must_run_).Run());
    ++result_.inlined;
    chains_.push_back({name.name, item.within});
    for (Node* node : copies) Consider(node, &chains_.back());
    return Status();
  }

  // Gradients of gradients of a function count as that function.
  static NameAttrList Innermost(NameAttrList f) {
    while (f.name == "SymbolicGradient" && f.attrs != nullptr) {
      const AttrValue* value = f.attrs->Find("f");
      const auto* inner = value == nullptr ? nullptr : value->As<NameAttrList>();
      if (inner == nullptr) break;
      f = NameAttrList(*inner);
    }
    return f;
  }

  static bool Fits(const Node& call, const FunctionBody& body) {
    const NodeProps& props = call.props();
    return props.input_types == body.arg_types && props.output_types == body.ret_types;
  }

  Graph& graph_;
  const InlineOptions& options_;
  NodeNames* const must_run_;
  InlineResult result_;
  std::deque<Item> conditions_, calls_;
  std::deque<Chain> chains_;  // a deque: they cannot be moved
  std::unordered_set<int> own_devices_;
  int added_ = 0;
  int64_t added_name_bytes_ = 0;
  bool has_control_flow_ = false;
};

}  // namespace

StatusOr<InlineResult> InlineFunctions(Graph* graph, const InlineOptions& options,
                                       std::set<std::string, std::less<>>* must_run) {
  return Inliner(graph, options, must_run).Run();
}

}  // namespace millrace
