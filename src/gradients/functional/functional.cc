// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Calls of functions. The gradient of a call is a call of the gradient: SymbolicGradient takes the parameters
// and the gradients of the results, and gives the gradients of the parameters.
#include <memory>
#include <utility>
#include <vector>

#include "gradients/functional/operands.h"
#include "graph/function_gradient.h"
#include "op/function_attrs.h"

namespace millrace {
namespace gradients {

namespace {

// Whether a handle is known to be that of a TensorArray, whose gradient is that of its flow.
bool IsArray(Output handle) {
  while (handle.IsSet()) {
    const std::string& op = handle.node->op_name();
    if (op.starts_with("TensorArray")) return true;
    const bool is_loop = op == "While" || op == "StatelessWhile";
    if (!is_loop && op != "Identity") return false;
    const auto edge = handle.node->InputEdge(is_loop ? handle.index : 0);
    if (!edge.ok()) return false;
    handle = {(*edge)->src, (*edge)->src_output};
  }
  return false;
}

}  // namespace

std::vector<DataType> TypesOfGradients(GradientContext& c, int first) {
  std::vector<DataType> types;
  for (int i = first; i < c.num_inputs(); ++i) {
    DataType type = BaseType(c.node().input_type(i));
    if (type == DataType::kResource && c.wants(i) && !IsArray(c.input(i).output())) {
      const Output in = c.input(i).output();
      PartialShape shape;
      DataType held = DataType::kInvalid;
      if (in.IsSet() && c.builder().shapes().OutputHandle(*in.node, in.index, &shape, &held)) {
        type = held;
      } else {
        c.builder().Fail(errors::Unimplemented("The type of the resource of input ", i,
                                               " is unknown, so it cannot be differentiated"));
      }
    }
    types.push_back(type);
  }
  return types;
}

AttrMap GradientAttrs(const GradientContext& c, const NameAttrList& f, const std::vector<DataType>& from,
                      const std::vector<DataType>& to) {
  AttrMap attrs{{"f", f}, {"Tin", from}, {"Tout", to}};
  if (c.scope() != GradientTypes().scope) attrs.Set(kGradientScopeAttr, c.scope());
  return attrs;
}

NameAttrList GradientOf(const GradientContext& c, const NameAttrList& f, const std::vector<DataType>& from,
                        const std::vector<DataType>& to) {
  return {"SymbolicGradient", std::make_shared<const AttrMap>(GradientAttrs(c, f, from, to))};
}

namespace {

// The tensors that a gradient function takes, from input `first` on, with their types.
struct Operands {
  std::vector<Output> tensors;
  std::vector<DataType> types;
};

void Append(const Expr& value, Operands* to) {
  to->tensors.push_back(value.output());
  to->types.push_back(value.dtype());
}

// Zeros where there is no gradient; for types without zeros, a value that is not used.
Expr GradOrZeros(GradientContext& c, int i) {
  if (c.has_grad(i)) return c.grad(i);
  const DataType type = BaseType(c.node().output_type(i));
  if (type != DataType::kString && type != DataType::kResource) return ZerosLike(c.output(i));
  GraphBuilder& builder = c.builder();
  Node* node = builder.Add("FakeParam", {}, {{"dtype", type}, {"shape", PartialShape()}});
  return Expr(builder, node == nullptr ? Output() : Output{node, 0});
}

Operands ParametersAndGradients(GradientContext& c, int first) {
  Operands operands;
  for (int i = first; i < c.num_inputs(); ++i) Append(c.input(i), &operands);
  for (int i = 0; i < c.num_outputs(); ++i) Append(GradOrZeros(c, i), &operands);
  return operands;
}

// As the operands of ParametersAndGradients, before there are any.
std::vector<DataType> ParametersAndGradientTypes(const GradientContext& c, int first) {
  std::vector<DataType> types;
  for (int i = first; i < c.num_inputs(); ++i) types.push_back(BaseType(c.node().input_type(i)));
  for (int i = 0; i < c.num_outputs(); ++i) {
    const Output grad = c.grad_value(i).IsSet() ? c.grad_value(i).values() : Output();
    types.push_back(BaseType(grad.IsSet() ? grad.node->output_type(grad.index) : c.node().output_type(i)));
  }
  return types;
}

bool AnyMustSplit(const GradientContext& c, const SplitCall& call, const std::vector<DataType>& types) {
  std::vector<NameAttrList> gradients;
  for (const NameAttrList& f : call.functions)
    gradients.push_back(GradientOf(c, f, ParametersAndGradientTypes(c, call.first), types));
  return MustSplit(c, call.functions, gradients);
}

void TakeResults(GradientContext& c, Node* node, int first) {
  for (int i = first; node != nullptr && i < c.num_inputs(); ++i) {
    if (c.wants(i)) c.SetInputGrad(i, Expr(c.builder(), {node, i - first}));
  }
}

Status CallGradient(GradientContext& c, const NameAttrList& f) {
  const Operands operands = ParametersAndGradients(c, 0);
  AttrMap attrs = GradientAttrs(c, f, operands.types, TypesOfGradients(c, 0));
  if (!c.status().ok()) return c.status();
  TakeResults(c, c.builder().Add("SymbolicGradient", {InputArg{operands.tensors, true}}, std::move(attrs)),
              0);
  return c.status();
}

// The op of a node with its attributes, as a function. A call by name may call another function.
NameAttrList OpAsFunction(const Node& node) {
  if (const AttrValue* forward = node.attrs().Find(kForwardAttr); forward != nullptr) {
    if (const auto* f = forward->As<NameAttrList>(); f != nullptr) return *f;
  }
  std::vector<AttrMap::Entry> entries;
  for (const auto& entry : node.attrs()) {
    if (!entry.first.starts_with('_') || entry.first == kGradientScopeAttr) entries.push_back(entry);
  }
  return {node.op_name(), std::make_shared<const AttrMap>(AttrMap::FromEntries(std::move(entries)))};
}

// Gradients of ops that name a function, and of functions that nodes call by name.
Status CalleeGrad(GradientContext& c) {
  const std::string& op = c.node().op_name();
  const bool names_function = op == "PartitionedCall" || op == "StatefulPartitionedCall";
  const auto f = names_function ? c.Attr<NameAttrList>("f") : OpAsFunction(c.node());
  const std::vector<DataType> types = TypesOfGradients(c, 0);
  if (!c.status().ok()) return c.status();
  const char* attr = names_function ? "f" : kForwardAttr.data();
  if (MustSplit(c, {f}, {GradientOf(c, f, ParametersAndGradientTypes(c, 0), types)}))
    return SplitCallGradient(c, {.first = 0, .attrs = {attr}, .functions = {f}});
  return CallGradient(c, f);
}

Status LoopGrad(GradientContext& c) {
  const NameAttrList loop = OpAsFunction(c.node());
  const std::vector<DataType> types = TypesOfGradients(c, 0);
  if (!c.status().ok()) return c.status();
  if (MustSplit(c, {loop}, {GradientOf(c, loop, ParametersAndGradientTypes(c, 0), types)}))
    return SplitLoopGradient(c);
  return CallGradient(c, loop);
}

// The gradient of an op that is treated as a function.
Status OpAsFunctionGrad(GradientContext& c) { return CallGradient(c, OpAsFunction(c.node())); }

// The branches of the gradient are the gradients of the branches.
Status BranchGradient(GradientContext& c, const char* selector, const Operands& operands,
                      const std::vector<DataType>& types, AttrMap attrs) {
  attrs.Set("Tin", operands.types);
  attrs.Set("Tout", types);
  if (std::string_view(selector) == "cond") attrs.Set("Tcond", c.input(0).dtype());
  if (!c.status().ok()) return c.status();
  Node* node = c.builder().Add(c.node().op_name(),
                               {InputArg{{c.input(0).output()}, false}, InputArg{operands.tensors, true}},
                               std::move(attrs));
  TakeResults(c, node, 1);
  return c.status();
}

Status IfGrad(GradientContext& c) {
  const std::vector<DataType> types = TypesOfGradients(c, 1);
  SplitCall split{.first = 1, .attrs = {"then_branch", "else_branch"}, .functions = {}};
  for (const char* branch : split.attrs) split.functions.push_back(c.Attr<NameAttrList>(branch));
  if (!c.status().ok()) return c.status();
  if (AnyMustSplit(c, split, types)) return SplitCallGradient(c, split);
  const Operands operands = ParametersAndGradients(c, 1);
  AttrMap attrs;
  for (const char* branch : split.attrs)
    attrs.Set(branch, GradientOf(c, c.Attr<NameAttrList>(branch), operands.types, types));
  return BranchGradient(c, "cond", operands, types, std::move(attrs));
}

Status CaseGrad(GradientContext& c) {
  const std::vector<DataType> types = TypesOfGradients(c, 1);
  const SplitCall split{
      .first = 1, .attrs = {"branches"}, .functions = c.Attr<std::vector<NameAttrList>>("branches")};
  if (!c.status().ok()) return c.status();
  if (AnyMustSplit(c, split, types)) return SplitCallGradient(c, split);
  const Operands operands = ParametersAndGradients(c, 1);
  std::vector<NameAttrList> branches;
  for (const NameAttrList& f : c.Attr<std::vector<NameAttrList>>("branches"))
    branches.push_back(GradientOf(c, f, operands.types, types));
  return BranchGradient(c, "branch_index", operands, types, {{"branches", std::move(branches)}});
}

Status ListToArrayGrad(GradientContext& c) {
  std::vector<Output> grads;
  grads.reserve(static_cast<size_t>(c.num_outputs()));
  for (int i = 0; i < c.num_outputs(); ++i) grads.push_back(GradOrZeros(c, i).output());
  if (!c.status().ok()) return c.status();
  TakeResults(c,
              c.builder().Add("_ArrayToList", {InputArg{grads, true}},
                              {{"out_types", c.Attr<std::vector<DataType>>("Tin")}}),
              0);
  return c.status();
}

Status ArrayToListGrad(GradientContext& c) {
  std::vector<Output> grads;
  grads.reserve(static_cast<size_t>(c.num_outputs()));
  for (int i = 0; i < c.num_outputs(); ++i) grads.push_back(GradOrZeros(c, i).output());
  AttrMap attrs = c.CopyAttrs({"T", "N"});
  if (!c.status().ok()) return c.status();
  TakeResults(c, c.builder().Add("_ListToArray", {InputArg{grads, true}}, std::move(attrs)), 0);
  return c.status();
}

constexpr Row kRows[] = {
    {"PartitionedCall", CalleeGrad},
    {"StatefulPartitionedCall", CalleeGrad},
    {"SymbolicGradient", OpAsFunctionGrad},
    {"If", IfGrad},
    {"StatelessIf", IfGrad},
    {"Case", CaseGrad},
    {"While", LoopGrad},
    {"StatelessWhile", LoopGrad},
    {"_ListToArray", ListToArrayGrad},
    {"_ArrayToList", ArrayToListGrad},
};

}  // namespace
}  // namespace gradients

Status RegisterFunctionalGradients(GradientRegistry& registry) {
  return gradients::RegisterEach(registry, gradients::kRows);
}

}  // namespace millrace
