// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "op/shape_inference.h"

// What the families state, resource and training share.
namespace millrace::ops {

// The shape of the variable that input i is: of the tensor behind a resource handle, else of the (reference)
// tensor.
ShapeHandle VariableShapeOf(InferenceContext& c, int i);
// The same for a handle whose element type must be `dtype`; `doing` is the verb of the message ("read").
StatusOr<ShapeHandle> TypedResourceShape(InferenceContext& c, std::string_view doing);
// Updates addressed by `indices` must have the shape of indices followed by that of a row of the variable.
Status CheckScatterUpdates(InferenceContext& c, ShapeHandle variable, ShapeHandle indices,
                           ShapeHandle updates);

}  // namespace millrace::ops
