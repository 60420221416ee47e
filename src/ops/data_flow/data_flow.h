// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "op/op_builder.h"
#include "op/shape_inference.h"

// What ops on shared state have in common. Their handles are a resource, or a reference to a string vector
// of container and name.
namespace millrace::ops {

// A node that owns the state; its attributes are added by the caller. `shape` null: that of the handle.
OpBuilder HandleNode(const std::string& name, const std::string& output, bool resource,
                     ShapeFn shape = nullptr);
// An op that uses the state behind the handle in its first input.
OpBuilder HandleAccess(const std::string& name, const std::string& input, bool resource);

// Shape functions: the vector of names; a check of input `i`; outputs of unknown shape, and a scalar.
Status NamesShape(InferenceContext& c);
Status CheckHandleShape(InferenceContext& c, int i);
Status AccessShape(InferenceContext& c);
Status AccessScalarShape(InferenceContext& c);

}  // namespace millrace::ops
