// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Ops that call functions.
#include "ops/family.h"

namespace millrace::ops {
namespace {

// Calls are never evaluated at compile time: that would compile the called functions.
constexpr OpTraits kCall{.never_fold = true};
constexpr OpTraits kStatefulCall{.never_fold = true, .has_side_effects = true};

// The shapes that "output_shapes" declares, if any.
Status DeclaredShapes(InferenceContext& c) {
  const auto shapes = c.Attr<std::vector<PartialShape>>("output_shapes");
  if (!shapes.ok() || shapes->empty()) return Status::Ok();
  if (static_cast<int>(shapes->size()) != c.num_outputs()) {
    return errors::InvalidArgument("`output_shapes` must be the same length as num outputs (", shapes->size(),
                                   " vs. ", c.num_outputs());
  }
  for (int i = 0; i < c.num_outputs(); ++i) {
    MR_ASSIGN_OR_RETURN(const ShapeHandle shape, c.MakeShapeFromPartial((*shapes)[i]));
    c.set_output(i, shape);
  }
  return Status::Ok();
}

// The gradients of the parameters come first among the inputs and have their shapes.
Status SymbolicGradientShape(InferenceContext& c) {
  if (c.num_inputs() < c.num_outputs()) return errors::InvalidArgument("len(inputs) < len(outputs)");
  for (int i = 0; i < c.num_outputs(); ++i) {
    if (c.input_handle(i).empty()) {
      c.set_output(i, c.input(i));
    } else {
      c.set_output(i, c.input_handle(i)[0].shape);
    }
  }
  return Status::Ok();
}

// Inputs with rows, as many for all; an output has a row for each of them.
Status MapDefunShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const auto shapes, c.Attr<std::vector<PartialShape>>("output_shapes"));
  MR_ASSIGN_OR_RETURN(const auto arguments, c.Attr<std::vector<DataType>>("Targuments"));
  if (static_cast<int>(shapes.size()) != c.num_outputs()) {
    return errors::InvalidArgument("`output_shapes` must be the same length as `output_types` (",
                                   shapes.size(), " vs. ", c.num_outputs(), ")");
  }
  DimHandle rows = c.UnknownDim();
  for (int i = 0; i < static_cast<int>(arguments.size()); ++i) {
    if (!c.RankKnown(c.input(i))) continue;
    if (c.Rank(c.input(i)) == 0) {
      return errors::InvalidArgument("Arguments must have rank at least 1. Input ", i, " has rank of 0.");
    }
    const auto merged = c.Merge(rows, c.Dim(c.input(i), 0));
    if (!merged.ok()) return errors::InvalidArgument("Arguments must have the same dimension 0.");
    rows = *merged;
  }
  for (int i = 0; i < c.num_outputs(); ++i) {
    MR_ASSIGN_OR_RETURN(const ShapeHandle row, c.MakeShapeFromPartial(shapes[static_cast<size_t>(i)]));
    MR_ASSIGN_OR_RETURN(const ShapeHandle all, c.Concatenate(c.Vector(rows), row));
    c.set_output(i, all);
  }
  return Status::Ok();
}

OpBuilder Call(const char* name) {
  return OpBuilder(name)
      .Input("args: Tin")
      .Output("output: Tout")
      .Attr("Tin: list(type) >= 0")
      .Attr("Tout: list(type) >= 0")
      .Attr("f: func")
      .Attr("config: string = ''")
      .Attr("config_proto: string = ''")
      .Attr("executor_type: string = ''")
      .Shape(shape_fns::Unknown);
}

OpBuilder If(const char* name) {
  return OpBuilder(name)
      .Input("cond: Tcond")
      .Input("input: Tin")
      .Output("output: Tout")
      .Attr("Tcond: type")
      .Attr("Tin: list(type) >= 0")
      .Attr("Tout: list(type) >= 0")
      .Attr("then_branch: func")
      .Attr("else_branch: func")
      .Attr("output_shapes: list(shape) = []")
      .Shape(DeclaredShapes);
}

OpBuilder While(const char* name) {
  return OpBuilder(name)
      .Input("input: T")
      .Output("output: T")
      .Attr("T: list(type) >= 0")
      .Attr("cond: func")
      .Attr("body: func")
      .Attr("output_shapes: list(shape) = []")
      .Attr("parallel_iterations: int = 10")
      .Shape(DeclaredShapes);
}

