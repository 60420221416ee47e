// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "op/shape_inference.h"

// Shape functions of the nn family; each is named after the op or ops it serves.
namespace millrace::ops {

Status SoftmaxShape(InferenceContext& c);  // and LogSoftmax
Status SoftmaxCrossEntropyShape(InferenceContext& c);
Status SparseSoftmaxCrossEntropyShape(InferenceContext& c);
Status FusedBatchNormShape(InferenceContext& c);
Status FusedBatchNormGradShape(InferenceContext& c);
Status GlobalNormalizationShape(InferenceContext& c);  // BatchNormWithGlobalNormalization
Status Conv2DBackpropInputShape(InferenceContext& c);
Status Conv2DBackpropFilterShape(InferenceContext& c);
Status AvgPoolGradShape(InferenceContext& c);
Status MaxPoolGradShape(InferenceContext& c);
Status MaxPoolGradGradShape(InferenceContext& c);
Status InTopKShape(InferenceContext& c);
Status TopKShape(InferenceContext& c);    // k is an attribute
Status TopKV2Shape(InferenceContext& c);  // k is an input

}  // namespace millrace::ops
