// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Quantization: numbers as small integers that represent a range.
#include "ops/family.h"

namespace millrace::ops {
namespace {

// The input's shape, and the ends of the range behind it where there are outputs for them.
Status QuantizedShape(InferenceContext& c) {
  for (int i = 1; i < c.num_inputs(); ++i) MR_RETURN_IF_ERROR(c.WithRank(c.input(i), 0).status());
  c.set_output(0, c.input(0));
  for (int i = 1; i < c.num_outputs(); ++i) c.set_output(i, c.Scalar());
  return Status();
}

std::vector<OpBuilder> Quantizations() {
  return {
      OpBuilder("Dequantize: Converts quantized numbers of a given range to floats.")
          .Input("input: T")
          .Input("min_range: float")
          .Input("max_range: float")
          .Output("output: float")
          .Attr("T: {qint8, quint8, qint32, qint16, quint16}")
          .Attr("mode: {'MIN_COMBINED', 'MIN_FIRST', 'SCALED'} = 'MIN_COMBINED'")
          .Shape(QuantizedShape),
      OpBuilder("QuantizeAndDequantize: Quantizes floats and converts them back to floats.")
          .Input("input: T")
          .Output("output: T")
          .Attr("signed_input: bool = true")
          .Attr("num_bits: int = 8")
          .Attr("range_given: bool = false")
          .Attr("input_min: float = 0")
          .Attr("input_max: float = 0")
          .Attr("T: {bfloat16, half, float, double}")
          .Deprecated(22, "Replaced by QuantizeAndDequantizeV2")
          .Shape(QuantizedShape),
      OpBuilder("QuantizeAndDequantizeV2: Quantizes floats and converts them back to floats.")
          .Input("input: T")
          .Input("input_min: T")
          .Input("input_max: T")
          .Output("output: T")
          .Attr("signed_input: bool = true")
          .Attr("num_bits: int = 8")
          .Attr("range_given: bool = false")
          .Attr("T: {bfloat16, half, float, double}")
          .Attr("round_mode: {'HALF_TO_EVEN', 'HALF_UP'} = 'HALF_TO_EVEN'")
          .Attr("narrow_range: bool = false")
          .Shape(QuantizedShape),
      OpBuilder("QuantizeAndDequantizeV3: Quantizes floats to a number of bits given at run time and "
                "converts them back to floats.")
          .Input("input: T")
          .Input("input_min: T")
          .Input("input_max: T")
          .Input("num_bits: int32")
          .Output("output: T")
          .Attr("signed_input: bool = true")
          .Attr("range_given: bool = true")
          .Attr("T: {bfloat16, half, float, double}")
          .Attr("narrow_range: bool = false")
          .Shape(QuantizedShape),
      OpBuilder("QuantizeV2: Quantizes floats of a given range.")
          .Input("input: float")
          .Input("min_range: float")
          .Input("max_range: float")
          .Output("output: T")
          .Output("output_min: float")
          .Output("output_max: float")
          .Attr("T: {qint8, quint8, qint32, qint16, quint16}")
          .Attr("mode: {'MIN_COMBINED', 'MIN_FIRST', 'SCALED'} = 'MIN_COMBINED'")
          .Attr("round_mode: {'HALF_AWAY_FROM_ZERO', 'HALF_TO_EVEN'} = 'HALF_AWAY_FROM_ZERO'")
          .Shape(QuantizedShape),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterQuantizedOps(OpRegistry& registry) {
  return ops::RegisterEach(registry, ops::Quantizations());
}

}  // namespace millrace
