// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/family.h"
#include "ops/register.h"

namespace millrace::ops {
namespace {

// The output has the shape that input 0 describes.
Status RandomShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.MakeShapeFromInput(0));
  c.set_output(0, out);
  return Status::Ok();
}

Status RandomUniformIntShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 0).status());
  MR_RETURN_IF_ERROR(c.WithRank(c.input(2), 0).status());
  return RandomShape(c);
}

OpBuilder Random(const char* name) {
  return OpBuilder(name)
      .Input("shape: T")
      .Output("output: dtype")
      .Stateful()
      .Attr("seed: int = 0")
      .Attr("seed2: int = 0")
      .Attr("dtype: {half, bfloat16, float, double}")
      .Attr("T: {int32, int64}")
      .Shape(RandomShape)
      .Traits(kGenerator);
}

std::vector<OpBuilder> RandomOps() {
  return {
      Random("RandomStandardNormal"),
      Random("RandomUniform"),
      Random("TruncatedNormal"),
      OpBuilder("RandomUniformInt")
          .Input("shape: T")
          .Input("minval: Tout")
          .Input("maxval: Tout")
          .Output("output: Tout")
          .Stateful()
          .Attr("seed: int = 0")
          .Attr("seed2: int = 0")
          .Attr("Tout: {int32, int64}")
          .Attr("T: {int32, int64}")
          .Shape(RandomUniformIntShape)
          .Traits(kGenerator),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterRandomOps(OpRegistry& registry) { return ops::RegisterEach(registry, ops::RandomOps()); }

}  // namespace millrace
