// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Ops that make tensors out of bytes and text: Examples, records of a table, encoded tensors.
#include <string>
#include <vector>

#include "ops/family.h"

namespace millrace::ops {
namespace {

// Sets the outputs of one group of features from output *next on: those of `count` sparse features by kind,
// then a dense one for each shape. `rows`: the dimensions before the shape of a feature: sizes of a batch, of
// steps.
class FeatureOutputs {
 public:
  explicit FeatureOutputs(InferenceContext& c) : c_(c) {}

  void AddSparse(int64_t count, int64_t rank) {
    for (int64_t i = 0; i < count; ++i) c_.set_output(next_++, c_.Matrix(c_.UnknownDim(), c_.MakeDim(rank)));
    for (int64_t i = 0; i < count; ++i) c_.set_output(next_++, c_.Vector(c_.UnknownDim()));
    for (int64_t i = 0; i < count; ++i) c_.set_output(next_++, c_.Vector(rank));
  }
  Status AddDense(const std::vector<PartialShape>& shapes, ShapeHandle rows) {
    for (const PartialShape& partial : shapes) {
      MR_ASSIGN_OR_RETURN(const ShapeHandle shape, c_.MakeShapeFromPartial(partial));
      MR_ASSIGN_OR_RETURN(const ShapeHandle whole, c_.Concatenate(rows, shape));
      c_.set_output(next_++, whole);
    }
    return Status::Ok();
  }
  void AddLengths(size_t count, ShapeHandle rows) {
    for (size_t i = 0; i < count; ++i) c_.set_output(next_++, rows);
  }

 private:
  InferenceContext& c_;
  int next_ = 0;
};

// The attributes of one group of features.
struct FeatureAttrs {
  int64_t num_sparse = 0;
  std::vector<PartialShape> dense_shapes;
};

// InvalidArgument unless the lists have the lengths of the number attributes. An empty name means no such
// attr.
StatusOr<FeatureAttrs> ReadFeatureAttrs(InferenceContext& c, const std::string& num_sparse,
                                        const std::string& num_dense, const std::string& sparse_types,
                                        const std::string& dense_types, const std::string& dense_shapes) {
  FeatureAttrs attrs;
  MR_ASSIGN_OR_RETURN(attrs.num_sparse, c.Attr<int64_t>(num_sparse));
  MR_ASSIGN_OR_RETURN(const auto types, c.Attr<std::vector<DataType>>(sparse_types));
  MR_ASSIGN_OR_RETURN(const auto dense, c.Attr<std::vector<DataType>>(dense_types));
  MR_ASSIGN_OR_RETURN(attrs.dense_shapes, c.Attr<std::vector<PartialShape>>(dense_shapes));
  if (static_cast<int64_t>(types.size()) != attrs.num_sparse) {
    return errors::InvalidArgument("len(sparse_keys) != len(sparse_types)");
  }
  if (!num_dense.empty()) {
    MR_ASSIGN_OR_RETURN(const auto number, c.Attr<int64_t>(num_dense));
    if (static_cast<int64_t>(dense.size()) != number) {
      return errors::InvalidArgument("len(dense_keys) != len(dense_types)");
    }
  }
  if (dense.size() != attrs.dense_shapes.size()) {
    return errors::InvalidArgument("len(dense_keys) != len(dense_shapes)");
  }
  return attrs;
}

Status ParseExampleShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle batch, c.WithRank(c.input(0), 1));
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 1).status());
  MR_ASSIGN_OR_RETURN(const FeatureAttrs attrs,
                      ReadFeatureAttrs(c, "Nsparse", "Ndense", "sparse_types", "Tdense", "dense_shapes"));
  FeatureOutputs outputs(c);
  outputs.AddSparse(attrs.num_sparse, 2);
  return outputs.AddDense(attrs.dense_shapes, batch);
}

Status ParseExampleV2Shape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const FeatureAttrs attrs,
                      ReadFeatureAttrs(c, "num_sparse", "", "sparse_types", "Tdense", "dense_shapes"));
  for (int i = 2; i <= 4; ++i) MR_RETURN_IF_ERROR(c.WithRank(c.input(i), 1).status());
  MR_ASSIGN_OR_RETURN(const auto ragged, c.Attr<std::vector<DataType>>("ragged_value_types"));
  MR_ASSIGN_OR_RETURN(const auto splits, c.Attr<std::vector<DataType>>("ragged_split_types"));
  if (ragged.size() != splits.size()) {
    return errors::InvalidArgument("len(ragged_value_types) != len(ragged_split_types)");
  }
  const ShapeHandle rows = c.input(0);
  if (!c.RankKnown(rows)) {
    for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, c.UnknownShape());
    return Status::Ok();
  }
  MR_RETURN_IF_ERROR(c.WithRankAtMost(rows, 1).status());
  FeatureOutputs outputs(c);
  outputs.AddSparse(attrs.num_sparse, c.Rank(rows) + 1);
  MR_RETURN_IF_ERROR(outputs.AddDense(attrs.dense_shapes, rows));
  const int first = c.num_outputs() - 2 * static_cast<int>(ragged.size());
  for (int i = first; i < c.num_outputs(); ++i) c.set_output(i, c.Vector(c.UnknownDim()));
  return Status::Ok();
}

