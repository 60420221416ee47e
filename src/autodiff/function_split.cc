// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "autodiff/function_split.h"

#include <algorithm>
#include <unordered_set>

#include "autodiff/add_gradients.h"
#include "autodiff/guards.h"
#include "autodiff/loops.h"
#include "graph/function_gradient.h"
#include "graph/function_writer.h"
#include "op/function_attrs.h"
#include "op/handle_type_attr.h"
#include "tensorflow/core/framework/function.pb.h"

namespace millrace {
namespace {

// The functions that are being split by a thread, outermost first.
thread_local std::vector<std::string> active;

size_t Id(const Node* node) { return static_cast<size_t>(node->id()); }

FunctionParts PartsOf(std::string name, std::vector<const Node*> body, std::vector<Output> inputs,
                      std::vector<Output> outputs) {
  FunctionParts parts;
  parts.name = std::move(name);
  parts.body = std::move(body);
  parts.inputs = std::move(inputs);
  parts.outputs = std::move(outputs);
  return parts;
}

StatusOr<NameAttrList> Write(Graph& owner, FunctionParts parts, const tensorflow::FunctionDef* like) {
  parts.append_hash = true;
  std::sort(parts.body.begin(), parts.body.end(),
            [](const Node* a, const Node* b) { return a->id() < b->id(); });
  tensorflow::FunctionDef def;
  MR_RETURN_IF_ERROR(WriteFunction(parts, &def));
  if (like != nullptr) *def.mutable_attr() = like->attr();
  MR_RETURN_IF_ERROR(owner.functions().Add(def));
  return NameAttrList{def.signature().name(), std::make_shared<const AttrMap>()};
}

}  // namespace

thread_local int RunsAgainScope::depth_ = 0;

namespace {

void Connect(Graph* graph, Node* src, int src_output, Node* dst, int dst_input) {
  if (src_output == Edge::kControlSlot) {
    graph->AddControlEdge(src, dst);
  } else {
    graph->AddEdge(src, src_output, dst, dst_input);
  }
}

// Replaces calls by function name by calls that can be given further results, with the same node names.
Status RewriteNamedCalls(FunctionBody* body) {
  Graph& graph = *body->graph;
  if (graph.functions().empty()) return Status();
  for (Node* node : graph.OpNodes()) {
    if (graph.functions().Find(node->op_name()) == nullptr) continue;
    std::vector<AttrMap::Entry> entries;
    for (const auto& entry : node->attrs()) {
      if (!entry.first.starts_with('_')) entries.push_back(entry);
    }
    const NameAttrList f{node->op_name(),
                         std::make_shared<const AttrMap>(AttrMap::FromEntries(std::move(entries)))};
    AttrMap attrs{{"f", f}, {"Tin", node->props().input_types}, {"Tout", node->props().output_types}};
    const char* op = node->op_def().is_stateful ? "StatefulPartitionedCall" : "PartitionedCall";
    const std::string name = node->name(), device = node->requested_device();
    std::vector<Edge> in, out;
    for (const Edge* edge : node->in_edges()) {
      if (edge != nullptr) in.push_back(*edge);
    }
    for (const Edge* edge : node->out_edges()) out.push_back(*edge);
    graph.RemoveNode(node);
    MR_ASSIGN_OR_RETURN(Node * call, graph.AddNode(name, op, std::move(attrs), device));
    for (const Edge& edge : in) Connect(&graph, edge.src, edge.src_output, call, edge.dst_input);
    for (const Edge& edge : out) Connect(&graph, call, edge.src_output, edge.dst, edge.dst_input);
    std::replace(body->control_rets.begin(), body->control_rets.end(), node, call);
  }
  return Status();
}

}  // namespace

FunctionSplit::FunctionSplit(Graph& owner, NameAttrList f, FunctionBody body)
    : owner_(owner), f_(std::move(f)), body_(std::move(body)), graph_(*body_.graph) {}

StatusOr<std::unique_ptr<FunctionSplit>> FunctionSplit::Make(Graph& owner, const NameAttrList& f,
                                                             const Request& request) {
  MR_ASSIGN_OR_RETURN(FunctionBody body, InstantiateCallee(owner.functions(), owner.ops(), f));
  if (body.args.size() != request.num_parameters || body.rets.size() != request.num_results) {
    return errors::InvalidArgument("Function '", f.name, "' has ", body.args.size(), " parameters and ",
                                   body.rets.size(), " results, expected ", request.num_parameters, " and ",
                                   request.num_results);
  }
  MR_RETURN_IF_ERROR(RewriteNamedCalls(&body));
  std::string key = FunctionKey(f);
  if (active.size() >= kMaxDepth || std::find(active.begin(), active.end(), key) != active.end()) {
    return errors::Unimplemented("Function '", f.name, "' calls itself or is nested too deep for a gradient ",
                                 "that must not run it again");
  }
  std::unique_ptr<FunctionSplit> split(new FunctionSplit(owner, f, std::move(body)));
  active.push_back(std::move(key));
  Status status = split->Differentiate(request);
  active.pop_back();
  if (status.ok()) status = split->MarkBehindGradients();
  if (status.ok()) status = split->Collect(request.only_constant_parameters);
  if (!status.ok()) return status.WithContext(StrCat("; in the gradient of function '", f.name, "'"));
  MR_RETURN_IF_ERROR(owner.functions().Merge(split->graph_.functions()));
  return split;
}

bool FunctionSplit::IsConstant(size_t i) const {
  return i < results_.size() && results_[i] == parameters_[i];
}

bool FunctionSplit::IsParameter(const Node* node) const {
  return node->op_name() == "_Arg" ||
         std::any_of(arriving_.begin(), arriving_.end(), [node](const Output& o) { return o.node == node; });
}

StatusOr<Node*> FunctionSplit::Add(std::string_view op, AttrMap attrs, const std::vector<Output>& inputs) {
  MR_ASSIGN_OR_RETURN(Node * node, graph_.AddNode(graph_.NewName(op), op, std::move(attrs)));
  for (size_t i = 0; i < inputs.size(); ++i)
    graph_.AddEdge(inputs[i].node, inputs[i].index, node, static_cast<int>(i));
  return node;
}

// Zeros of the shape of a parameter that the results don't depend on.
StatusOr<Output> FunctionSplit::Zeros(const Output& parameter, DataType type) {
  Output like = parameter;
  if (parameter.node->output_type(0) == DataType::kResource) {
    MR_ASSIGN_OR_RETURN(Node * read, Add("ReadVariableOp", {{"dtype", type}}, {parameter}));
    like = {read, 0};
  }
  MR_ASSIGN_OR_RETURN(Node * zeros, Add("ZerosLike", {{"T", type}}, {like}));
  return Output{zeros, 0};
}

Status FunctionSplit::Differentiate(const Request& request) {
  for (Node* arg : body_.args) parameters_.push_back({arg, 0});
  for (Node* ret : body_.rets) {
    MR_ASSIGN_OR_RETURN(const Edge* source, ret->InputEdge(0));
    results_.push_back({source->src, source->src_output});
  }
  for (Node* ret : body_.rets) graph_.RemoveNode(ret);
  body_.rets.clear();
  std::vector<Output> ys, xs;
  for (size_t i = 0; i < request.arriving.size(); ++i) {
    MR_ASSIGN_OR_RETURN(Node * node, Add("Placeholder", {{"dtype", request.arriving_types[i]}}, {}));
    arriving_.push_back({node, 0});
    ys.push_back(results_[static_cast<size_t>(request.arriving[i])]);
  }
  for (size_t i = 0; i < request.targets.size(); ++i) {
    const Output& x = parameters_[static_cast<size_t>(request.targets[i])];
    if (x.node->output_type(0) == DataType::kResource)
      x.node->SetAttr(kHandleTypeAttr, request.target_types[i]);
    xs.push_back(x);
  }
  const std::string registered = owner_.functions().FindGradient(f_.name);
  if (!xs.empty() && !registered.empty() && Recomputes(owner_.functions(), registered))
    return TakeGradient(registered, request);
  first_new_ = graph_.num_node_ids();
  GradientOptions options;
  options.scope = request.scope;
  options.exact_scope = true;
  MR_RETURN_IF_ERROR(AddGradients(&graph_, ys, xs, arriving_, options, &gradients_));
  for (size_t i = 0; i < xs.size(); ++i) {
    if (gradients_[i].IsSet()) continue;
    MR_ASSIGN_OR_RETURN(gradients_[i], Zeros(xs[i], request.target_types[i]));
  }
  return Status();
}

// The incoming gradient of result i, or zeros.
StatusOr<Output> FunctionSplit::Arriving(const Request& request, size_t i) {
  for (size_t k = 0; k < request.arriving.size(); ++k) {
    if (static_cast<size_t>(request.arriving[k]) == i) return arriving_[k];
  }
  const Output& result = results_[i];
  const DataType type = BaseType(result.node->output_type(result.index));
  const bool has_zeros = type != DataType::kString && type != DataType::kResource;
  MR_ASSIGN_OR_RETURN(Node * node, has_zeros
                                       ? Add("ZerosLike", {{"T", type}}, {result})
                                       : Add("FakeParam", {{"dtype", type}, {"shape", PartialShape()}}, {}));
  return Output{node, 0};
}

// The gradients come from a function that recomputes what it needs: its nodes correspond to those of the
// function with the same names.
Status FunctionSplit::TakeGradient(const std::string& registered, const Request& request) {
  MR_ASSIGN_OR_RETURN(FunctionBody gradient,
                      InstantiateFunction(owner_.functions(), owner_.ops(), {registered, f_.attrs}));
  MR_RETURN_IF_ERROR(RewriteNamedCalls(&gradient));
  if (gradient.args.size() != parameters_.size() + results_.size() ||
      gradient.rets.size() != parameters_.size())
    return errors::InvalidArgument("Function '", registered, "' is not a gradient function of '", f_.name,
                                   "'");
  MR_RETURN_IF_ERROR(graph_.functions().Merge(gradient.graph->functions()));
  std::map<const Node*, Output> arguments;
  for (size_t i = 0; i < gradient.args.size(); ++i) {
    if (i < parameters_.size()) {
      arguments[gradient.args[i]] = parameters_[i];
    } else {
      MR_ASSIGN_OR_RETURN(arguments[gradient.args[i]], Arriving(request, i - parameters_.size()));
    }
  }
  first_new_ = graph_.num_node_ids();
  MR_ASSIGN_OR_RETURN(const auto copies, CopyNodes(registered, *gradient.graph, request.scope));
  const auto mapped = [&](const Edge& edge) {
    if (const auto it = arguments.find(edge.src); it != arguments.end()) return it->second;
    return Output{copies.at(edge.src), edge.src_output};
  };
  for (const auto& [node, copy] : copies) {
    for (const Edge* edge : node->in_edges()) {
      if (edge == nullptr || !edge->src->IsOp()) continue;
      const bool is_there =
          copy->id() < first_new_ &&
          (edge->IsControl() || copy->data_in_edges()[static_cast<size_t>(edge->dst_input)] != nullptr);
      if (is_there) continue;
      const Output src = mapped(*edge);
      Connect(&graph_, src.node, edge->IsControl() ? Edge::kControlSlot : src.index, copy, edge->dst_input);
    }
  }
  for (const int target : request.targets) {
    MR_ASSIGN_OR_RETURN(const Edge* edge, gradient.rets[static_cast<size_t>(target)]->InputEdge(0));
    gradients_.push_back(mapped(*edge));
  }
  return Status();
}

// Nodes of another graph, and the nodes here that represent them.
StatusOr<std::map<const Node*, Node*>> FunctionSplit::CopyNodes(const std::string& registered,
                                                                const Graph& from, const std::string& scope) {
  std::map<const Node*, Node*> copies;
  const std::string& own = owner_.functions().Find(registered)->attr().at(std::string(kRecomputesAttr)).s();
  for (const Node* node : from.OpNodes()) {
    if (node->op_name() == "_Arg" || node->op_name() == "_Retval") continue;
    Node* known = graph_.FindNode(node->name());
    if (known != nullptr && known->id() < first_new_ && known->op_name() == node->op_name()) {
      copies[node] = known;
      if (known->num_outputs() < node->num_outputs() || known->num_inputs() < node->num_inputs()) {
        // A gradient within the body has split it already.
        for (const auto& [name, value] : node->attrs()) known->SetAttr(name, value);
      }
      if (known->num_outputs() != node->num_outputs() || known->num_inputs() != node->num_inputs())
        return errors::InvalidArgument("Node '", node->name(), "' differs in '", registered, "'");
      continue;
    }
    AttrMap attrs = node->attrs();
    const auto source = node->Attr<std::string>("source");
    if (source.ok() && *source == own && node->op_name().starts_with("TensorArrayGrad"))
      attrs.Set("source", scope);
    MR_ASSIGN_OR_RETURN(copies[node], graph_.AddNode(graph_.NewName(node->name()), node->op_name(),
                                                     std::move(attrs), node->requested_device()));
  }
  return copies;
}

// A loop of the gradients must stay together, including the part that only counts iterations.
Status FunctionSplit::MarkBehindGradients() {
  behind_.assign(static_cast<size_t>(graph_.num_node_ids()), false);
  std::vector<const Node*> work;
  const auto mark = [&](const Node* node) {
    if (behind_[Id(node)] || !node->IsOp()) return;
    behind_[Id(node)] = true;
    work.push_back(node);
  };
  for (const Output& tensor : arriving_) mark(tensor.node);
  const LoopForest forest(graph_);
  const auto is_new = [this](const Loop& loop) {
    return std::all_of(loop.variables.begin(), loop.variables.end(), [this](const Loop::Variable& v) {
      return v.enter == nullptr || v.enter->id() >= first_new_;
    });
  };
  for (const Node* node : graph_.OpNodes()) {
    const Loop* loop = forest.LoopOf(*node);
    while (loop != nullptr && loop->parent != nullptr) loop = loop->parent;
    if (node->id() >= first_new_ && loop != nullptr && is_new(*loop)) mark(node);
  }
  while (!work.empty()) {
    const Node* node = work.back();
    work.pop_back();
    for (const Edge* edge : node->out_edges()) mark(edge->dst);
  }
  return Status();
}

// Computed from constants alone, so that the backward function can recompute it. Such nodes form short
// chains.
bool FunctionSplit::IsPure(const Node& node) const {
  if (!node.control_in_edges().empty() || node.op_def().is_stateful || node.num_outputs() == 0) return false;
  if (node.op_name() == "Const") return true;
  if (node.id() < first_new_ || node.num_inputs() == 0) return false;
  return std::all_of(node.data_in_edges().begin(), node.data_in_edges().end(), [](const Edge* e) {
    return e != nullptr && e->src->op_name() == "Const" && e->src->control_in_edges().empty();
  });
}

Status FunctionSplit::Collect(bool only_constant_parameters) {
  const size_t size = static_cast<size_t>(graph_.num_node_ids());
  std::vector<bool> taken(size, false);
  std::map<std::pair<int, int>, size_t> kept;
  std::vector<Output> work = gradients_;
  const LoopForest forest(graph_);
  const std::unordered_set<const Node*> boundary;
  Guards guards(boundary);
  while (!work.empty()) {
    const Output at = work.back();
    work.pop_back();
    if (IsParameter(at.node)) {
      const bool is_arg = at.node->op_name() == "_Arg";
      bool passed = !is_arg || !only_constant_parameters;
      for (size_t i = 0; i < parameters_.size() && !passed; ++i)
        passed = parameters_[i] == at && IsConstant(i);
      if (passed) continue;
    } else if (behind_[Id(at.node)] || IsPure(*at.node)) {
      if (taken[Id(at.node)]) continue;
      taken[Id(at.node)] = true;
      backward_.push_back(at.node);
      for (const Edge* edge : at.node->data_in_edges()) work.push_back({edge->src, edge->src_output});
      continue;
    }
    if (!kept.try_emplace({at.node->id(), at.index}, kept_.size()).second) continue;
    if (forest.LoopOf(*at.node) != nullptr || !guards.Of(at).empty()) {
      return errors::Unimplemented("The gradient needs '", at.node->name(),
                                   "', which is in a loop or branch of a function that must not run again");
    }
    kept_.push_back(at);
  }
  // The forward function ends before the backward function begins.
  for (const Node* node : backward_) {
    const auto controls = node->control_in_edges();
    for (Edge* edge : std::vector<Edge*>(controls.begin(), controls.end())) {
      if (!taken[Id(edge->src)]) graph_.RemoveEdge(edge);
    }
  }
  std::vector<bool> seen(size, false);
  std::vector<const Node*> nodes;
  const auto reach = [&](const Node* node) {
    if (!node->IsOp() || seen[Id(node)] || IsParameter(node)) return;
    seen[Id(node)] = true;
    nodes.push_back(node);
  };
  for (const Node* node : graph_.OpNodes()) {
    if (node->id() < first_new_) reach(node);
  }
  for (const Output& tensor : kept_) reach(tensor.node);
  while (!nodes.empty()) {
    const Node* node = nodes.back();
    nodes.pop_back();
    forward_.push_back(node);
    for (const Edge* edge : node->in_edges()) {
      if (edge != nullptr) reach(edge->src);
    }
  }
  return Status();
}

StatusOr<Output> FunctionSplit::AddParameter(DataType type) {
  MR_ASSIGN_OR_RETURN(Node * node, Add("Placeholder", {{"dtype", type}}, {}));
  return Output{node, 0};
}

StatusOr<Output> FunctionSplit::AddForward(std::string_view op, AttrMap attrs,
                                           const std::vector<Output>& inputs) {
  MR_ASSIGN_OR_RETURN(Node * node, Add(op, std::move(attrs), inputs));
  forward_.push_back(node);
  return Output{node, 0};
}

StatusOr<Output> FunctionSplit::AddBackward(std::string_view op, AttrMap attrs,
                                            const std::vector<Output>& inputs) {
  MR_ASSIGN_OR_RETURN(Node * node, Add(op, std::move(attrs), inputs));
  backward_.push_back(node);
  return Output{node, 0};
}

void FunctionSplit::ReplaceKept(size_t i, const Output& by) {
  const Output old = kept_[i];
  const std::unordered_set<const Node*> of_backward(backward_.begin(), backward_.end());
  const std::vector<Edge*> edges(old.node->out_edges().begin(), old.node->out_edges().end());
  for (const Edge* edge : edges) {
    if (!edge->IsControl() && edge->src_output == old.index && of_backward.contains(edge->dst))
      graph_.UpdateInput(edge->dst, edge->dst_input, by.node, by.index);
  }
  std::replace(gradients_.begin(), gradients_.end(), old, by);
}

StatusOr<NameAttrList> FunctionSplit::WriteForward(const std::vector<Output>& inputs,
                                                   const std::vector<Output>& outputs) {
  FunctionParts parts = PartsOf(StrCat(f_.name, "_forward"), forward_, inputs, outputs);
  parts.controls.assign(body_.control_rets.begin(), body_.control_rets.end());
  return Write(owner_, std::move(parts), owner_.functions().Find(f_.name));
}

StatusOr<NameAttrList> FunctionSplit::WriteBackward(const std::vector<Output>& inputs,
                                                    const std::vector<Output>& outputs) {
  return Write(owner_, PartsOf(StrCat(f_.name, "_backward"), backward_, inputs, outputs), nullptr);
}

StatusOr<NameAttrList> AddWrittenFunction(Graph& owner, std::string name, std::vector<const Node*> body,
                                          std::vector<Output> inputs, std::vector<Output> outputs) {
  return Write(owner, PartsOf(std::move(name), std::move(body), std::move(inputs), std::move(outputs)),
               nullptr);
}

StatusOr<NameAttrList> WithMoreParameters(Graph& owner, const NameAttrList& f,
                                          const std::vector<DataType>& more) {
  MR_ASSIGN_OR_RETURN(FunctionBody body, InstantiateCallee(owner.functions(), owner.ops(), f));
  Graph& graph = *body.graph;
  FunctionParts parts = PartsOf(StrCat(f.name, "_forward"), {}, {}, {});
  for (Node* arg : body.args) parts.inputs.push_back({arg, 0});
  for (Node* ret : body.rets) {
    MR_ASSIGN_OR_RETURN(const Edge* source, ret->InputEdge(0));
    parts.outputs.push_back({source->src, source->src_output});
  }
  for (const Node* node : graph.OpNodes()) {
    if (node->op_name() != "_Arg" && node->op_name() != "_Retval") parts.body.push_back(node);
  }
  parts.controls.assign(body.control_rets.begin(), body.control_rets.end());
  for (const DataType type : more) {
    MR_ASSIGN_OR_RETURN(Node * node,
                        graph.AddNode(graph.NewName("unused"), "Placeholder", {{"dtype", type}}));
    parts.inputs.push_back({node, 0});
  }
  return Write(owner, std::move(parts), owner.functions().Find(f.name));
}

}  // namespace millrace
