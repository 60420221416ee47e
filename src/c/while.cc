// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Loops: the caller builds the condition and the body as graphs of their own, which are then copied into
// place between Enter, Merge, Switch, NextIteration and Exit.
#include <map>
#include <memory>

#include "c/internal.h"
#include "graph/function_library.h"

using millrace::DataType;
using millrace::MutexLock;
using millrace::Node;
using millrace::Output;
using millrace::PartialShape;
using millrace::Status;
using millrace::StatusOr;
using millrace::StrCat;
namespace errors = millrace::errors;

namespace millrace::c_api {
namespace {

constexpr int64_t kParallelIterations = 10;

using TensorMap = std::map<std::pair<const Node*, int>, Output>;

// Copies the nodes of a graph into another one.
class GraphCopy {
 public:
  // `given`: what stands for the inputs of `from`. Nodes that depend on no other copied node run after
  // `control`.
  GraphCopy(const Graph& from, Graph& to, ShapeRefiner& shapes, std::string prefix, TensorMap given,
            Node* control)
      : from_(from),
        to_(to),
        shapes_(shapes),
        prefix_(std::move(prefix)),
        given_(std::move(given)),
        control_(control) {}

  Status Run() {
    MR_RETURN_IF_ERROR(to_.functions().Merge(from_.functions()));
    MR_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrderById(from_));
    for (const Node* node : order) {
      if (node->IsOp() && !IsGiven(*node)) MR_RETURN_IF_ERROR(CopyNode(*node));
    }
    for (const Edge* edge : back_edges_) {
      to_.AddEdge(copies_.at(edge->src), edge->src_output, copies_.at(edge->dst), edge->dst_input);
    }
    return Status();
  }

  // The copy of a tensor. REQUIRES: it belongs to `from`.
  Output Of(const TF_Output& tensor) const { return Of({NodeOf(tensor.oper), tensor.index}); }

 private:
  bool IsGiven(const Node& node) const { return given_.contains({&node, 0}); }
  Output Of(const Output& tensor) const {
    const auto found = given_.find({tensor.node, tensor.index});
    return found != given_.end() ? found->second : Output{copies_.at(tensor.node), tensor.index};
  }

  StatusOr<std::shared_ptr<const NodeProps>> PropsOf(const Node& node) const {
    AttrMap attrs = node.attrs();
    bool changed = from_.functions().Find(node.op_name()) != nullptr;  // its signature goes with the graph
    if (const AttrValue* groups = attrs.Find("_class"); groups != nullptr) {
      if (const auto* list = groups->As<std::vector<std::string>>(); list != nullptr) {
        std::vector<std::string> renamed = *list;
        for (std::string& group : renamed) {
          if (group.starts_with("loc:@")) group = StrCat("loc:@", prefix_, "/", group.substr(5));
        }
        attrs.Set("_class", std::move(renamed));
        changed = true;
      }
    }
    if (!changed) return node.shared_props();
    MR_ASSIGN_OR_RETURN(const OpRegistration* op, to_.LookUpOp(node.op_name()));
    return NodeProps::Make(*op, std::move(attrs));
  }

  Status CopyNode(const Node& node) {
    MR_ASSIGN_OR_RETURN(std::shared_ptr<const NodeProps> props, PropsOf(node));
    Node* copy = to_.AddNodeWithProps(to_.NewName(StrCat(prefix_, "/", node.name())), std::move(props));
    copy->set_requested_device(node.requested_device());
    copies_[&node] = copy;
    bool depends = false;
    for (const Edge* edge : node.in_edges()) {
      if (edge == nullptr || !edge->src->IsOp()) continue;
      if (IsLoopBackEdge(*edge)) {
        back_edges_.push_back(edge);
      } else if (edge->IsControl()) {
        if (IsGiven(*edge->src)) continue;
        to_.AddControlEdge(copies_.at(edge->src), copy);
        depends = true;
      } else {
        const Output source = Of({edge->src, edge->src_output});
        to_.AddEdge(source.node, source.index, copy, edge->dst_input);
        depends = depends || !IsGiven(*edge->src);
      }
    }
    if (!depends) to_.AddControlEdge(control_, copy);
    return shapes_.AddNode(*copy);
  }