Status ParseSingleExampleShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 0).status());
  MR_ASSIGN_OR_RETURN(const FeatureAttrs attrs,
                      ReadFeatureAttrs(c, "num_sparse", "", "sparse_types", "Tdense", "dense_shapes"));
  FeatureOutputs outputs(c);
  outputs.AddSparse(attrs.num_sparse, 1);
  return outputs.AddDense(attrs.dense_shapes, c.Scalar());
}

// Context and lists of SequenceExamples: one of them, or a batch with lengths.
Status SequenceShape(InferenceContext& c, bool batched, ShapeHandle rows) {
  MR_ASSIGN_OR_RETURN(const FeatureAttrs context,
                      ReadFeatureAttrs(c, "Ncontext_sparse", "Ncontext_dense", "context_sparse_types",
                                       "Tcontext_dense", "context_dense_shapes"));
  MR_ASSIGN_OR_RETURN(
      const FeatureAttrs lists,
      ReadFeatureAttrs(c, "Nfeature_list_sparse", "Nfeature_list_dense", "feature_list_sparse_types",
                       "feature_list_dense_types", "feature_list_dense_shapes"));
  MR_ASSIGN_OR_RETURN(const ShapeHandle steps, c.Concatenate(rows, c.Vector(c.UnknownDim())));
  const int64_t batch_rank = batched ? 1 : 0;
  FeatureOutputs outputs(c);
  outputs.AddSparse(context.num_sparse, batch_rank + 1);
  MR_RETURN_IF_ERROR(outputs.AddDense(context.dense_shapes, rows));
  outputs.AddSparse(lists.num_sparse, batch_rank + 2);
  MR_RETURN_IF_ERROR(outputs.AddDense(lists.dense_shapes, steps));
  if (batched) outputs.AddLengths(lists.dense_shapes.size(), rows);
  return Status::Ok();
}

Status ParseSingleSequenceShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 0).status());
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 1).status());
  return SequenceShape(c, false, c.Scalar());
}

Status ParseSequenceShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle batch, c.WithRank(c.input(0), 1));
  return SequenceShape(c, true, batch);
}

Status DecodeRawShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.Concatenate(c.input(0), c.Vector(c.UnknownDim())));
  c.set_output(0, out);
  return Status::Ok();
}

// The number of elements that fit into the length.
Status DecodePaddedRawShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const DataType dtype, c.Attr<DataType>("out_type"));
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 0).status());
  DimHandle count = c.UnknownDim();
  if (const Tensor* length = c.input_tensor(1); length != nullptr) {
    const auto element = static_cast<int32_t>(DataTypeSize(dtype));
    const int32_t bytes = length->scalar<int32_t>();
    if (bytes <= 0 || bytes % element != 0) {
      return errors::InvalidArgument("fixed_length (", bytes,
                                     ") must be greater than zero and a multiple of ", element,
                                     ", the size of ", DataTypeName(dtype));
    }
    count = c.MakeDim(bytes / element);
  }
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.Concatenate(c.input(0), c.Vector(count)));
  c.set_output(0, out);
  return Status::Ok();
}

Status DecodeCsvShape(InferenceContext& c) {
  for (int i = 1; i < c.num_inputs(); ++i) {
    MR_ASSIGN_OR_RETURN(const ShapeHandle value, c.WithRankAtMost(c.input(i), 1));
    if (c.Rank(value) == 1 && c.Value(c.Dim(value, 0)) > 1) {
      return errors::InvalidArgument(
          "Shape of a default must be a length-0 or length-1 vector, or a scalar.");
    }
  }
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, c.input(0));
  return Status::Ok();
}

Status ParseTensorShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 0).status());
  c.set_output(0, c.UnknownShape());
  return Status::Ok();
}

