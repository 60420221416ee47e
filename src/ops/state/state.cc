// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Variables that are references to tensors.
#include "ops/family.h"
#include "ops/state/variable_shapes.h"

namespace millrace::ops {
namespace {

// The first version of the op wrote "shape not known" as a scalar shape.
Status LegacyVariableShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const PartialShape shape, c.Attr<PartialShape>("shape"));
  if (shape.rank() > 0) return shape_fns::Explicit(c);
  c.set_output(0, c.UnknownShape());
  return Status::Ok();
}

Status AssignShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const bool validate_shape, c.Attr<bool>("validate_shape"));
  if (validate_shape) return shape_fns::MergeBothInputs(c);
  c.set_output(0, c.input(1));
  return Status::Ok();
}

Status ScatterUpdateShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(CheckScatterUpdates(c, c.input(0), c.input(1), c.input(2)));
  c.set_output(0, c.input(0));
  return Status::Ok();
}

// The variable's shape, independent of the value that is assigned.
Status SameVariableShape(InferenceContext& c) {
  c.set_output(0, c.input(0));
  return Status::Ok();
}

Status CountUpToShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 0).status());
  c.set_output(0, c.Scalar());
  return Status::Ok();
}

Status ScatterNdShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle indices, c.WithRankAtLeast(c.input(1), 1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle updates, c.WithRankAtLeast(c.input(2), 1));
  const ScatterNdShapes shapes = {.indices = indices, .updates = updates, .target = VariableShapeOf(c, 0)};
  MR_RETURN_IF_ERROR(CheckScatterNd(c, shapes, "input"));
  if (c.num_outputs() > 0) c.set_output(0, c.input(0));
  return Status::Ok();
}

OpBuilder Variable(const char* name) {
  return OpBuilder(name)
      .Output("ref: Ref(dtype)")
      .Attr("shape: shape")
      .Attr("dtype: type")
      .Attr("container: string = ''")
      .Attr("shared_name: string = ''")
      .Stateful()
      .Traits({.cheap = true, .generator = true, .is_variable = true});
}

OpBuilder AssignUpdate(const char* name) {
  return OpBuilder(name)
      .Input("ref: Ref(T)")
      .Input("value: T")
      .Output("output_ref: Ref(T)")
      .Attr(kNumber)
      .Attr("use_locking: bool = false")
      .Shape(shape_fns::MergeBothInputs)
      .Traits(kEffect);
}

OpBuilder Scatter(const char* name, const char* types, const char* use_locking,
                  Status (*shape)(InferenceContext&) = ScatterUpdateShape) {
  return OpBuilder(name)
      .Input("ref: Ref(T)")
      .Input("indices: Tindices")
      .Input("updates: T")
      .Output("output_ref: Ref(T)")
      .Attr(types)
      .Attr(kIndices)
      .Attr(use_locking)
      .Shape(shape)
      .Traits(kEffect);
}

OpBuilder ScatterNd(const char* name, const char* types, const char* use_locking) {
  return Scatter(name, types, use_locking, ScatterNdShape);
}

OpBuilder ResourceScatterNd(const char* name) {
  return OpBuilder(name)
      .Input("ref: resource")
      .Input("indices: Tindices")
      .Input("updates: T")
      .Attr(kAnyType)
      .Attr(kIndices)
      .Attr("use_locking: bool = true")
      .Stateful()
      .Shape(ScatterNdShape)
      .Traits(kEffect);
}

OpBuilder StridedSliceAssign(const char* name, const char* ref) {
  return OpBuilder(name)
      .Input(ref)
      .Input("begin: Index")
      .Input("end: Index")
      .Input("strides: Index")
      .Input("value: T")
      .Attr(kAnyType)
      .Attr("Index: {int32, int64}")
      .Attr("begin_mask: int = 0")
      .Attr("end_mask: int = 0")
      .Attr("ellipsis_mask: int = 0")
      .Attr("new_axis_mask: int = 0")
      .Attr("shrink_axis_mask: int = 0")
      .Traits(kEffect);
}

