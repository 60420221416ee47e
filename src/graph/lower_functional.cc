// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/lower_functional.h"

#include <string>
#include <utility>

#include "graph/function_library.h"
#include "millrace/tensor.h"
#include "op/attr_value.h"
#include "tensorflow/core/framework/function.pb.h"

namespace millrace {
namespace {

bool IsIf(const Node& node) { return node.op_name() == "If" || node.op_name() == "StatelessIf"; }
bool IsWhile(const Node& node) { return node.op_name() == "While" || node.op_name() == "StatelessWhile"; }

class Lowering {
 public:
  Lowering(Node* node, const LowerOptions& options)
      : node_(*node), graph_(node->graph()), options_(options) {}

  StatusOr<LoweredNode> Run() {
    for (int i = 0; i < node_.num_inputs(); ++i) {
      MR_ASSIGN_OR_RETURN(const Edge* edge, node_.InputEdge(i));
      inputs_.push_back({edge->src, edge->src_output});
    }
    for (const Edge* edge : node_.control_in_edges()) {
      if (edge->src->IsOp()) waits_for_.push_back(edge->src);
    }
    MR_RETURN_IF_ERROR(IsWhile(node_) ? LowerWhile() : LowerBranches());
    MR_RETURN_IF_ERROR(ConnectConsumers());
    graph_.RemoveNode(&node_);
    return std::move(lowered_);
  }

 private:
  struct Tensor {
    Node* node = nullptr;
    int output = 0;
  };
  // One branch of a condition: taken when `pred` is `when`.
  struct Branch {
    NameAttrList f;
    Tensor pred;
    bool when = true;
    std::string name;
  };

  DataType TypeOf(const Tensor& t) const { return BaseType(t.node->output_type(t.output)); }

  StatusOr<Node*> Add(const std::string& name, std::string_view op, AttrMap attrs,
                      const std::vector<Tensor>& inputs) {
    MR_ASSIGN_OR_RETURN(
        Node * node, graph_.AddNode(graph_.NewName(StrCat(node_.name(), "/", name)), op, std::move(attrs)));
    node->set_requested_device(node_.has_assigned_device() ? node_.assigned_device()
                                                           : node_.requested_device());
    for (size_t i = 0; i < inputs.size(); ++i)
      graph_.AddEdge(inputs[i].node, inputs[i].output, node, static_cast<int>(i));
    ++lowered_.num_added;
    return node;
  }

  StatusOr<Node*> AddCall(const std::string& name, const NameAttrList& f, const std::vector<Tensor>& args,
                          std::vector<DataType> results) {
    std::vector<DataType> types;
    types.reserve(args.size());
    for (const Tensor& t : args) types.push_back(TypeOf(t));
    const bool stateful = node_.op_def().is_stateful;
    AttrMap attrs{{"f", f}, {"Tin", std::move(types)}, {"Tout", std::move(results)}};
    if (const AttrValue* flag = node_.attrs().Find("_noinline")) attrs.Set("_noinline", *flag);
    MR_ASSIGN_OR_RETURN(Node * call,
                        Add(name, stateful ? "StatefulPartitionedCall" : "PartitionedCall", attrs, args));
    lowered_.calls.push_back(call);
    return call;
  }

  // A constant that is alive when `near` is, also in a loop.
  StatusOr<Tensor> AddIndex(const std::string& name, int value, const Tensor& near) {
    MR_ASSIGN_OR_RETURN(Node * node, Add(name, "Const",
                                         {{"dtype", DataType::kInt32},
                                          {"value", millrace::Tensor::Scalar(static_cast<int32_t>(value))}},
                                         {}));
    graph_.AddControlEdge(near.node, node);
    return Tensor{node, 0};
  }

  StatusOr<Tensor> Compare(const std::string& name, const char* op, const Tensor& index, int value) {
    MR_ASSIGN_OR_RETURN(const Tensor constant, AddIndex(name + "_value", value, index));
    MR_ASSIGN_OR_RETURN(Node * node, Add(name, op, {{"T", DataType::kInt32}}, {index, constant}));
    return Tensor{node, 0};
  }

