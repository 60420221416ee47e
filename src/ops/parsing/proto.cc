// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Fields of serialized messages as tensors.
#include <string>
#include <vector>

#include "ops/family.h"

namespace millrace::ops {
namespace {

Status DecodeProtoShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const auto fields, c.Attr<std::vector<std::string>>("field_names"));
  const ShapeHandle batch = c.input(0);
  MR_ASSIGN_OR_RETURN(const ShapeHandle sizes,
                      c.Concatenate(batch, c.Vector(static_cast<int64_t>(fields.size()))));
  c.set_output(0, sizes);
  for (int i = 1; i < c.num_outputs(); ++i) {
    MR_ASSIGN_OR_RETURN(const ShapeHandle values, c.Concatenate(batch, c.Vector(c.UnknownDim())));
    c.set_output(i, values);
  }
  return Status();
}

Status EncodeProtoShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle sizes, c.WithRankAtLeast(c.input(0), 1));
  MR_ASSIGN_OR_RETURN(ShapeHandle batch, c.Subshape(sizes, 0, -1));
  for (int i = 1; i < c.num_inputs(); ++i) {
    MR_ASSIGN_OR_RETURN(const ShapeHandle values, c.WithRankAtLeast(c.input(i), 1));
    MR_ASSIGN_OR_RETURN(const ShapeHandle front, c.Subshape(values, 0, -1));
    MR_ASSIGN_OR_RETURN(batch, c.Merge(batch, front));
  }
  c.set_output(0, batch);
  return Status();
}

std::vector<OpBuilder> Messages() {
  return {
      OpBuilder("DecodeProtoV2: Fields of serialized messages, each padded to the longest.")
          .Input("bytes: string")
          .Output("sizes: int32")
          .Output("values: output_types")
          .Attr("message_type: string")
          .Attr("field_names: list(string)")
          .Attr("output_types: list(type) >= 0")
          .Attr("descriptor_source: string = 'local://'")
          .Attr("message_format: string = 'binary'")
          .Attr("sanitize: bool = false")
          .Shape(DecodeProtoShape),
      OpBuilder("EncodeProto: Serialized messages from their fields.")
          .Input("sizes: int32")
          .Input("values: Tinput_types")
          .Output("bytes: string")
          .Attr("field_names: list(string)")
          .Attr("message_type: string")
          .Attr("descriptor_source: string = 'local://'")
          .Attr("Tinput_types: list(type) >= 1")
          .Shape(EncodeProtoShape),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterProtoOps(OpRegistry& registry) {
  return ops::RegisterEach(registry, ops::NotDifferentiable(ops::Messages()));
}

}  // namespace millrace
