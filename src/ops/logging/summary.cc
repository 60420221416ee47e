// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Ops that make serialized Summary messages for TensorBoard.
#include "ops/family.h"

namespace millrace::ops {
namespace {

constexpr char kRealOf115[] =
    "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64}";

// The tag and the numeric parameters are scalars.
Status TaggedShape(InferenceContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (i != 1) MR_RETURN_IF_ERROR(c.WithRank(c.input(i), 0).status());
  }
  c.set_output(0, c.Scalar());
  return Status();
}

OpBuilder Audio(const char* name) {
  return OpBuilder(name).Input("tag: string").Input("tensor: float").Output("summary: string");
}

std::vector<OpBuilder> SummaryOps() {
  return {
      OpBuilder("ScalarSummary: A summary of single values, for event files.")
          .Input("tags: string")
          .Input("values: T")
          .Output("summary: string")
          .Attr(kRealOf115)
          .Shape(shape_fns::Scalar),
      OpBuilder("HistogramSummary: A summary of the distribution of values, for event files.")
          .Input("tag: string")
          .Input("values: T")
          .Output("summary: string")
          .Attr(StrCat(kRealOf115, " = DT_FLOAT"))
          .Shape(shape_fns::Scalar),
      OpBuilder("ImageSummary: A summary of images, for event files.")
          .Input("tag: string")
          .Input("tensor: T")
          .Output("summary: string")
          .Attr("max_images: int >= 1 = 3")
          .Attr("T: {uint8, float, half, double} = DT_FLOAT")
          .Attr("bad_color: tensor = { dtype: DT_UINT8 tensor_shape: { dim { size: 4 } } int_val: 255 "
                "int_val: 0 int_val: 0 int_val: 255 }")
          .Shape(shape_fns::Scalar),
      Audio("AudioSummary: A summary of sound clips, for event files.")
          .Attr("sample_rate: float")
          .Attr("max_outputs: int >= 1 = 3")
          .Deprecated(15, "Use AudioSummaryV2.")
          .Shape(shape_fns::Scalar),
      Audio("AudioSummaryV2: A summary of sound clips, for event files.")
          .Input("sample_rate: float")
          .Attr("max_outputs: int >= 1 = 3")
          .Shape(shape_fns::Scalar),
      OpBuilder("MergeSummary: Joins summaries into one.")
          .Input("inputs: N * string")
          .Output("summary: string")
          .Attr("N: int >= 1")
          .Shape(shape_fns::Scalar),
      OpBuilder("TensorSummary: A summary of a tensor, for event files.")
          .Input("tensor: T")
          .Output("summary: string")
          .Attr(kAnyType)
          .Attr("description: string = ''")
          .Attr("labels: list(string) = []")
          .Attr("display_name: string = ''")
          .Shape(shape_fns::Scalar),
      OpBuilder("TensorSummaryV2: A summary of a tensor, for event files.")
          .Input("tag: string")
          .Input("tensor: T")
          .Input("serialized_summary_metadata: string")
          .Output("summary: string")
          .Attr(kAnyType)
          .Shape(TaggedShape),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterSummaryOps(OpRegistry& registry) {
  return ops::RegisterEach(registry, ops::NotDifferentiable(ops::SummaryOps()));
}

}  // namespace millrace
