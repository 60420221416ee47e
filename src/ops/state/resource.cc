// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Variables behind resource handles.
#include "ops/array/shapes.h"
#include "ops/family.h"
#include "ops/state/variable_shapes.h"

namespace millrace::ops {
namespace {

Status VarHandleShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const DataType dtype, c.Attr<DataType>("dtype"));
  MR_ASSIGN_OR_RETURN(const PartialShape partial, c.Attr<PartialShape>("shape"));
  MR_ASSIGN_OR_RETURN(const ShapeHandle shape, c.MakeShapeFromPartial(partial));
  c.set_output(0, c.Scalar());
  c.set_output_handle(0, {{shape, dtype}});
  return Status::Ok();
}

Status ReadVariableShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle shape, TypedResourceShape(c, "read"));
  c.set_output(0, shape);
  return Status::Ok();
}

Status AssignVariableShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle shape, TypedResourceShape(c, "assign"));
  return c.Merge(shape, c.input(1)).status();
}

Status VariableShapeShape(InferenceContext& c) {
  const ShapeHandle shape = VariableShapeOf(c, 0);
  c.set_output(0, c.Vector(c.RankKnown(shape) ? c.MakeDim(c.Rank(shape)) : c.UnknownDim()));
  return Status::Ok();
}

Status ResourceGatherShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(ShapeHandle params, TypedResourceShape(c, "gather from"));
  MR_ASSIGN_OR_RETURN(params, c.WithRankAtLeast(params, 1));
  const ShapeHandle indices = c.input(1);
  MR_ASSIGN_OR_RETURN(const int64_t batch_dims, c.Attr<int64_t>("batch_dims"));
  if (!c.RankKnown(params) || !c.RankKnown(indices)) {
    c.set_output(0, c.UnknownShape());
    return Status::Ok();
  }
  const int64_t batch = batch_dims < 0 ? batch_dims + c.Rank(indices) : batch_dims;
  if (batch < 0 || batch > c.Rank(indices) || batch >= c.Rank(params)) {
    return errors::InvalidArgument("batch_dims (", batch_dims,
                                   ") must be less than the rank of the variable (", c.Rank(params),
                                   ") and at most the rank of indices (", c.Rank(indices), ")");
  }
  // params[batch..., row, rest...] and indices[batch..., places...] give [batch..., places..., rest...].
  MR_ASSIGN_OR_RETURN(const ShapeHandle params_batch, c.Subshape(params, 0, batch));
  MR_ASSIGN_OR_RETURN(const ShapeHandle front, c.MergePrefix(indices, params_batch));
  MR_ASSIGN_OR_RETURN(const ShapeHandle rest, c.Subshape(params, batch + 1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.Concatenate(front, rest));
  c.set_output(0, out);
  return Status::Ok();
}

Status ResourceGatherNdShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle params, TypedResourceShape(c, "gather from"));
  return SetGatherNdShape(c, params);
}

Status ResourceCountUpToShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(VariableShapeOf(c, 0), 0).status());
  c.set_output(0, c.Scalar());
  return Status::Ok();
}

Status ResourceScatterShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle variable, TypedResourceShape(c, "scatter to"));
  return CheckScatterUpdates(c, variable, c.input(1), c.input(2));
}

OpBuilder AssignVariable(const char* name) {
  return OpBuilder(name)
      .Input("resource: resource")
      .Input("value: dtype")
      .Attr("dtype: type")
      .Stateful()
      .Shape(AssignVariableShape)
      .Traits(kEffect)
      .NotDifferentiable();
}

OpBuilder ResourceScatter(const char* name, const char* types) {
  return OpBuilder(name)
      .Input("resource: resource")
      .Input("indices: Tindices")
      .Input("updates: dtype")
      .Attr(types)
      .Attr(kIndices)
      .Stateful()
      .Shape(ResourceScatterShape)
      .Traits(kEffect)
      .NotDifferentiable();
}