std::vector<OpBuilder> Calls() {
  return {
      Call("PartitionedCall: Calls a function whose nodes may run on several devices.").Traits(kCall),
      Call("StatefulPartitionedCall: Calls a stateful function whose nodes may run on several devices.")
          .Stateful()
          .Traits(kStatefulCall),
      OpBuilder("SymbolicGradient: The gradient of a function with respect to its inputs.")
          .Input("input: Tin")
          .Output("output: Tout")
          .Attr("Tin: list(type) >= 1")
          .Attr("Tout: list(type) >= 1")
          .Attr("f: func")
          .Shape(SymbolicGradientShape)
          .Traits(kCall),
      OpBuilder("RemoteCall: Calls a function on another device.")
          .Input("target: string")
          .Input("args: Tin")
          .Output("output: Tout")
          .Attr("Tin: list(type) >= 1")
          .Attr("Tout: list(type) >= 1")
          .Attr("f: func")
          .Stateful()
          .Shape(shape_fns::Unknown)
          .Traits(kStatefulCall),
  };
}

std::vector<OpBuilder> Conditions() {
  return {
      If("If: Calls one of two functions, selected by a condition.").Stateful().Traits(kStatefulCall),
      If("StatelessIf: Calls one of two functions, selected by a condition (stateless).").Traits(kCall),
      OpBuilder("Case: Calls one of several functions, selected by an index.")
          .Input("branch_index: int32")
          .Input("input: Tin")
          .Output("output: Tout")
          .Attr("Tin: list(type) >= 0")
          .Attr("Tout: list(type) >= 0")
          .Attr("branches: list(func) >= 1")
          .Attr("output_shapes: list(shape) = []")
          .Stateful()
          .Shape(DeclaredShapes)
          .Traits(kStatefulCall),
      OpBuilder("FakeParam: A placeholder for a value that a branch does not produce.")
          .Output("output: dtype")
          .Attr("dtype: type")
          .Attr("shape: shape")
          .Shape(shape_fns::Explicit)
          .Traits(kGenerator)
          .NotDifferentiable(),
  };
}

std::vector<OpBuilder> Loops() {
  return {
      While("While: Calls a function while a condition function returns true.")
          .Stateful()
          .Traits(kStatefulCall),
      While("StatelessWhile: Calls a function while a condition function returns true (stateless).")
          .Traits(kCall),
      OpBuilder("For: Calls a function for each number of a range, passing its results to the next call.")
          .Input("start: int32")
          .Input("limit: int32")
          .Input("delta: int32")
          .Input("input: T")
          .Output("output: T")
          .Attr("T: list(type) >= 0")
          .Attr("body: func")
          .Shape(shape_fns::Unknown)
          .Traits(kStatefulCall),
      OpBuilder("MapDefun: Calls a function for each row of its arguments.")
          .Input("arguments: Targuments")
          .Input("captured_inputs: Tcaptured")
          .Output("output: output_types")
          .Attr("Targuments: list(type) >= 1")
          .Attr("Tcaptured: list(type) >= 0 = []")
          .Attr("output_types: list(type) >= 1")
          .Attr("output_shapes: list(shape) >= 1")
          .Attr("f: func")
          .Attr("max_intra_op_parallelism: int = 1")
          .Shape(MapDefunShape)
          .Traits(kCall)
          .NotDifferentiable(),
      // The gradients of the variables of a loop before it, from those after it.
      OpBuilder("_WhileGrad: The gradient of a loop.")
          .Input("input: T")
          .Input("output_grad: Tgrad")
          .Output("input_grad: Tgrad")
          .Attr("T: list(type) >= 0")
          .Attr("Tgrad: list(type) >= 0")
          .Attr("cond: func")
          .Attr("body: func")
          .Shape(shape_fns::Unknown)
          .Traits(kCall),
  };
}

// Between a list argument of a function and the one tensor type of its op.
std::vector<OpBuilder> ListConverters() {
  return {
      OpBuilder("_ListToArray: Tensors of a list of types as tensors of one type.")
          .Input("input: Tin")
          .Output("output: N * T")
          .Attr("Tin: list(type)")
          .Attr(kAnyType)
          .Attr("N: int >= 1")
          .Shape(shape_fns::Unknown)
          .Traits(kAliasing),
      OpBuilder("_ArrayToList: Tensors of one type as a list of types.")
          .Input("input: N * T")
          .Output("output: out_types")
          .Attr(kAnyType)
          .Attr("N: int >= 1")
          .Attr("out_types: list(type)")
          .Shape(shape_fns::Unknown)
          .Traits(kAliasing),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterFunctionalOps(OpRegistry& registry) {
  for (const auto& family : {ops::Calls(), ops::Conditions(), ops::Loops(), ops::ListConverters()})
    MR_RETURN_IF_ERROR(ops::RegisterEach(registry, family));
  return Status::Ok();
}

}  // namespace millrace
