// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Text as code points, and from one encoding to another.
#include "ops/family.h"

namespace millrace::ops {
namespace {

// Flat: the splits of all strings, in any input shape, then the values.
Status UnicodeDecodeShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const DimHandle ends, c.Add(c.NumElements(c.input(0)), c.MakeDim(1)));
  c.set_output(0, c.Vector(ends));
  const ShapeHandle values = c.Vector(c.UnknownDim());
  for (int i = 1; i < c.num_outputs(); ++i) c.set_output(i, values);
  return Status();
}

Status UnicodeEncodeShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 1).status());
  MR_ASSIGN_OR_RETURN(const ShapeHandle splits, c.WithRank(c.input(1), 1));
  MR_ASSIGN_OR_RETURN(const DimHandle rows, c.Subtract(c.Dim(splits, 0), c.MakeDim(1)));
  c.set_output(0, c.Vector(rows));
  return Status();
}

std::vector<OpBuilder> Unicode() {
  return {
      OpBuilder("UnicodeDecode: The code points of strings.")
          .Input("input: string")
          .Output("row_splits: Tsplits")
          .Output("char_values: int32")
          .Attr("input_encoding: string")
          .Attr("errors: {'strict', 'replace', 'ignore'} = 'replace'")
          .Attr("replacement_char: int = 65533")
          .Attr("replace_control_characters: bool = false")
          .Attr("Tsplits: {int32, int64} = DT_INT64")
          .Shape(UnicodeDecodeShape),
      OpBuilder("UnicodeDecodeWithOffsets: The code points of strings, and the offset of each in its string.")
          .Input("input: string")
          .Output("row_splits: Tsplits")
          .Output("char_values: int32")
          .Output("char_to_byte_starts: int64")
          .Attr("input_encoding: string")
          .Attr("errors: {'strict', 'replace', 'ignore'} = 'replace'")
          .Attr("replacement_char: int = 65533")
          .Attr("replace_control_characters: bool = false")
          .Attr("Tsplits: {int32, int64} = DT_INT64")
          .Shape(UnicodeDecodeShape),
      OpBuilder("UnicodeEncode: Strings from their code points.")
          .Input("input_values: int32")
          .Input("input_splits: Tsplits")
          .Output("output: string")
          .Attr("errors: {'ignore', 'replace', 'strict'} = 'replace'")
          .Attr("output_encoding: {'UTF-8', 'UTF-16-BE', 'UTF-32-BE'}")
          .Attr("replacement_char: int = 65533")
          .Attr("Tsplits: {int32, int64} = DT_INT64")
          .Shape(UnicodeEncodeShape),
      OpBuilder("UnicodeScript: The script of each code point, as a number of ICU.")
          .Input("input: int32")
          .Output("output: int32")
          .Shape(shape_fns::Unchanged),
      OpBuilder("UnicodeTranscode: Strings in another encoding.")
          .Input("input: string")
          .Output("output: string")
          .Attr("input_encoding: string")
          .Attr("output_encoding: {'UTF-8', 'UTF-16-BE', 'UTF-32-BE'}")
          .Attr("errors: {'strict', 'replace', 'ignore'} = 'replace'")
          .Attr("replacement_char: int = 65533")
          .Attr("replace_control_characters: bool = false")
          .Shape(shape_fns::Unchanged),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterUnicodeOps(OpRegistry& registry) {
  return ops::RegisterEach(registry, ops::NotDifferentiable(ops::Unicode()));
}

}  // namespace millrace
