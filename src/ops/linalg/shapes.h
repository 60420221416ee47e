// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "op/shape_inference.h"

// Shape functions of the linalg family; each is named after the op or ops it serves.
namespace millrace::ops {

Status BandPartShape(InferenceContext& c);
Status CrossShape(InferenceContext& c);
Status DiagPartShape(InferenceContext& c);
Status DiagShape(InferenceContext& c);
Status EinsumShape(InferenceContext& c);
Status MatrixDiagPartShape(InferenceContext& c);
Status MatrixDiagPartV2Shape(InferenceContext& c);
Status MatrixDiagShape(InferenceContext& c);
Status MatrixDiagV2Shape(InferenceContext& c);
Status MatrixSetDiagShape(InferenceContext& c);
Status MatrixSetDiagV2Shape(InferenceContext& c);

}  // namespace millrace::ops