  const Graph& from_;
  Graph& to_;
  ShapeRefiner& shapes_;
  const std::string prefix_;
  const TensorMap given_;
  Node* const control_;
  std::map<const Node*, Node*> copies_;
  std::vector<const Edge*> back_edges_;
};

// Builds one loop into the graph that it belongs to.
class LoopBuilder {
 public:
  LoopBuilder(const TF_WhileParams& params, Graph& graph, ShapeRefiner& shapes)
      : params_(params), graph_(graph), shapes_(shapes), name_(UniqueScope(graph, params.name)) {}

  Status Build(const Graph& cond, const Graph& body, const std::vector<TF_Output>& inputs,
               TF_Output* outputs) {
    MR_RETURN_IF_ERROR(AddEntries(inputs));
    MR_ASSIGN_OR_RETURN(const Output loop_cond, AddCondition(cond));
    MR_RETURN_IF_ERROR(AddSides(loop_cond));
    MR_RETURN_IF_ERROR(AddBody(body));
    for (size_t i = 0; i < exits_.size(); ++i) outputs[i] = {OperationOf(exits_[i]), 0};
    return Status();
  }

 private:
  StatusOr<Node*> Add(const char* op, const std::vector<Output>& inputs, AttrMap attrs) {
    MR_ASSIGN_OR_RETURN(Node * node,
                        graph_.AddNode(graph_.NewName(StrCat(name_, "/", op)), op, std::move(attrs)));
    int slot = 0;
    for (const Output& input : inputs) graph_.AddEdge(input.node, input.index, node, slot++);
    MR_RETURN_IF_ERROR(shapes_.AddNode(*node));
    return node;
  }

  static DataType ValueType(const Output& tensor) { return BaseType(tensor.node->output_type(tensor.index)); }

  // Whether a part of the loop has this tensor.
  static Status CheckResult(const Graph& part, const TF_Output& tensor) {
    const Node& node = *NodeOf(tensor.oper);
    if (&node.graph() != &part) {
      return errors::InvalidArgument("Requested return tensor '", node.name(), ":", tensor.index,
                                     "' not found in graph def");
    }
    if (tensor.index >= 0 && tensor.index < node.num_outputs()) return Status();
    return errors::InvalidArgument("Invalid return output ", tensor.index, " of node '", node.name(),
                                   "', which has ", node.num_outputs(), " output(s)");
  }

  Status AddEntries(const std::vector<TF_Output>& inputs) {
    for (const TF_Output& input : inputs) {
      MR_RETURN_IF_ERROR(CheckOutput(&graph_, input));
      const Output value{NodeOf(input.oper), input.index};
      AttrMap attrs{{"T", ValueType(value)},
                    {"frame_name", name_},
                    {"is_constant", false},
                    {"parallel_iterations", kParallelIterations}};
      MR_ASSIGN_OR_RETURN(Node * enter, Add("Enter", {value}, std::move(attrs)));
      enters_.push_back(enter);
    }
    for (Node* enter : enters_) {
      // The other input is the next iteration's value, which may have another shape.
      AttrMap attrs{{"T", enter->output_type(0)}, {"N", 2}};
      MR_ASSIGN_OR_RETURN(Node * merge, Add("Merge", {{enter, 0}}, std::move(attrs)));
      merges_.push_back(merge);
    }
    return Status();
  }

  StatusOr<Output> AddCondition(const Graph& cond) {
    TensorMap given;
    for (size_t i = 0; i < merges_.size(); ++i)
      given[{NodeOf(params_.cond_inputs[i].oper), 0}] = {merges_[i], 0};
    MR_RETURN_IF_ERROR(CheckResult(cond, params_.cond_output));
    GraphCopy copy(cond, graph_, shapes_, StrCat(name_, "/cond"), std::move(given), merges_[0]);
    MR_RETURN_IF_ERROR(copy.Run());
    const Output goes_on = copy.Of(params_.cond_output);
    if (ValueType(goes_on) != DataType::kBool) {
      return errors::InvalidArgument("BuildWhileLoop: 'cond' argument must return a boolean output, got ",
                                     DataTypeName(ValueType(goes_on)));
    }
    MR_ASSIGN_OR_RETURN(Node * loop_cond, Add("LoopCond", {goes_on}, {}));
    return Output{loop_cond, 0};
  }

