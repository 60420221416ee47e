// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/family.h"
#include "ops/register.h"

namespace millrace {

Status RegisterLoggingOps(OpRegistry& registry) {
  MR_RETURN_IF_ERROR(registry.Register(OpBuilder("Assert")
                                           .Input("condition: bool")
                                           .Input("data: T")
                                           .Stateful()
                                           .Attr("T: list(type) >= 1")
                                           .Attr("summarize: int = 3")
                                           .Shape(shape_fns::NoOutputs)
                                           .Traits({.has_side_effects = true, .only_checks = true})));
  return registry.Register(OpBuilder("Print")
                               .Input("input: T")
                               .Input("data: U")
                               .Output("output: T")
                               .Stateful()
                               .Attr(ops::kAnyType)
                               .Attr("U: list(type) >= 0")
                               .Attr("message: string = ''")
                               .Attr("first_n: int = -1")
                               .Attr("summarize: int = 3")
                               .Shape(shape_fns::Unchanged)
                               .Traits({.aliasing = true, .has_side_effects = true}));
}

}  // namespace millrace