  StatusOr<std::vector<Branch>> Branches() {
    std::vector<Branch> branches;
    if (IsIf(node_)) {
      MR_ASSIGN_OR_RETURN(NameAttrList then, node_.Attr<NameAttrList>("then_branch"));
      MR_ASSIGN_OR_RETURN(NameAttrList otherwise, node_.Attr<NameAttrList>("else_branch"));
      branches.push_back({std::move(otherwise), inputs_[0], false, "else"});
      branches.push_back({std::move(then), inputs_[0], true, "then"});
      return branches;
    }
    MR_ASSIGN_OR_RETURN(const std::vector<NameAttrList> functions,
                        node_.Attr<std::vector<NameAttrList>>("branches"));
    const int last = static_cast<int>(functions.size()) - 1;
    for (int i = 0; i < last; ++i) {
      MR_ASSIGN_OR_RETURN(const Tensor pred, Compare(StrCat("is_", i), "Equal", inputs_[0], i));
      branches.push_back({functions[static_cast<size_t>(i)], pred, true, StrCat("branch_", i)});
    }
    // An index without a branch means the last one.
    MR_ASSIGN_OR_RETURN(const Tensor below, Compare("is_below", "Less", inputs_[0], 0));
    MR_ASSIGN_OR_RETURN(const Tensor above, Compare("is_last", "GreaterEqual", inputs_[0], last));
    MR_ASSIGN_OR_RETURN(Node * either, Add("is_other", "LogicalOr", {}, {below, above}));
    branches.push_back({functions.back(), {either, 0}, true, StrCat("branch_", last)});
    return branches;
  }

  // The side of a Switch of `value` that is alive when the branch is taken.
  StatusOr<Tensor> SwitchTo(const std::string& name, const Tensor& value, const Branch& branch) {
    MR_ASSIGN_OR_RETURN(Node * node, Add(name, "Switch", {{"T", TypeOf(value)}}, {value, branch.pred}));
    for (Node* before : waits_for_) graph_.AddControlEdge(before, node);
    return Tensor{node, branch.when ? 1 : 0};
  }

  Status LowerBranches() {
    MR_ASSIGN_OR_RETURN(const std::vector<Branch> branches, Branches());
    std::vector<Tensor> pivots;
    std::vector<Node*> calls;
    for (const Branch& branch : branches) {
      MR_ASSIGN_OR_RETURN(const Tensor chosen, SwitchTo(branch.name + "_switch", branch.pred, branch));
      MR_ASSIGN_OR_RETURN(Node * pivot,
                          Add(branch.name + "_pivot", "Identity", {{"T", DataType::kBool}}, {chosen}));
      std::vector<Tensor> args;
      for (size_t i = 1; i < inputs_.size(); ++i) {
        MR_ASSIGN_OR_RETURN(const Tensor arg,
                            SwitchTo(StrCat(branch.name, "_input_", i - 1), inputs_[i], branch));
        args.push_back(arg);
      }
      MR_ASSIGN_OR_RETURN(Node * call, AddCall(branch.name, branch.f, args, node_.props().output_types));
      graph_.AddControlEdge(pivot, call);
      // Alive when the branch has run.
      MR_ASSIGN_OR_RETURN(Node * end,
                          Add(branch.name + "_end", "Identity", {{"T", DataType::kBool}}, {{pivot, 0}}));
      graph_.AddControlEdge(call, end);
      pivots.push_back({end, 0});
      calls.push_back(call);
    }
    const int n = static_cast<int>(branches.size());
    for (int i = 0; i < node_.num_outputs(); ++i) {
      std::vector<Tensor> results;
      results.reserve(calls.size());
      for (Node* call : calls) results.push_back({call, i});
      MR_ASSIGN_OR_RETURN(
          Node * merge, Add(StrCat("output_", i), "Merge", {{"T", node_.output_type(i)}, {"N", n}}, results));
      results_.push_back({merge, 0});
    }
    MR_ASSIGN_OR_RETURN(done_, Add("done", "Merge", {{"T", DataType::kBool}, {"N", n}}, pivots));
    return Status();
  }

  // For each variable of a loop: whether it is a resource that the body returns unchanged. At least one
  // variable is not.
  std::vector<bool> Constants(const NameAttrList& body) {
    std::vector<bool> constant(inputs_.size(), false);
    const tensorflow::FunctionDef* def = graph_.functions().Find(body.name);
    if (!options_.resources_are_constant || def == nullptr) return constant;
    const auto& signature = def->signature();
    const int count = static_cast<int>(inputs_.size());
    if (signature.input_arg_size() != count || signature.output_arg_size() != count) return constant;
    bool others = false;
    for (int i = 0; i < count; ++i) {
      const auto& in = signature.input_arg(i);
      const auto returned = def->ret().find(signature.output_arg(i).name());
      const bool same = returned != def->ret().end() && returned->second == in.name();
      constant[static_cast<size_t>(i)] = same && in.type() == tensorflow::DT_RESOURCE;
      others = others || !constant[static_cast<size_t>(i)];
    }
    return others ? constant : std::vector<bool>(inputs_.size(), false);
  }

