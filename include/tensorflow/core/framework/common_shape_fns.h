// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Shape functions that many ops share.
#ifndef TENSORFLOW_CORE_FRAMEWORK_COMMON_SHAPE_FNS_H_
#define TENSORFLOW_CORE_FRAMEWORK_COMMON_SHAPE_FNS_H_

#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {
namespace shape_inference {

inline Status UnchangedShape(InferenceContext* c) {
  c->set_output(0, c->input(0));
  return Status();
}
inline Status UnchangedShapeWithRank(InferenceContext* c, int32 rank) {
  ShapeHandle shape;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), rank, &shape));
  c->set_output(0, shape);
  return Status();
}
inline Status UnchangedShapeWithRankAtLeast(InferenceContext* c, int32 rank) {
  ShapeHandle shape;
  TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(0), rank, &shape));
  c->set_output(0, shape);
  return Status();
}
inline Status UnchangedShapeWithRankAtMost(InferenceContext* c, int32 rank) {
  ShapeHandle shape;
  TF_RETURN_IF_ERROR(c->WithRankAtMost(c->input(0), rank, &shape));
  c->set_output(0, shape);
  return Status();
}
// The shape of the attribute "shape".
inline Status ExplicitShape(InferenceContext* c) {
  PartialTensorShape shape;
  TF_RETURN_IF_ERROR(c->GetAttr("shape", &shape));
  ShapeHandle output;
  TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(shape, &output));
  c->set_output(0, output);
  return Status();
}
// The shape to which both inputs are broadcast.
inline Status BroadcastBinaryOpShapeFn(InferenceContext* c) {
  const ShapeHandle a = c->input(0), b = c->input(1);
  if (!c->RankKnown(a) || !c->RankKnown(b)) return c->set_output(0, c->UnknownShape()), Status();
  const int32 rank = std::max(c->Rank(a), c->Rank(b));
  std::vector<DimensionHandle> dims;
  for (int32 i = 0; i < rank; ++i) {
    const int32 in_a = i - (rank - c->Rank(a)), in_b = i - (rank - c->Rank(b));
    const DimensionHandle x = in_a < 0 ? c->MakeDim(1) : c->Dim(a, in_a);
    const DimensionHandle y = in_b < 0 ? c->MakeDim(1) : c->Dim(b, in_b);
    if (c->ValueKnown(x) && c->ValueKnown(y)) {
      DimensionHandle merged = c->Value(x) == 1 ? y : x;
      if (c->Value(x) != 1 && c->Value(y) != 1) TF_RETURN_IF_ERROR(c->Merge(x, y, &merged));
      dims.push_back(merged);
    } else {  // A size above 1 decides; an unknown size with 1 or another unknown one stays unknown.
      dims.push_back(c->Value(x) > 1 ? x : c->Value(y) > 1 ? y : c->UnknownDim());
    }
  }
  c->set_output(0, c->MakeShape(dims));
  return Status();
}
inline Status ScalarShape(InferenceContext* c) {
  for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->Scalar());
  return Status();
}
inline Status NoOutputs(InferenceContext*) { return Status(); }
inline Status UnknownShape(InferenceContext* c) {
  for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->UnknownShape());
  return Status();
}
// All inputs have the shape of the output.
inline Status MergeBothInputsShapeFn(InferenceContext* c) {
  ShapeHandle shape;
  TF_RETURN_IF_ERROR(c->Merge(c->input(0), c->input(1), &shape));
  c->set_output(0, shape);
  return Status();
}
inline Status MatMulShape(InferenceContext* c) {
  ShapeHandle a, b;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 2, &a));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 2, &b));
  bool transpose_a = false, transpose_b = false;
  TF_RETURN_IF_ERROR(c->GetAttr("transpose_a", &transpose_a));
  TF_RETURN_IF_ERROR(c->GetAttr("transpose_b", &transpose_b));
  DimensionHandle inner;
  TF_RETURN_IF_ERROR(c->Merge(c->Dim(a, transpose_a ? 0 : 1), c->Dim(b, transpose_b ? 1 : 0), &inner));
  c->set_output(0, c->Matrix(c->Dim(a, transpose_a ? 1 : 0), c->Dim(b, transpose_b ? 0 : 1)));
  return Status();
}

}  // namespace shape_inference
}  // namespace tensorflow

#endif
