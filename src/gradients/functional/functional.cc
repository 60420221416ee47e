// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Calls of functions. The gradient of a call is a call of the gradient: SymbolicGradient takes the parameters
// and the gradients of the results, and gives the gradients of the parameters.
#include <memory>
#include <utility>
#include <vector>

#include "gradients/functional/operands.h"

namespace millrace {
namespace gradients {

std::vector<DataType> GradientTypes(GradientContext& c, int first) {
  std::vector<DataType> types;
  for (int i = first; i < c.num_inputs(); ++i) {
    DataType type = BaseType(c.node().input_type(i));
    if (type == DataType::kResource) {
      const Output in = c.input(i).output();
      PartialShape shape;
      DataType held = DataType::kInvalid;
      if (in.IsSet() && c.builder().shapes().OutputHandle(*in.node, in.index, &shape, &held)) {
        type = held;
      } else if (c.wants(i)) {
        c.builder().Fail(errors::Unimplemented("The type of what the resource behind input ", i,
                                               " holds is not known, so it can't be differentiated"));
      }
    }
    types.push_back(type);
  }
  return types;
}

NameAttrList GradientOf(const NameAttrList& f, const std::vector<DataType>& from,
                        const std::vector<DataType>& to) {
  return {"SymbolicGradient",
          std::make_shared<const AttrMap>(AttrMap{{"f", f}, {"Tin", from}, {"Tout", to}})};
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

// Zeros where no gradient arrives; where there are no zeros, something that is not used.
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
    gradients.push_back(GradientOf(f, ParametersAndGradientTypes(c, call.first), types));
  return MustSplit(c, call.functions, gradients);
}

void TakeResults(GradientContext& c, Node* node, int first) {
  for (int i = first; node != nullptr && i < c.num_inputs(); ++i) {
    if (c.wants(i)) c.SetInputGrad(i, Expr(c.builder(), {node, i - first}));
  }
}

Status CallGradient(GradientContext& c, const NameAttrList& f) {
  const Operands operands = ParametersAndGradients(c, 0);
  AttrMap attrs{{"f", f}, {"Tin", operands.types}, {"Tout", GradientTypes(c, 0)}};
  if (!c.status().ok()) return c.status();
  TakeResults(c, c.builder().Add("SymbolicGradient", {InputArg{operands.tensors, true}}, std::move(attrs)),
              0);
  return c.status();
}

// The op of a node with its attributes, as a function.
NameAttrList OpAsFunction(const Node& node) {
  std::vector<AttrMap::Entry> entries;
  for (const auto& entry : node.attrs()) {
    if (!entry.first.starts_with('_')) entries.push_back(entry);
  }
  return {node.op_name(), std::make_shared<const AttrMap>(AttrMap::FromEntries(std::move(entries)))};
}

// Gradients of ops that name a function, and of functions that nodes call by name.
Status CalleeGrad(GradientContext& c) {
  const std::string& op = c.node().op_name();
  const bool names_function = op == "PartitionedCall" || op == "StatefulPartitionedCall";
  if (!names_function) return CallGradient(c, OpAsFunction(c.node()));
  const auto f = c.Attr<NameAttrList>("f");
  const std::vector<DataType> types = GradientTypes(c, 0);
  if (!c.status().ok()) return c.status();
  if (MustSplit(c, {f}, {GradientOf(f, ParametersAndGradientTypes(c, 0), types)}))
    return SplitCallGradient(c, {.first = 0, .attrs = {"f"}, .functions = {f}});
  return CallGradient(c, f);
}

Status LoopGrad(GradientContext& c) {
  const NameAttrList loop = OpAsFunction(c.node());
  const std::vector<DataType> types = GradientTypes(c, 0);
  if (!c.status().ok()) return c.status();
  if (MustSplit(c, {loop}, {GradientOf(loop, ParametersAndGradientTypes(c, 0), types)}))
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
  const std::vector<DataType> types = GradientTypes(c, 1);
  SplitCall split{.first = 1, .attrs = {"then_branch", "else_branch"}, .functions = {}};
  for (const char* branch : split.attrs) split.functions.push_back(c.Attr<NameAttrList>(branch));
  if (!c.status().ok()) return c.status();
  if (AnyMustSplit(c, split, types)) return SplitCallGradient(c, split);
  const Operands operands = ParametersAndGradients(c, 1);
  AttrMap attrs;
  for (const char* branch : split.attrs)
    attrs.Set(branch, GradientOf(c.Attr<NameAttrList>(branch), operands.types, types));
  return BranchGradient(c, "cond", operands, types, std::move(attrs));
}

Status CaseGrad(GradientContext& c) {
  const std::vector<DataType> types = GradientTypes(c, 1);
  const SplitCall split{
      .first = 1, .attrs = {"branches"}, .functions = c.Attr<std::vector<NameAttrList>>("branches")};
  if (!c.status().ok()) return c.status();
  if (AnyMustSplit(c, split, types)) return SplitCallGradient(c, split);
  const Operands operands = ParametersAndGradients(c, 1);
  std::vector<NameAttrList> branches;
  for (const NameAttrList& f : c.Attr<std::vector<NameAttrList>>("branches"))
    branches.push_back(GradientOf(f, operands.types, types));
  return BranchGradient(c, "branch_index", operands, types, {{"branches", std::move(branches)}});
}

Status ListToArrayGrad(GradientContext& c) {
  std::vector<Output> grads;
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
