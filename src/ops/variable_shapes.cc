// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/variable_shapes.h"

namespace millrace::ops {

ShapeHandle VariableShapeOf(InferenceContext& c, int i) {
  if (!c.input_handle(i).empty()) return c.input_handle(i)[0].shape;
  const auto& args = c.op().inputs;
  const bool is_resource = i < static_cast<int>(args.size()) && args[i].type == DataType::kResource;
  return is_resource ? c.UnknownShape() : c.input(i);
}

StatusOr<ShapeHandle> TypedResourceShape(InferenceContext& c, std::string_view doing) {
  if (c.input_handle(0).empty()) return c.UnknownShape();
  const HandleShapeAndType& variable = c.input_handle(0)[0];
  MR_ASSIGN_OR_RETURN(const DataType dtype, c.Attr<DataType>("dtype"));
  if (variable.dtype != dtype) {
    return errors::InvalidArgument("Trying to ", doing, " variable with wrong dtype. Expected ",
                                   DataTypeName(variable.dtype), " got ", DataTypeName(dtype));
  }
  return variable.shape;
}

Status CheckScatterUpdates(InferenceContext& c, ShapeHandle variable, ShapeHandle indices,
                           ShapeHandle updates) {
  MR_ASSIGN_OR_RETURN(variable, c.WithRankAtLeast(variable, 1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle row, c.Subshape(variable, 1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle want, c.Concatenate(indices, row));
  return c.Merge(updates, want).status();
}

}  // namespace millrace::ops
