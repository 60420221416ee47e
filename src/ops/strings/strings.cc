// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Text: making, taking apart, comparing and hashing strings.
#include <string>
#include <vector>

#include "ops/family.h"
#include "ops/math/shapes.h"

namespace millrace::ops {
namespace {

// Scalars go with any shape; the others have one.
Status StringJoinShape(InferenceContext& c) {
  ShapeHandle out = c.UnknownShape();
  bool all_scalar = true;
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (c.Rank(c.input(i)) == 0) continue;
    all_scalar = false;
    if (!c.RankKnown(c.input(i))) continue;
    MR_ASSIGN_OR_RETURN(out, c.Merge(out, c.input(i)));
  }
  c.set_output(0, all_scalar ? c.Scalar() : out);
  return Status::Ok();
}

Status StringSplitShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 1).status());
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 0).status());
  c.set_output(0, c.Matrix(c.UnknownDim(), c.MakeDim(2)));
  c.set_output(1, c.Vector(c.UnknownDim()));
  c.set_output(2, c.Vector(2));
  return Status::Ok();
}

Status SubstrShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle where, c.Merge(c.input(1), c.input(2)));
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, Broadcast(c, c.input(0), where));
  c.set_output(0, out);
  return Status::Ok();
}

// Patterns and what replaces them are scalars.
Status RegexShape(InferenceContext& c) {
  for (int i = 1; i < c.num_inputs(); ++i) MR_RETURN_IF_ERROR(c.WithRank(c.input(i), 0).status());
  c.set_output(0, c.input(0));
  return Status::Ok();
}

std::vector<OpBuilder> Hashing() {
  return {
      OpBuilder("StringToHashBucket: The hash bucket of each string, a number below num_buckets.")
          .Input("string_tensor: string")
          .Output("output: int64")
          .Attr("num_buckets: int >= 1")
          .Shape(shape_fns::Unchanged),
      OpBuilder("StringToHashBucketFast: The hash bucket of each string by a fast hash, a number below "
                "num_buckets.")
          .Input("input: string")
          .Output("output: int64")
          .Attr("num_buckets: int >= 1")
          .Shape(shape_fns::Unchanged),
      OpBuilder("StringToHashBucketStrong: The hash bucket of each string by a keyed hash, a number below "
                "num_buckets.")
          .Input("input: string")
          .Output("output: int64")
          .Attr("num_buckets: int >= 1")
          .Attr("key: list(int)")
          .Shape(shape_fns::Unchanged),
  };
}

Status StringNGramsShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 1).status());
  MR_ASSIGN_OR_RETURN(const ShapeHandle splits, c.WithRank(c.input(1), 1));
  c.set_output(0, c.Vector(c.UnknownDim()));
  c.set_output(1, splits);
  return Status();
}

std::vector<OpBuilder> Splitting() {
  return {
      OpBuilder("StringJoin: Joins strings of tensors, element by element.")
          .Input("inputs: N * string")
          .Output("output: string")
          .Attr("N: int >= 1")
          .Attr("separator: string = ''")
          .Shape(StringJoinShape),
      OpBuilder("StringNGrams: The n-grams of the strings of each row, joined by a separator.")
          .Input("data: string")
          .Input("data_splits: Tsplits")
          .Output("ngrams: string")
          .Output("ngrams_splits: Tsplits")
          .Attr("separator: string")
          .Attr("ngram_widths: list(int) >= 0")
          .Attr("left_pad: string")
          .Attr("right_pad: string")
          .Attr("pad_width: int")
          .Attr("preserve_short_sequences: bool")
          .Attr("Tsplits: {int32, int64} = DT_INT64")
          .Shape(StringNGramsShape),
      OpBuilder("StringSplit: The parts of strings between delimiters, as a sparse matrix.")
          .Input("input: string")
          .Input("delimiter: string")
          .Output("indices: int64")
          .Output("values: string")
          .Output("shape: int64")
          .Attr("skip_empty: bool = true")
          .Shape(StringSplitShape),
      OpBuilder("StringSplitV2: The parts of strings between delimiters, as a sparse matrix.")
          .Input("input: string")
          .Input("sep: string")
          .Output("indices: int64")
          .Output("values: string")
          .Output("shape: int64")
          .Attr("maxsplit: int = -1")
          .Shape(StringSplitShape),
      OpBuilder("Substr: Substrings, by position and length.")
          .Input("input: string")
          .Input("pos: T")
          .Input("len: T")
          .Output("output: string")
          .Attr("T: {int32, int64}")
          .Attr("unit: {'BYTE', 'UTF8_CHAR'} = 'BYTE'")
          .Shape(SubstrShape),
      OpBuilder("UnsortedSegmentJoin: Joins the strings of each segment.")
          .Input("inputs: string")
          .Input("segment_ids: Tindices")
          .Input("num_segments: Tnumsegments")
          .Output("output: string")
          .Attr("separator: string = ''")
          .Attr("Tindices: {int32, int64}")
          .Attr("Tnumsegments: {int32, int64} = DT_INT32")
          .Shape(UnsortedSegmentShape),
      OpBuilder("ReduceJoin: Joins strings along dimensions.")
          .Input("inputs: string")
          .Input("reduction_indices: int32")
          .Output("output: string")
          .Attr("keep_dims: bool = false")
          .Attr("separator: string = ''")
          .Shape(shape_fns::Reduction),
  };
}

