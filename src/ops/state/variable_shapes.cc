// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/state/variable_shapes.h"

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
  // A scalar is written to all rows.
  if (c.RankKnown(updates) && c.Rank(updates) == 0) return Status::Ok();
  MR_ASSIGN_OR_RETURN(const ShapeHandle row, c.Subshape(variable, 1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle want, c.Concatenate(indices, row));
  return c.Merge(updates, want).status();
}

namespace {

// "The inner 2 dimensions of output.shape=[2,3] must match the inner 1 dimensions of updates.shape=[3]: why".
struct Part {
  int64_t count;
  std::string_view name;
  ShapeHandle shape;
};
Status Mismatch(InferenceContext& c, std::string_view side, const Part& a, const Part& b, const Status& why) {
  return errors::InvalidArgument("The ", side, " ", a.count, " dimensions of ", a.name,
                                 ".shape=", c.DebugString(a.shape), " must match the ", side, " ", b.count,
                                 " dimensions of ", b.name, ".shape=", c.DebugString(b.shape), ": ",
                                 why.message());
}

}  // namespace

Status CheckScatterNd(InferenceContext& c, const ScatterNdShapes& s, std::string_view target_name) {
  if (c.Value(c.NumElements(s.target)) == 0 &&
      (c.Value(c.NumElements(s.indices)) > 0 || c.Value(c.NumElements(s.updates)) > 0)) {
    return errors::InvalidArgument("Indices and updates specified for empty output shape");
  }
  const DimHandle depth = c.Dim(s.indices, -1);
  if (!c.RankKnown(s.indices) || !c.RankKnown(s.updates) || !c.ValueKnown(depth)) return Status::Ok();
  const int64_t outer = c.Rank(s.indices) - 1;
  MR_ASSIGN_OR_RETURN(const ShapeHandle rows, c.Subshape(s.indices, 0, outer));
  MR_ASSIGN_OR_RETURN(const ShapeHandle updated_rows, c.Subshape(s.updates, 0, outer));
  if (Status same = c.Merge(rows, updated_rows).status(); !same.ok()) {
    return Mismatch(c, "outer", {outer, "indices", s.indices}, {outer, "updates", s.updates}, same);
  }
  if (!c.RankKnown(s.target)) return Status::Ok();
  MR_ASSIGN_OR_RETURN(const ShapeHandle slice, c.Subshape(s.target, c.Value(depth)));
  MR_ASSIGN_OR_RETURN(const ShapeHandle updated, c.Subshape(s.updates, outer));
  if (Status same = c.Merge(slice, updated).status(); !same.ok()) {
    return Mismatch(c, "inner", {c.Rank(s.target) - c.Value(depth), target_name, s.target},
                    {c.Rank(s.updates) - outer, "updates", s.updates}, same);
  }
  return Status::Ok();
}

}  // namespace millrace::ops
