// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/function_gradient.h"

#include <atomic>
#include <set>

#include "graph/function_names.h"
#include "graph/lower_functional.h"
#include "op/function_attrs.h"
#include "tensorflow/core/framework/function.pb.h"

namespace millrace {
namespace {

std::atomic<GradientBodyFn> gradient_body{nullptr};

// The maximum order of gradients of gradients: each level doubles the graph.
constexpr int kMaxOrder = 8;

StatusOr<FunctionBody> Instantiate(const FunctionLibrary& library, const OpRegistry& ops,
                                   const NameAttrList& f, int order);

// "Tin" and "Tout" of the requesting node; f has `parameters` parameters and `results` results.
StatusOr<GradientTypes> GradientTypesOf(const NameAttrList& f, size_t parameters, size_t results) {
  GradientTypes types;
  if (f.attrs->Find("Tout") != nullptr) {
    MR_ASSIGN_OR_RETURN(types.parameters, f.attrs->Get<std::vector<DataType>>("Tout"));
    if (types.parameters.size() != parameters) types.parameters.clear();
  }
  if (f.attrs->Find("Tin") != nullptr) {
    MR_ASSIGN_OR_RETURN(const std::vector<DataType> in, f.attrs->Get<std::vector<DataType>>("Tin"));
    if (in.size() == parameters + results)
      types.results.assign(in.begin() + static_cast<std::ptrdiff_t>(parameters), in.end());
  }
  if (f.attrs->Find(kGradientScopeAttr) != nullptr) {
    MR_ASSIGN_OR_RETURN(types.scope, f.attrs->Get<std::string>(kGradientScopeAttr));
  }
  return types;
}

bool IsLoop(const FunctionLibrary& library, const NameAttrList& f) {
  return (f.name == "While" || f.name == "StatelessWhile") && library.Find(f.name) == nullptr;
}

// Parameter `resource` has no incoming gradient, but the gradient of its value is required: the sum over the
// iterations starts from zeros instead of parameter `gradient`, which is unused.
Status StartFromZeros(FunctionBody* body, size_t resource, size_t gradient, DataType type) {
  Graph& graph = *body->graph;
  const auto add = [&](const char* op, const char* attr, Node* input) -> StatusOr<Node*> {
    MR_ASSIGN_OR_RETURN(Node * node,
                        graph.AddNode(graph.NewName(StrCat(op, "_", resource)), op, {{attr, type}}));
    graph.AddEdge(input, 0, node, 0);
    return node;
  };
  MR_ASSIGN_OR_RETURN(Node * read, add("ReadVariableOp", "dtype", body->args[resource]));
  MR_ASSIGN_OR_RETURN(Node * zeros, add("ZerosLike", "T", read));
  Node* const arg = body->args[gradient];
  const std::vector<Edge*> uses(arg->out_edges().begin(), arg->out_edges().end());
  for (const Edge* edge : uses) {
    if (!edge->IsControl()) graph.UpdateInput(edge->dst, edge->dst_input, zeros, 0);
  }
  MR_ASSIGN_OR_RETURN(Node * unused,
                      graph.AddNode(graph.NewName("no_gradient"), "_Arg",
                                    {{"T", DataType::kResource}, {"index", static_cast<int64_t>(gradient)}}));
  graph.RemoveNode(arg);
  body->args[gradient] = unused;
  return Status();
}

// One kernel runs a loop again, and then the gradient of its body for each iteration, the last one first.
// That kernel has no gradient itself.
StatusOr<FunctionBody> GradientOfLoop(const FunctionLibrary& library, const OpRegistry& ops,
                                      const NameAttrList& loop, const NameAttrList& gradient) {
  AttrMap attrs;
  for (const char* name : {"T", "cond", "body"}) {
    const AttrValue* value = loop.attrs == nullptr ? nullptr : loop.attrs->Find(name);
    if (value == nullptr) return errors::InvalidArgument(loop.name, " is missing attr: ", name);
    attrs.Set(name, *value);
  }
  MR_ASSIGN_OR_RETURN(const std::vector<DataType> variables, attrs.Get<std::vector<DataType>>("T"));
  MR_ASSIGN_OR_RETURN(const GradientTypes types,
                      GradientTypesOf(gradient, variables.size(), variables.size()));
  const std::vector<DataType>& grads = types.parameters.empty() ? variables : types.parameters;
  attrs.Set("Tgrad", grads);
  if (const AttrValue* scope = gradient.attrs->Find(kGradientScopeAttr); scope != nullptr)
    attrs.Set(kGradientScopeAttr, *scope);
  MR_ASSIGN_OR_RETURN(
      FunctionBody body,
      BodyOfOp(library, ops, {"_WhileGrad", std::make_shared<const AttrMap>(std::move(attrs))}));
  MR_RETURN_IF_ERROR(CheckRunsTwice(*body.graph));
  for (size_t i = 0; i < types.results.size(); ++i) {
    if (types.results[i] == DataType::kResource && grads[i] != DataType::kResource)
      MR_RETURN_IF_ERROR(StartFromZeros(&body, i, variables.size() + i, grads[i]));
  }
  body.graph->FixupSourceAndSinkEdges();
  MR_RETURN_IF_ERROR(IndexBody(&body));
  return body;
}

Status LowerLoop(Graph* graph) {
  for (Node* node : graph->OpNodes()) {
    const bool is_loop = node->op_name() == "While" || node->op_name() == "StatelessWhile";
    if (is_loop && CanLower(*node)) {
      MR_RETURN_IF_ERROR(LowerFunctional(node, {.resources_are_constant = true}).status());
    }
  }
  graph->FixupSourceAndSinkEdges();
  return Status();
}

const NameAttrList* FunctionOf(const NameAttrList& gradient) {
  const AttrValue* attr = gradient.attrs == nullptr ? nullptr : gradient.attrs->Find("f");
  return attr == nullptr ? nullptr : attr->As<NameAttrList>();
}

// Gradient TensorArrays are named by the computation that requests them.
StatusOr<FunctionBody> InstantiateRecomputing(const FunctionLibrary& library, const OpRegistry& ops,
                                              const NameAttrList& f, const std::string& scope) {
  MR_ASSIGN_OR_RETURN(FunctionBody body, InstantiateFunction(library, ops, f));
  const std::string& own = library.Find(f.name)->attr().at(std::string(kRecomputesAttr)).s();
  for (Node* node : body.graph->OpNodes()) {
    const auto source = node->Attr<std::string>("source");
    if (source.ok() && *source == own && node->op_name().starts_with("TensorArrayGrad"))
      node->SetAttr("source", scope);
  }
  MR_RETURN_IF_ERROR(CheckRunsTwice(*body.graph));
  return body;
}

StatusOr<FunctionBody> Gradient(const FunctionLibrary& library, const OpRegistry& ops, const NameAttrList& f,
                                int order) {
  const NameAttrList* const asked = FunctionOf(f);
  if (asked == nullptr) return errors::InvalidArgument("SymbolicGradient is missing attr: f");
  const NameAttrList resolved = RegisteredFunction(library, *asked);
  const NameAttrList* const of = &resolved;
  if (order >= kMaxOrder) {
    return errors::Unimplemented("Gradients of functions beyond order ", kMaxOrder);
  }
  const std::string registered = library.FindGradient(of->name);
  if (!registered.empty() && Recomputes(library, registered)) {
    MR_ASSIGN_OR_RETURN(const GradientTypes types, GradientTypesOf(f, 0, 0));
    return InstantiateRecomputing(library, ops, {registered, of->attrs}, types.scope);
  }
  if (!registered.empty()) return Instantiate(library, ops, {registered, of->attrs}, order + 1);
  const bool of_loop = IsLoop(library, *of);
  if (of_loop && order == 0) return GradientOfLoop(library, ops, *of, f);
  MR_ASSIGN_OR_RETURN(FunctionBody body, Instantiate(library, ops, *of, order + 1));
  // If it is to be differentiated again, the loop is expanded to ops, whose gradient has a gradient.
  if (of_loop) MR_RETURN_IF_ERROR(LowerLoop(body.graph.get()));
  MR_ASSIGN_OR_RETURN(const GradientTypes types, GradientTypesOf(f, body.args.size(), body.rets.size()));
  const GradientBodyFn derive = gradient_body.load(std::memory_order_acquire);
  if (derive == nullptr) return errors::Internal("Gradients of functions are not linked in");
  Status derived = derive(&body, types);
  if (!derived.ok()) return derived.WithContext(StrCat("; in the gradient of function '", of->name, "'"));
  return body;
}

StatusOr<FunctionBody> Instantiate(const FunctionLibrary& library, const OpRegistry& ops,
                                   const NameAttrList& f, int order) {
  if (library.Find(f.name) != nullptr) return InstantiateFunction(library, ops, f);
  if (f.name == "SymbolicGradient") return Gradient(library, ops, f, order);
  if (f.name.starts_with('_')) return errors::InvalidArgument("op type '", f.name, "' is internal");
  return BodyOfOp(library, ops, f);
}

// Whether an op without functions may be executed twice. Random numbers would differ the second time;
// creating or reading a variable may be repeated.
bool RunsTwice(const OpRegistration& op) {
  // A read removes the element that it reads, and gradients are added up.
  constexpr std::string_view kArray = "TensorArray";
  if (op.def.name.starts_with(kArray)) {
    const std::string_view what = std::string_view(op.def.name).substr(kArray.size());
    for (const char* changes : {"Read", "Gather", "Concat", "Pack", "Grad"}) {
      if (what.starts_with(changes)) return false;
    }
  }
  if (op.def.name == "_Arg" || op.def.name == "_Retval" || op.traits.is_variable || op.traits.only_checks)
    return true;
  return !op.traits.has_side_effects && !(op.def.is_stateful && op.traits.generator);
}

// Whether the state that the node changes is new in each run: a tensor array or a stack that the graph itself
// makes. Its handle comes, perhaps through a loop, from a node that takes no handle, has no shared name, and
// calls no function that could return a shared one.
bool ChangesOwnState(const Node& node) {
  std::set<const Node*> seen;
  for (const Node* at = &node; seen.insert(at).second;) {
    if (at->num_inputs() == 0 || BaseType(at->input_type(0)) != DataType::kResource) {
      FunctionNames called;
      CollectFunctions(at->attrs(), &called);
      return at != &node && at->op_def().is_stateful && at->op_name() != "_Arg" && called.empty() &&
             at->graph().functions().Find(at->op_name()) == nullptr &&
             at->attrs().Find("shared_name") == nullptr;
    }
    const auto edge = at->InputEdge(0);
    if (!edge.ok()) return false;
    at = (*edge)->src;
  }
  return false;
}

Status CantRunTwice(std::string_view node, std::string_view op) {
  return errors::Unimplemented("The gradient would run node '", node, "' (op ", op,
                               ") again, which has side effects or may return another value");
}

}  // namespace

Status CheckRunsTwice(const Graph& graph) {
  FunctionNames pending, seen;
  // An op with functions has the effects of these functions.
  const auto check = [&](const OpRegistration& op, std::string_view node, size_t functions) {
    if (functions > 0 || graph.functions().Find(op.def.name) != nullptr) return Status();
    return RunsTwice(op) ? Status() : CantRunTwice(node, op.def.name);
  };
  for (const Node* node : graph.OpNodes()) {
    FunctionNames called;
    CollectFunctions(node->attrs(), &called);
    if (!ChangesOwnState(*node)) MR_RETURN_IF_ERROR(check(node->op(), node->name(), called.size()));
    if (graph.functions().Find(node->op_name()) != nullptr) called.insert(node->op_name());
    pending.merge(called);
  }
  while (!pending.empty()) {
    const std::string name = *pending.begin();
    pending.erase(pending.begin());
    const tensorflow::FunctionDef* def = graph.functions().Find(name);
    if (def == nullptr || !seen.insert(name).second) continue;
    for (const tensorflow::NodeDef& node : def->node_def()) {
      MR_ASSIGN_OR_RETURN(const OpRegistration* op, graph.LookUpOp(node.op()));
      FunctionNames called;
      for (const auto& [attr, value] : node.attr()) CollectFunctions(value, &called);
      MR_RETURN_IF_ERROR(check(*op, node.name(), called.size()));
      if (graph.functions().Find(node.op()) != nullptr) called.insert(node.op());
      pending.merge(called);
    }
  }
  return Status();
}

bool Recomputes(const FunctionLibrary& library, std::string_view function) {
  const tensorflow::FunctionDef* def = library.Find(function);
  return def != nullptr && def->attr().contains(std::string(kRecomputesAttr));
}

NameAttrList RegisteredFunction(const FunctionLibrary& library, const NameAttrList& f) {
  if (f.name != "SymbolicGradient" || library.Find(f.name) != nullptr) return f;
  const NameAttrList* inner = FunctionOf(f);
  if (inner == nullptr) return f;
  const NameAttrList of = RegisteredFunction(library, *inner);
  const std::string registered = library.FindGradient(of.name);
  return registered.empty() || !Recomputes(library, registered) ? f : NameAttrList{registered, of.attrs};
}

// Release and acquire: the objects that the function refers to were created before.
void SetGradientBodyFn(GradientBodyFn fn) { gradient_body.store(fn, std::memory_order_release); }

StatusOr<FunctionBody> InstantiateCallee(const FunctionLibrary& library, const OpRegistry& ops,
                                         const NameAttrList& f) {
  return Instantiate(library, ops, f, 0);
}

}  // namespace millrace
