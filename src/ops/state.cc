// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Variables that are references to tensors.
#include "ops/family.h"
#include "ops/register.h"
#include "ops/variable_shapes.h"

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

OpBuilder Scatter(const char* name, const char* types, const char* use_locking) {
  return OpBuilder(name)
      .Input("ref: Ref(T)")
      .Input("indices: Tindices")
      .Input("updates: T")
      .Output("output_ref: Ref(T)")
      .Attr(types)
      .Attr(kIndices)
      .Attr(use_locking)
      .Shape(ScatterUpdateShape)
      .Traits(kEffect);
}

std::vector<OpBuilder> StateOps() {
  return {
      Variable("Variable").Shape(LegacyVariableShape),
      Variable("VariableV2").Shape(shape_fns::Explicit),
      OpBuilder("IsVariableInitialized")
          .Input("ref: Ref(dtype)")
          .Output("is_initialized: bool")
          .Attr("dtype: type")
          .AllowsUninitializedInput()
          .Shape(shape_fns::Scalar)
          .Traits({.cheap = true, .never_fold = true}),
      OpBuilder("Assign")
          .Input("ref: Ref(T)")
          .Input("value: T")
          .Output("output_ref: Ref(T)")
          .Attr(kAnyType)
          .Attr("validate_shape: bool = true")
          .Attr("use_locking: bool = true")
          .AllowsUninitializedInput()
          .Shape(AssignShape)
          .Traits(kEffect),
      AssignUpdate("AssignAdd"),
      AssignUpdate("AssignSub"),
      Scatter("ScatterAdd", kNumber, "use_locking: bool = false"),
      Scatter("ScatterSub", kNumber, "use_locking: bool = false"),
      Scatter("ScatterUpdate", kAnyType, "use_locking: bool = true"),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterStateOps(OpRegistry& registry) { return ops::RegisterEach(registry, ops::StateOps()); }

}  // namespace millrace