  Status AddSides(const Output& loop_cond) {
    for (Node* merge : merges_) {
      AttrMap attrs{{"T", merge->output_type(0)},
                    {"_class", std::vector<std::string>{StrCat("loc:@", merge->name())}}};
      MR_ASSIGN_OR_RETURN(Node * sides, Add("Switch", {{merge, 0}, loop_cond}, std::move(attrs)));
      MR_ASSIGN_OR_RETURN(Node * exit, Add("Exit", {{sides, 0}}, {{"T", merge->output_type(0)}}));
      MR_ASSIGN_OR_RETURN(Node * inside, Add("Identity", {{sides, 1}}, {{"T", merge->output_type(0)}}));
      exits_.push_back(exit);
      insides_.push_back(inside);
    }
    return Status();
  }

  Status AddBody(const Graph& body) {
    TensorMap given;
    for (size_t i = 0; i < insides_.size(); ++i)
      given[{NodeOf(params_.body_inputs[i].oper), 0}] = {insides_[i], 0};
    GraphCopy copy(body, graph_, shapes_, StrCat(name_, "/body"), std::move(given), insides_[0]);
    MR_RETURN_IF_ERROR(copy.Run());
    for (size_t i = 0; i < merges_.size(); ++i) {
      MR_RETURN_IF_ERROR(CheckResult(body, params_.body_outputs[i]));
      const Output result = copy.Of(params_.body_outputs[i]);
      Node* merge = merges_[i];
      if (ValueType(result) != merge->output_type(0)) {
        return errors::InvalidArgument("Input 1 of node ", merge->name(), " was passed ",
                                       DataTypeName(ValueType(result)), " from ", result.node->name(), ":",
                                       result.index, " incompatible with expected ",
                                       DataTypeName(merge->output_type(0)), ".");
      }
      MR_ASSIGN_OR_RETURN(Node * next, Add("NextIteration", {result}, {{"T", merge->output_type(0)}}));
      graph_.AddEdge(next, 0, merge, 1);
    }
    return Status();
  }

  const TF_WhileParams& params_;
  Graph& graph_;
  ShapeRefiner& shapes_;
  const std::string name_;
  std::vector<Node*> enters_, merges_, insides_, exits_;
};

Status AddInput(TF_Graph* graph, const std::string& name, DataType type, const PartialShape& shape,
                TF_Output* input) {
  MutexLock lock(graph->mu);
  MR_ASSIGN_OR_RETURN(Node * node,
                      graph->graph.AddNode(name, "Placeholder", {{"dtype", type}, {"shape", shape}}));
  MR_RETURN_IF_ERROR(graph->refiner.AddNode(*node));
  MR_RETURN_IF_ERROR(graph->refiner.MergeOutput(*node, 0, shape));
  graph->PublishNodes();
  *input = {OperationOf(node), 0};
  return Status();
}

// The fields that the caller must leave as they are.
Status CheckConstFields(const TF_WhileParams& params) {
  if (params.cond_graph == nullptr || params.body_graph == nullptr || params.cond_inputs == nullptr ||
      params.body_inputs == nullptr || params.body_outputs == nullptr || params.ninputs <= 0 ||
      params.cond_graph->parent == nullptr || params.cond_graph->parent != params.body_graph->parent ||
      params.cond_graph->parent_inputs.size() != static_cast<size_t>(params.ninputs)) {
    return errors::InvalidArgument(
        "TF_WhileParams: the fields that TF_NewWhile set were changed, or it did not make them");
  }
  return Status();
}

Status CheckFields(const TF_WhileParams& params) {
  if (params.cond_output.oper == nullptr) {
    return errors::InvalidArgument("TF_WhileParams `cond_output` field isn't set");
  }
  for (int i = 0; i < params.ninputs; ++i) {
    if (params.body_outputs[i].oper == nullptr) {
      return errors::InvalidArgument("TF_WhileParams `body_outputs[", i, "]` field isn't set");
    }
  }
  if (params.name == nullptr) return errors::InvalidArgument("TF_WhileParams `name` field is null");
  return Status();
}

Status Finish(const TF_WhileParams& params, TF_Output* outputs) {
  MR_RETURN_IF_ERROR(CheckFields(params));
  if (outputs == nullptr) return NullArgument("The array of outputs");
  TF_Graph* parent = params.cond_graph->parent;
  MutexLock lock(parent->mu);
  parent->AwaitTurn();
  if (parent->IsLeft()) return errors::InvalidArgument("The graph of the loop was deleted");
  MutexLock cond_lock(params.cond_graph->mu);
  MutexLock body_lock(params.body_graph->mu);
  const int first = parent->graph.num_node_ids();
  const FunctionLibrary functions = parent->graph.functions();
  Status built = LoopBuilder(params, parent->graph, parent->refiner)
                     .Build(params.cond_graph->graph, params.body_graph->graph,
                            params.cond_graph->parent_inputs, outputs);
  if (!built.ok()) {
    parent->graph.RemoveNodesFrom(first);
    parent->refiner.ForgetNodesFrom(first);
    parent->graph.functions() = functions;
    for (int i = 0; i < params.ninputs; ++i) outputs[i] = {nullptr, -1};
  }
  parent->PublishNodes();
  return built;
}

// A part of a loop, which the loop holds even when a caller deletes it.
TF_Graph* NewPart(TF_Graph* parent, const TF_Output* inputs, size_t count) {
  TF_Graph* part = TF_NewGraph();
  if (part == nullptr) throw std::bad_alloc();
  Hold(part);
  part->parent = parent;
  part->parent_inputs.assign(inputs, inputs + count);
  return part;
}

void DeletePart(TF_Graph* part) {
  TF_DeleteGraph(part);
  Release(part);
}

void FreeLoop(const TF_WhileParams& params) {
  if (params.cond_graph != nullptr) Release(params.cond_graph->parent);
  DeletePart(params.cond_graph);
  DeletePart(params.body_graph);
  delete[] params.cond_inputs;
  delete[] params.body_inputs;
  delete[] params.body_outputs;
}

TF_WhileParams NoLoop() { return {0, nullptr, nullptr, {nullptr, -1}, nullptr, nullptr, nullptr, nullptr}; }

}  // namespace
}  // namespace millrace::c_api

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): entry points of this library