std::vector<OpBuilder> Handles() {
  return {
      OpBuilder("VarHandleOp: A resource variable.")
          .Attr("container: string = ''")
          .Attr("shared_name: string = ''")
          .Attr("dtype: type")
          .Attr("shape: shape")
          .Output("resource: resource")
          .Stateful()
          .Shape(VarHandleShape)
          .Traits({.cheap = true, .generator = true, .is_variable = true}),
      OpBuilder("VarIsInitializedOp: Whether a resource variable has a value.")
          .Input("resource: resource")
          .Output("is_initialized: bool")
          .Stateful()
          .Shape(shape_fns::Scalar)
          .Traits(kCheap),
      OpBuilder("VariableShape: The shape of a resource variable.")
          .Input("input: resource")
          .Output("output: out_type")
          .Attr("out_type: {int32, int64} = DT_INT32")
          .Stateful()
          .Shape(VariableShapeShape)
          .Traits(kCheap),
      OpBuilder("DestroyResourceOp: Deletes a resource.")
          .Input("resource: resource")
          .Attr("ignore_lookup_error: bool = true")
          .Stateful()
          .Shape(shape_fns::NoOutputs)
          .Traits(kEffect),
  };
}

std::vector<OpBuilder> Accesses() {
  return {
      OpBuilder("ReadVariableOp: The value of a resource variable.")
          .Input("resource: resource")
          .Output("value: dtype")
          .Attr("dtype: type")
          .Stateful()
          .Shape(ReadVariableShape)
          .Traits(kAliasing),
      AssignVariable("AssignVariableOp: Assigns a value to a resource variable."),
      AssignVariable("AssignAddVariableOp: Adds a value to a resource variable."),
      AssignVariable("AssignSubVariableOp: Subtracts a value from a resource variable."),
      OpBuilder("ResourceGather: Rows of a resource variable, by index.")
          .Input("resource: resource")
          .Input("indices: Tindices")
          .Output("output: dtype")
          .Attr("batch_dims: int = 0")
          .Attr("validate_indices: bool = true")
          .Attr("dtype: type")
          .Attr(kIndices)
          .Stateful()
          .Shape(ResourceGatherShape),
      OpBuilder("ResourceGatherNd: Elements or slices of a resource variable, by vectors of indices.")
          .Input("resource: resource")
          .Input("indices: Tindices")
          .Output("output: dtype")
          .Attr("dtype: type")
          .Attr("Tindices: {int32, int64}")
          .Stateful()
          .Shape(ResourceGatherNdShape),
      ResourceScatter("ResourceScatterAdd: Adds to rows of a resource variable, by index.", kResourceNumber),
      ResourceScatter("ResourceScatterSub: Subtracts from rows of a resource variable, by index.",
                      kResourceNumber),
      ResourceScatter("ResourceScatterMul: Multiplies rows of a resource variable, by index.",
                      kResourceNumber),
      ResourceScatter("ResourceScatterDiv: Divides rows of a resource variable, by index.", kResourceNumber),
      ResourceScatter(
          "ResourceScatterMin: Lowers rows of a resource variable to at most the updates, by index.",
          kResourceNumber),
      ResourceScatter(
          "ResourceScatterMax: Raises rows of a resource variable to at least the updates, by index.",
          kResourceNumber),
      ResourceScatter("ResourceScatterUpdate: Replaces rows of a resource variable, by index.",
                      "dtype: type"),
      OpBuilder("ResourceCountUpTo: Adds one to a resource variable and returns its old value; an error at "
                "the limit.")
          .Input("resource: resource")
          .Output("output: T")
          .Attr("limit: int")
          .Attr("T: {int32, int64}")
          .Stateful()
          .Shape(ResourceCountUpToShape)
          .Traits(kEffect)
          .NotDifferentiable(),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterResourceOps(OpRegistry& registry) {
  MR_RETURN_IF_ERROR(ops::RegisterEach(registry, ops::NotDifferentiable(ops::Handles())));
  return ops::RegisterEach(registry, ops::Accesses());
}

}  // namespace millrace