  Status LowerWhile() {
    MR_ASSIGN_OR_RETURN(const NameAttrList cond, node_.Attr<NameAttrList>("cond"));
    MR_ASSIGN_OR_RETURN(const NameAttrList body, node_.Attr<NameAttrList>("body"));
    MR_ASSIGN_OR_RETURN(const int64_t parallel, node_.Attr<int64_t>("parallel_iterations"));
    const std::vector<bool> constant = Constants(body);
    std::vector<Node*> merges;
    std::vector<Tensor> merged;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const DataType type = TypeOf(inputs_[i]);
      MR_ASSIGN_OR_RETURN(Node * enter, Add(StrCat("enter_", i), "Enter",
                                            {{"T", type},
                                             {"frame_name", node_.name()},
                                             {"is_constant", static_cast<bool>(constant[i])},
                                             {"parallel_iterations", parallel}},
                                            {inputs_[i]}));
      for (Node* before : waits_for_) graph_.AddControlEdge(before, enter);
      if (constant[i]) {
        merges.push_back(nullptr);
        merged.push_back({enter, 0});
        continue;
      }
      // The second input is the next iteration, which comes last.
      MR_ASSIGN_OR_RETURN(Node * merge,
                          Add(StrCat("merge_", i), "Merge", {{"T", type}, {"N", 2}}, {{enter, 0}}));
      merges.push_back(merge);
      merged.push_back({merge, 0});
    }
    MR_ASSIGN_OR_RETURN(Node * test, AddCall("cond", cond, merged, {DataType::kBool}));
    MR_ASSIGN_OR_RETURN(Node * go_on, Add("loop_cond", "LoopCond", {}, {{test, 0}}));
    std::vector<Tensor> args;
    for (size_t i = 0; i < merged.size(); ++i) {
      if (constant[i]) {
        results_.push_back(inputs_[i]);
        args.push_back(merged[i]);
        continue;
      }
      const DataType type = TypeOf(merged[i]);
      MR_ASSIGN_OR_RETURN(Node * choice,
                          Add(StrCat("switch_", i), "Switch", {{"T", type}}, {merged[i], {go_on, 0}}));
      MR_ASSIGN_OR_RETURN(Node * exit, Add(StrCat("exit_", i), "Exit", {{"T", type}}, {{choice, 0}}));
      results_.push_back({exit, 0});
      args.push_back({choice, 1});
    }
    MR_ASSIGN_OR_RETURN(Node * step, AddCall("body", body, args, node_.props().output_types));
    for (size_t i = 0; i < merged.size(); ++i) {
      if (constant[i]) continue;
      const int output = static_cast<int>(i);
      MR_ASSIGN_OR_RETURN(Node * next, Add(StrCat("next_", i), "NextIteration", {{"T", TypeOf(merged[i])}},
                                           {{step, output}}));
      graph_.AddEdge(next, 0, merges[i], 1);
    }
    MR_ASSIGN_OR_RETURN(done_, Add("done", "NoOp", {}, {}));
    for (size_t i = 0; i < results_.size(); ++i) {
      if (!constant[i]) graph_.AddControlEdge(results_[i].node, done_);
    }
    return Status();
  }

  Status ConnectConsumers() {
    const std::vector<Edge*> edges(node_.out_edges().begin(), node_.out_edges().end());
    for (Edge* edge : edges) {
      if (!edge->IsControl()) {
        const Tensor& result = results_[static_cast<size_t>(edge->src_output)];
        graph_.UpdateInput(edge->dst, edge->dst_input, result.node, result.output);
      } else if (edge->dst->IsOp()) {
        graph_.AddControlEdge(done_, edge->dst);
      }
    }
    return Status();
  }

  Node& node_;
  Graph& graph_;
  const LowerOptions options_;
  std::vector<Tensor> inputs_;
  std::vector<Node*> waits_for_;
  std::vector<Tensor> results_;
  Node* done_ = nullptr;
  LoweredNode lowered_;
};

}  // namespace

bool CanLower(const Node& node) {
  if (IsIf(node)) return BaseType(node.input_type(0)) == DataType::kBool;
  if (IsWhile(node)) return node.num_inputs() > 0;
  return node.op_name() == "Case";
}

StatusOr<LoweredNode> LowerFunctional(Node* node, const LowerOptions& options) {
  return Lowering(node, options).Run();
}

}  // namespace millrace
