// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "op/shape_inference.h"

// Shape functions of the volume family; each is named after the op or ops it serves.
namespace millrace::ops {

Status Conv3DShape(InferenceContext& c);
Status VolumeLikeFirstShape(InferenceContext& c);   // Conv3DBackpropInput, MaxPool3DGrad
Status VolumeLikeSecondShape(InferenceContext& c);  // Conv3DBackpropFilter
Status VolumeFromFirstShape(InferenceContext& c);   // Conv3DBackpropInputV2, AvgPool3DGrad
Status VolumeFromSecondShape(InferenceContext& c);  // Conv3DBackpropFilterV2
Status Pool3DShape(InferenceContext& c);
Status MaxPool3DGradShape(InferenceContext& c);
Status MaxPool3DGradGradShape(InferenceContext& c);
Status ExtractVolumePatchesShape(InferenceContext& c);
Status FractionalPoolShape(InferenceContext& c);
Status FractionalMaxPoolGradShape(InferenceContext& c);
Status FractionalAvgPoolGradShape(InferenceContext& c);
Status MaxPoolV2Shape(InferenceContext& c);
Status MaxPoolGradV2Shape(InferenceContext& c);
Status MaxPoolGradGradV2Shape(InferenceContext& c);
Status GlobalNormalizationGradShape(InferenceContext& c);

}  // namespace millrace::ops