TF_WhileParams TF_NewWhile(TF_Graph* g, TF_Output* inputs, int ninputs, TF_Status* status) {
  std::unique_ptr<TF_Output[]> cond_inputs, body_inputs, body_outputs;
  std::unique_ptr<TF_Graph, void (*)(TF_Graph*)> cond(nullptr, DeletePart), body(nullptr, DeletePart);
  const bool ok = Enter(status, [&]() -> Status {
    if (g == nullptr || inputs == nullptr) return NullArgument("The graph or the inputs");
    if (ninputs <= 0) return errors::InvalidArgument("TF_NewWhile() must be passed at least one input");
    const auto count = static_cast<size_t>(ninputs);
    cond_inputs = std::make_unique<TF_Output[]>(count);
    body_inputs = std::make_unique<TF_Output[]>(count);
    body_outputs = std::make_unique<TF_Output[]>(count);
    cond.reset(NewPart(g, inputs, count));
    body.reset(NewPart(g, inputs, count));
    MutexLock lock(g->mu);
    for (size_t i = 0; i < count; ++i) {
      MR_RETURN_IF_ERROR(CheckOutput(&g->graph, inputs[i]));
      const Node& node = *NodeOf(inputs[i].oper);
      const DataType type = BaseType(node.output_type(inputs[i].index));
      const PartialShape shape = g->refiner.OutputShape(node, inputs[i].index);
      MR_RETURN_IF_ERROR(AddInput(cond.get(), StrCat("cond_input", i), type, shape, &cond_inputs[i]));
      MR_RETURN_IF_ERROR(AddInput(body.get(), StrCat("body_input", i), type, shape, &body_inputs[i]));
      body_outputs[i] = {nullptr, -1};
    }
    ++g->num_users;
    return Status();
  });
  if (!ok) return NoLoop();
  return {ninputs,        cond.release(),        cond_inputs.release(),  {nullptr, -1},
          body.release(), body_inputs.release(), body_outputs.release(), nullptr};
}

void TF_FinishWhile(const TF_WhileParams* params, TF_Status* status, TF_Output* outputs) {
  const bool ours = Enter(
      status, [&] { return params == nullptr ? NullArgument("The parameters") : CheckConstFields(*params); });
  if (!ours) return;
  Enter(status, [&] { return Finish(*params, outputs); });
  FreeLoop(*params);
}

void TF_AbortWhile(const TF_WhileParams* params) {
  if (params != nullptr) FreeLoop(*params);
}
