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
struct ScatterNdShapes {
  ShapeHandle indices, updates;
  ShapeHandle target;  // what the updates go to, which messages call `target_name`
};
// Updates have the shape of indices without its last dimension, followed by what of the target the indices
// don't address.
Status CheckScatterNd(InferenceContext& c, const ScatterNdShapes& shapes, std::string_view target_name);

}  // namespace millrace::ops
