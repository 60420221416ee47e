// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "autodiff/function_gradient.h"

#include <utility>
#include <vector>

#include "autodiff/add_gradients.h"
#include "autodiff/function_split.h"
#include "graph/function_gradient.h"
#include "op/handle_type_attr.h"

namespace millrace {
namespace {

// One derivation. `body` is that of the function until the gradients are added.
class Derivation {
 public:
  explicit Derivation(FunctionBody* body) : body_(*body), graph_(*body->graph) {}

  Status Run(const GradientTypes& types) {
    MR_RETURN_IF_ERROR(ReplaceResults(types.results));
    const std::vector<DataType>& gradient_types = types.parameters;
    std::vector<Output> xs, of_xs, grads(args_.size());
    std::vector<size_t> wanted;
    for (size_t i = 0; i < args_.size(); ++i) {
      if (args_[i]->output_type(0) == DataType::kResource && i < gradient_types.size()) {
        if (gradient_types[i] == DataType::kResource) continue;
        args_[i]->SetAttr(kHandleTypeAttr, gradient_types[i]);
      }
      xs.push_back({args_[i], 0});
      wanted.push_back(i);
    }
    GradientOptions options;
    options.scope = types.scope;
    options.exact_scope = true;
    MR_RETURN_IF_ERROR(AddGradients(&graph_, ys_, xs, grad_ys_, options, &of_xs));
    for (size_t i = 0; i < wanted.size(); ++i) grads[wanted[i]] = of_xs[i];
    for (size_t i = 0; i < args_.size(); ++i) {
      if (!grads[i].IsSet()) {
        const DataType type =
            i < gradient_types.size() ? gradient_types[i] : BaseType(args_[i]->output_type(0));
        MR_ASSIGN_OR_RETURN(grads[i], Zeros(args_[i], type));
      }
      MR_RETURN_IF_ERROR(AddRet(StrCat("gradient_", i), grads[i]));
    }
    RemoveUnused();
    graph_.FixupSourceAndSinkEdges();
    body_.control_rets.clear();
    MR_RETURN_IF_ERROR(IndexBody(&body_));
    return CheckRunsTwice(graph_);
  }

 private:
  // Each former result is a tensor whose gradient is a parameter.
  Status ReplaceResults(const std::vector<DataType>& gradient_types) {
    args_ = body_.args;
    const int first = static_cast<int>(args_.size());
    for (size_t i = 0; i < body_.rets.size(); ++i) {
      Node* const ret = body_.rets[i];
      MR_ASSIGN_OR_RETURN(const Edge* source, ret->InputEdge(0));
      DataType type = BaseType(ret->input_type(0));
      if (type == DataType::kResource && i < gradient_types.size()) type = gradient_types[i];
      MR_ASSIGN_OR_RETURN(Node * arg, graph_.AddNode(graph_.NewName(StrCat("grad_of_", ret->name())), "_Arg",
                                                     {{"T", type}, {"index", first + static_cast<int>(i)}}));
      if (type == DataType::kResource) continue;  // there is none
      ys_.push_back({source->src, source->src_output});
      grad_ys_.push_back({arg, 0});
    }
    for (Node* ret : body_.rets) graph_.RemoveNode(ret);
    return Status();
  }

  // Zeros of the shape of a parameter that the results don't depend on.
  StatusOr<Output> Zeros(Node* arg, DataType type) {
    Output like{arg, 0};
    if (arg->output_type(0) == DataType::kResource) {
      if (type == DataType::kResource) return Placeholder(arg, type);
      MR_ASSIGN_OR_RETURN(Node * read, graph_.AddNode(graph_.NewName(StrCat("read_", arg->name())),
                                                      "ReadVariableOp", {{"dtype", type}}));
      graph_.AddEdge(arg, 0, read, 0);
      like = {read, 0};
    } else if (type == DataType::kString) {
      return Placeholder(arg, type);
    }
    MR_ASSIGN_OR_RETURN(Node * zeros, graph_.AddNode(graph_.NewName(StrCat("no_gradient_", arg->name())),
                                                     "ZerosLike", {{"T", type}}));
    graph_.AddEdge(like.node, 0, zeros, 0);
    return Output{zeros, 0};
  }

  // A value of the right type; it is not used.
  StatusOr<Output> Placeholder(Node* arg, DataType type) {
    MR_ASSIGN_OR_RETURN(Node * node,
                        graph_.AddNode(graph_.NewName(StrCat("no_gradient_", arg->name())), "FakeParam",
                                       {{"dtype", type}, {"shape", PartialShape()}}));
    return Output{node, 0};
  }

  Status AddRet(const std::string& name, const Output& value) {
    MR_ASSIGN_OR_RETURN(Node * ret, graph_.AddNode(graph_.NewName(name), "_Retval",
                                                   {{"T", BaseType(value.node->output_type(value.index))},
                                                    {"index", num_rets_++}}));
    graph_.AddEdge(value.node, value.index, ret, 0);
    rets_.push_back(ret);
    return Status();
  }

  // Removes nodes that no gradient uses, also those with side effects: the function itself has executed them.
  void RemoveUnused() {
    std::vector<bool> used(static_cast<size_t>(graph_.num_node_ids()), false);
    std::vector<const Node*> work(rets_.begin(), rets_.end());
    for (const Node* node : work) used[static_cast<size_t>(node->id())] = true;
    while (!work.empty()) {
      const Node* node = work.back();
      work.pop_back();
      for (const Edge* edge : node->in_edges()) {
        if (edge == nullptr || used[static_cast<size_t>(edge->src->id())]) continue;
        used[static_cast<size_t>(edge->src->id())] = true;
        work.push_back(edge->src);
      }
    }
    for (Node* node : graph_.OpNodes()) {
      if (!used[static_cast<size_t>(node->id())] && node->op_name() != "_Arg") graph_.RemoveNode(node);
    }
  }

  FunctionBody& body_;
  Graph& graph_;
  std::vector<Node*> args_, rets_;
  std::vector<Output> ys_, grad_ys_;
  int num_rets_ = 0;
};

Status DeriveGradientBody(FunctionBody* body, const GradientTypes& types) {
  const RunsAgainScope scope;
  return Derivation(body).Run(types);
}

}  // namespace

void RegisterFunctionGradients() { SetGradientBodyFn(DeriveGradientBody); }

}  // namespace millrace