std::vector<OpBuilder> ExampleOps() {
  return {
      OpBuilder("ParseExample: The features of serialised Examples as tensors.")
          .Input("serialized: string")
          .Input("names: string")
          .Input("sparse_keys: Nsparse * string")
          .Input("dense_keys: Ndense * string")
          .Input("dense_defaults: Tdense")
          .Output("sparse_indices: Nsparse * int64")
          .Output("sparse_values: sparse_types")
          .Output("sparse_shapes: Nsparse * int64")
          .Output("dense_values: Tdense")
          .Attr("Nsparse: int >= 0")
          .Attr("Ndense: int >= 0")
          .Attr("sparse_types: list({float, int64, string}) >= 0")
          .Attr("Tdense: list({float, int64, string}) >= 0")
          .Attr("dense_shapes: list(shape) >= 0")
          .Shape(ParseExampleShape),
      // An op of versions after 1.15, whose saved models have it.
      OpBuilder("ParseExampleV2: Features of serialised Examples as dense, sparse and ragged tensors.")
          .Input("serialized: string")
          .Input("names: string")
          .Input("sparse_keys: string")
          .Input("dense_keys: string")
          .Input("ragged_keys: string")
          .Input("dense_defaults: Tdense")
          .Output("sparse_indices: num_sparse * int64")
          .Output("sparse_values: sparse_types")
          .Output("sparse_shapes: num_sparse * int64")
          .Output("dense_values: Tdense")
          .Output("ragged_values: ragged_value_types")
          .Output("ragged_row_splits: ragged_split_types")
          .Attr("Tdense: list({float, int64, string}) >= 0")
          .Attr("num_sparse: int >= 0")
          .Attr("sparse_types: list({float, int64, string}) >= 0")
          .Attr("ragged_value_types: list({float, int64, string}) >= 0")
          .Attr("ragged_split_types: list({int32, int64}) >= 0")
          .Attr("dense_shapes: list(shape) >= 0")
          .Shape(ParseExampleV2Shape),
  };
}

std::vector<OpBuilder> SingleExampleOps() {
  return {
      OpBuilder("ParseSingleExample: The features of one serialised Example as tensors.")
          .Input("serialized: string")
          .Input("dense_defaults: Tdense")
          .Output("sparse_indices: num_sparse * int64")
          .Output("sparse_values: sparse_types")
          .Output("sparse_shapes: num_sparse * int64")
          .Output("dense_values: Tdense")
          .Attr("num_sparse: int >= 0")
          .Attr("sparse_keys: list(string) >= 0")
          .Attr("dense_keys: list(string) >= 0")
          .Attr("sparse_types: list({float, int64, string}) >= 0")
          .Attr("Tdense: list({float, int64, string}) >= 0")
          .Attr("dense_shapes: list(shape) >= 0")
          .Shape(ParseSingleExampleShape),
      OpBuilder("ParseSingleSequenceExample: The features of one serialised SequenceExample as tensors.")
          .Input("serialized: string")
          .Input("feature_list_dense_missing_assumed_empty: string")
          .Input("context_sparse_keys: Ncontext_sparse * string")
          .Input("context_dense_keys: Ncontext_dense * string")
          .Input("feature_list_sparse_keys: Nfeature_list_sparse * string")
          .Input("feature_list_dense_keys: Nfeature_list_dense * string")
          .Input("context_dense_defaults: Tcontext_dense")
          .Input("debug_name: string")
          .Output("context_sparse_indices: Ncontext_sparse * int64")
          .Output("context_sparse_values: context_sparse_types")
          .Output("context_sparse_shapes: Ncontext_sparse * int64")
          .Output("context_dense_values: Tcontext_dense")
          .Output("feature_list_sparse_indices: Nfeature_list_sparse * int64")
          .Output("feature_list_sparse_values: feature_list_sparse_types")
          .Output("feature_list_sparse_shapes: Nfeature_list_sparse * int64")
          .Output("feature_list_dense_values: feature_list_dense_types")
          .Attr("Ncontext_sparse: int >= 0 = 0")
          .Attr("Ncontext_dense: int >= 0 = 0")
          .Attr("Nfeature_list_sparse: int >= 0 = 0")
          .Attr("Nfeature_list_dense: int >= 0 = 0")
          .Attr("context_sparse_types: list({float, int64, string}) >= 0 = []")
          .Attr("Tcontext_dense: list({float, int64, string}) >= 0 = []")
          .Attr("feature_list_dense_types: list({float, int64, string}) >= 0 = []")
          .Attr("context_dense_shapes: list(shape) >= 0 = []")
          .Attr("feature_list_sparse_types: list({float, int64, string}) >= 0 = []")
          .Attr("feature_list_dense_shapes: list(shape) >= 0 = []")
          .Shape(ParseSingleSequenceShape),
      OpBuilder("ParseSequenceExample: The features of serialised SequenceExamples as tensors.")
          .Input("serialized: string")
          .Input("debug_name: string")
          .Input("context_dense_defaults: Tcontext_dense")
          .Output("context_sparse_indices: Ncontext_sparse * int64")
          .Output("context_sparse_values: context_sparse_types")
          .Output("context_sparse_shapes: Ncontext_sparse * int64")
          .Output("context_dense_values: Tcontext_dense")
          .Output("feature_list_sparse_indices: Nfeature_list_sparse * int64")
          .Output("feature_list_sparse_values: feature_list_sparse_types")
          .Output("feature_list_sparse_shapes: Nfeature_list_sparse * int64")
          .Output("feature_list_dense_values: feature_list_dense_types")
          .Output("feature_list_dense_lengths: Nfeature_list_dense * int64")
          .Attr("feature_list_dense_missing_assumed_empty: list(string) >= 0")
          .Attr("context_sparse_keys: list(string) >= 0")
          .Attr("context_dense_keys: list(string) >= 0")
          .Attr("feature_list_sparse_keys: list(string) >= 0")
          .Attr("feature_list_dense_keys: list(string) >= 0")
          .Attr("Ncontext_sparse: int >= 0 = 0")
          .Attr("Ncontext_dense: int >= 0 = 0")
          .Attr("Nfeature_list_sparse: int >= 0 = 0")
          .Attr("Nfeature_list_dense: int >= 0 = 0")
          .Attr("context_sparse_types: list({float, int64, string}) >= 0 = []")
          .Attr("Tcontext_dense: list({float, int64, string}) >= 0 = []")
          .Attr("feature_list_dense_types: list({float, int64, string}) >= 0 = []")
          .Attr("context_dense_shapes: list(shape) >= 0 = []")
          .Attr("feature_list_sparse_types: list({float, int64, string}) >= 0 = []")
          .Attr("feature_list_dense_shapes: list(shape) >= 0 = []")
          .Shape(ParseSequenceShape),
      OpBuilder("DecodeJSONExample: Examples in JSON as serialised messages.")
          .Input("json_examples: string")
          .Output("binary_examples: string")
          .Shape(shape_fns::Unchanged),
  };
}