std::vector<OpBuilder> Rewriting() {
  return {
      OpBuilder("AsString: Each element as text.")
          .Input("input: T")
          .Output("output: string")
          .Attr("T: {int8, int16, int32, int64, complex64, complex128, float, double, bool}")
          .Attr("precision: int = -1")
          .Attr("scientific: bool = false")
          .Attr("shortest: bool = false")
          .Attr("width: int = -1")
          .Attr("fill: string = ''")
          .Shape(shape_fns::Unchanged),
      OpBuilder("EncodeBase64: Bytes as web-safe base64.")
          .Input("input: string")
          .Output("output: string")
          .Attr("pad: bool = false")
          .Shape(shape_fns::Unchanged),
      OpBuilder("DecodeBase64: Text in web-safe base64 as bytes.")
          .Input("input: string")
          .Output("output: string")
          .Shape(shape_fns::Unchanged),
      OpBuilder("RegexReplace: Replaces the matches of a pattern in strings.")
          .Input("input: string")
          .Input("pattern: string")
          .Input("rewrite: string")
          .Output("output: string")
          .Attr("replace_global: bool = true")
          .Shape(RegexShape),
      OpBuilder("RegexFullMatch: Whether each string matches a pattern, as a whole.")
          .Input("input: string")
          .Input("pattern: string")
          .Output("output: bool")
          .Shape(RegexShape),
      OpBuilder("StaticRegexReplace: Replaces the matches of a fixed pattern in strings.")
          .Input("input: string")
          .Output("output: string")
          .Attr("pattern: string")
          .Attr("rewrite: string")
          .Attr("replace_global: bool = true")
          .Shape(shape_fns::Unchanged),
      OpBuilder("StaticRegexFullMatch: Whether each string matches a fixed pattern, as a whole.")
          .Input("input: string")
          .Output("output: bool")
          .Attr("pattern: string")
          .Shape(shape_fns::Unchanged),
      OpBuilder("StringStrip: Strings without leading and trailing whitespace.")
          .Input("input: string")
          .Output("output: string")
          .Shape(shape_fns::Unchanged),
      OpBuilder("StringLength: The length of each string.")
          .Input("input: string")
          .Output("output: int32")
          .Attr("unit: {'BYTE', 'UTF8_CHAR'} = 'BYTE'")
          .Shape(shape_fns::Unchanged),
      OpBuilder("StringLower: Strings in lower case.")
          .Input("input: string")
          .Output("output: string")
          .Attr("encoding: string = ''")
          .Shape(shape_fns::Unchanged),
      OpBuilder("StringUpper: Strings in upper case.")
          .Input("input: string")
          .Output("output: string")
          .Attr("encoding: string = ''")
          .Shape(shape_fns::Unchanged),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterStringOps(OpRegistry& registry) {
  MR_RETURN_IF_ERROR(ops::RegisterEach(registry, ops::NotDifferentiable(ops::Hashing())));
  MR_RETURN_IF_ERROR(ops::RegisterEach(registry, ops::NotDifferentiable(ops::Splitting())));
  return ops::RegisterEach(registry, ops::NotDifferentiable(ops::Rewriting()));
}

}  // namespace millrace
