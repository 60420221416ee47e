// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "op/shape_inference.h"

// Shape functions of the array family; each is named after the op or ops it serves.
namespace millrace::ops {

// Creation and reading of shapes.
Status ConstShape(InferenceContext& c);
Status PlaceholderWithDefaultShape(InferenceContext& c);
Status EnsureShapeShape(InferenceContext& c);
Status FillShape(InferenceContext& c);
Status ShapeShape(InferenceContext& c);  // Shape, ShapeN
Status IdentityShape(InferenceContext& c);
Status IdentityNShape(InferenceContext& c);
Status BitcastShape(InferenceContext& c);
Status OneHotShape(InferenceContext& c);
Status WhereShape(InferenceContext& c);
Status BroadcastArgsShape(InferenceContext& c);
Status BroadcastGradientArgsShape(InferenceContext& c);
Status BroadcastToShape(InferenceContext& c);

// Rearranging.
Status ReshapeShape(InferenceContext& c);
Status ExpandDimsShape(InferenceContext& c);
Status SqueezeShape(InferenceContext& c);
Status TransposeShape(InferenceContext& c);
Status InvertPermutationShape(InferenceContext& c);
Status ConcatOffsetShape(InferenceContext& c);
Status PackShape(InferenceContext& c);
Status UnpackShape(InferenceContext& c);
Status TileShape(InferenceContext& c);
Status TileGradShape(InferenceContext& c);
Status PadShape(InferenceContext& c);  // Pad, PadV2
Status ReverseShape(InferenceContext& c);
Status ReverseV2Shape(InferenceContext& c);

// Taking parts.
Status SplitShape(InferenceContext& c);
Status SplitVShape(InferenceContext& c);
Status SliceShape(InferenceContext& c);
Status StridedSliceShape(InferenceContext& c);
Status StridedSliceGradShape(InferenceContext& c);
Status GatherShape(InferenceContext& c);
Status GatherV2Shape(InferenceContext& c);
Status GatherNdShape(InferenceContext& c);
// The same for params of that shape and the indices of input 1.
Status SetGatherNdShape(InferenceContext& c, ShapeHandle params);
Status ScatterNdShape(InferenceContext& c);

}  // namespace millrace::ops