std::vector<OpBuilder> DecodingOps() {
  return {
      OpBuilder("DecodeRaw: The bytes of strings as numbers.")
          .Input("bytes: string")
          .Output("output: out_type")
          .Attr("out_type: {half, float, double, int32, uint16, uint8, int16, int8, int64, complex64, "
                "complex128, bool}")
          .Attr("little_endian: bool = true")
          .Shape(DecodeRawShape),
      OpBuilder("DecodePaddedRaw: The bytes of strings as numbers, each string cut or padded to one length.")
          .Input("input_bytes: string")
          .Input("fixed_length: int32")
          .Output("output: out_type")
          .Attr("out_type: {half, float, double, int32, uint16, uint8, int16, int8, int64}")
          .Attr("little_endian: bool = true")
          .Shape(DecodePaddedRawShape),
      OpBuilder("DecodeCSV: The fields of comma-separated records, a tensor for each column.")
          .Input("records: string")
          .Input("record_defaults: OUT_TYPE")
          .Output("output: OUT_TYPE")
          .Attr("OUT_TYPE: list({float, double, int32, int64, string}) >= 1")
          .Attr("field_delim: string = ','")
          .Attr("use_quote_delim: bool = true")
          .Attr("na_value: string = ''")
          .Attr("select_cols: list(int) = []")
          .Shape(DecodeCsvShape),
      OpBuilder("ParseTensor: Parses a serialised tensor.")
          .Input("serialized: string")
          .Output("output: out_type")
          .Attr("out_type: type")
          .Shape(ParseTensorShape),
      OpBuilder("SerializeTensor: A tensor as a serialised message.")
          .Input("tensor: T")
          .Output("serialized: string")
          .Attr("T: type")
          .Shape(shape_fns::Scalar),
      OpBuilder("StringToNumber: Strings as numbers.")
          .Input("string_tensor: string")
          .Output("output: out_type")
          .Attr("out_type: {float, double, int32, int64} = DT_FLOAT")
          .Shape(shape_fns::Unchanged),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterParsingOps(OpRegistry& registry) {
  MR_RETURN_IF_ERROR(ops::RegisterEach(registry, ops::NotDifferentiable(ops::ExampleOps())));
  MR_RETURN_IF_ERROR(ops::RegisterEach(registry, ops::NotDifferentiable(ops::SingleExampleOps())));
  return ops::RegisterEach(registry, ops::NotDifferentiable(ops::DecodingOps()));
}

}  // namespace millrace