std::vector<OpBuilder> StateOps() {
  return {
      Variable("Variable: A variable, which keeps its value between steps.").Shape(LegacyVariableShape),
      Variable("VariableV2: A variable, which keeps its value between steps.").Shape(shape_fns::Explicit),
      OpBuilder("IsVariableInitialized: Whether a variable has a value.")
          .Input("ref: Ref(dtype)")
          .Output("is_initialized: bool")
          .Attr("dtype: type")
          .AllowsUninitializedInput()
          .Shape(shape_fns::Scalar)
          .Traits({.cheap = true, .never_fold = true}),
      OpBuilder("Assign: Assigns a value to a variable and returns the variable.")
          .Input("ref: Ref(T)")
          .Input("value: T")
          .Output("output_ref: Ref(T)")
          .Attr(kAnyType)
          .Attr("validate_shape: bool = true")
          .Attr("use_locking: bool = true")
          .AllowsUninitializedInput()
          .Shape(AssignShape)
          .Traits(kEffect),
      AssignUpdate("AssignAdd: Adds a value to a variable."),
      AssignUpdate("AssignSub: Subtracts a value from a variable."),
      OpBuilder("TemporaryVariable: A variable that lives within a step.")
          .Output("ref: Ref(dtype)")
          .Attr("shape: shape")
          .Attr("dtype: type")
          .Attr("var_name: string = ''")
          .Stateful()
          .Shape(shape_fns::Explicit)
          .Traits({.cheap = true, .generator = true}),
      OpBuilder(
          "DestroyTemporaryVariable: Returns the value of a temporary variable and deletes the variable.")
          .Input("ref: Ref(T)")
          .Output("value: T")
          .Attr(kAnyType)
          .Attr("var_name: string")
          .Shape(SameVariableShape)
          .Traits(kEffect),
      OpBuilder("CountUpTo: Adds one to a variable and returns its old value; an error at the limit.")
          .Input("ref: Ref(T)")
          .Output("output: T")
          .Attr("limit: int")
          .Attr("T: {int32, int64}")
          .Shape(CountUpToShape)
          .Traits(kEffect),
      StridedSliceAssign("StridedSliceAssign: Assigns a value to a slice of a variable.", "ref: Ref(T)")
          .Output("output_ref: Ref(T)")
          .Shape(SameVariableShape),
      StridedSliceAssign("ResourceStridedSliceAssign: Assigns a value to a slice of a resource variable.",
                         "ref: resource")
          .Stateful()
          .Shape(shape_fns::NoOutputs),
  };
}

// The ops of tensors that stay in the session.
std::vector<OpBuilder> SessionOps() {
  const auto unknown = [](InferenceContext& c) {
    MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 0).status());
    c.set_output(0, c.UnknownShape());
    return Status::Ok();
  };
  const auto handle = [](InferenceContext& c) { return c.WithRank(c.input(0), 0).status(); };
  return {
      OpBuilder("GetSessionHandle: Stores a tensor in the session and returns a handle to it.")
          .Input("value: T")
          .Output("handle: string")
          .Attr(kAnyType)
          .Stateful()
          .Shape(shape_fns::Scalar)
          .Traits(kEffect),
      OpBuilder("GetSessionHandleV2: Stores a tensor in the session and returns a handle to it.")
          .Input("value: T")
          .Output("handle: resource")
          .Attr(kAnyType)
          .Stateful()
          .Shape(shape_fns::Scalar)
          .Traits(kEffect),
      OpBuilder("GetSessionTensor: The tensor in the session that has a given handle.")
          .Input("handle: string")
          .Output("value: dtype")
          .Attr("dtype: type")
          .Stateful()
          .Shape(unknown)
          .Traits({.cheap = true, .never_fold = true}),
      OpBuilder("DeleteSessionTensor: Deletes the tensor in the session that has a given handle.")
          .Input("handle: string")
          .Stateful()
          .Shape(handle)
          .Traits(kEffect),
  };
}

std::vector<OpBuilder> ScatterOps() {
  constexpr char kNotLocked[] = "use_locking: bool = false";
  constexpr char kLocked[] = "use_locking: bool = true";
  constexpr char kOrdered[] = "T: {half, bfloat16, float, double, int32, int64}";
  return {
      Scatter("ScatterAdd: Adds to rows of a variable, by index.", kNumber, kNotLocked),
      Scatter("ScatterSub: Subtracts from rows of a variable, by index.", kNumber, kNotLocked),
      Scatter("ScatterMul: Multiplies rows of a variable, by index.", kNumber, kNotLocked),
      Scatter("ScatterDiv: Divides rows of a variable, by index.", kNumber, kNotLocked),
      Scatter("ScatterMin: Lowers rows of a variable to at most the updates, by index.", kOrdered,
              kNotLocked),
      Scatter("ScatterMax: Raises rows of a variable to at least the updates, by index.", kOrdered,
              kNotLocked),
      Scatter("ScatterUpdate: Replaces rows of a variable, by index.", kAnyType, kLocked),
      ScatterNd("ScatterNdAdd: Adds to slices of a variable, by vectors of indices.", kNumber, kNotLocked),
      ScatterNd("ScatterNdSub: Subtracts from slices of a variable, by vectors of indices.", kNumber,
                kNotLocked),
      ScatterNd("ScatterNdUpdate: Replaces slices of a variable, by vectors of indices.", kAnyType, kLocked),
      ResourceScatterNd(
          "ResourceScatterNdAdd: Adds to slices of a resource variable, by vectors of indices."),
      ResourceScatterNd(
          "ResourceScatterNdSub: Subtracts from slices of a resource variable, by vectors of indices."),
      ResourceScatterNd(
          "ResourceScatterNdUpdate: Replaces slices of a resource variable, by vectors of indices."),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterStateOps(OpRegistry& registry) {
  MR_RETURN_IF_ERROR(ops::RegisterEach(registry, ops::NotDifferentiable(ops::StateOps())));
  MR_RETURN_IF_ERROR(ops::RegisterEach(registry, ops::NotDifferentiable(ops::SessionOps())));
  return ops::RegisterEach(registry, ops::NotDifferentiable(ops::ScatterOps()));
}

}  // namespace millrace
