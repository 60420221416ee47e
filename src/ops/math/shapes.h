// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "op/shape_inference.h"

// Shape functions of the math family; each is named after the op or ops it serves.
namespace millrace::ops {

// Both inputs have the same shape; dimensions known only in the second are not merged.
Status LikeFirstInputShape(InferenceContext& c);
Status AddNShape(InferenceContext& c);
Status SelectShape(InferenceContext& c);
Status BatchMatMulShape(InferenceContext& c);
Status BatchMatMulV2Shape(InferenceContext& c);
Status ArgReductionShape(InferenceContext& c);
Status BincountShape(InferenceContext& c);
Status SegmentShape(InferenceContext& c);
Status UnsortedSegmentShape(InferenceContext& c);
Status LinSpaceShape(InferenceContext& c);
Status RangeShape(InferenceContext& c);

}  // namespace millrace::ops
