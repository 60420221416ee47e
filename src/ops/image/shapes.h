// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "op/shape_inference.h"

// Shape functions of the image family; each is named after the op or ops it serves.
namespace millrace::ops {

Status DecodeImageShape(InferenceContext& c);
Status DecodeAndCropShape(InferenceContext& c);
Status DecodeGifShape(InferenceContext& c);
Status JpegShapeShape(InferenceContext& c);
Status EncodeImageShape(InferenceContext& c);
Status EncodeWithQualityShape(InferenceContext& c);
Status ResizeShape(InferenceContext& c);          // input 1 gives height and width
Status ResizeGradientShape(InferenceContext& c);  // input 1 is the image
Status CropAndResizeShape(InferenceContext& c);
Status CropGradBoxesShape(InferenceContext& c);
Status CropGradImageShape(InferenceContext& c);
Status ExtractGlimpseShape(InferenceContext& c);
Status RandomCropShape(InferenceContext& c);
Status UnchangedImagesShape(InferenceContext& c);
Status DrawBoxesV2Shape(InferenceContext& c);
Status SampleBoxShape(InferenceContext& c);
Status SuppressionShape(InferenceContext& c);
Status SuppressionWithOverlapsShape(InferenceContext& c);
Status CombinedSuppressionShape(InferenceContext& c);
Status ScaleAndTranslateShape(InferenceContext& c);
Status AdjustmentShape(InferenceContext& c);  // inputs from 1 on are scalars
Status ColorSpaceShape(InferenceContext& c);

}  // namespace millrace::ops
