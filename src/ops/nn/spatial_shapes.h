// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "op/shape_inference.h"

// Shape functions of the ops in spatial.cc and of others that move windows over images; each is named after
// the op or ops it serves.
namespace millrace::ops {

Status DepthwiseShape(InferenceContext& c);
Status DepthwiseBackpropInputShape(InferenceContext& c);
Status DepthwiseBackpropFilterShape(InferenceContext& c);
Status DilationShape(InferenceContext& c);
Status LikeSecondInputShape(InferenceContext& c);
Status ResponseNormShape(
    InferenceContext& c);  // the common shape of all inputs, of rank 4; else that of input 0
Status MaxPoolWithArgmaxShape(InferenceContext& c);
Status MaxPoolGradGradWithArgmaxShape(InferenceContext& c);
Status FusedPadConvShape(InferenceContext& c);
Status ExtractPatchesShape(InferenceContext& c);

// Rearrangements of images and batches (ops/array/blocks.cc).
Status MirrorPadGradShape(InferenceContext& c);
Status SpaceToBatchNdShape(InferenceContext& c);
Status BatchToSpaceNdShape(InferenceContext& c);
Status SpaceToBatchShape(InferenceContext& c);
Status BatchToSpaceShape(InferenceContext& c);
Status SpaceToDepthShape(InferenceContext& c);
Status DepthToSpaceShape(InferenceContext& c);

}  // namespace millrace::ops
