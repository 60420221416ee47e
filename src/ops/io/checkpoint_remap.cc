// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Rows and columns of a checkpoint's matrices by the words of vocabularies.
#include "ops/family.h"

namespace millrace::ops {
namespace {

Status GenerateVocabRemappingShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 0).status());
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 0).status());
  MR_ASSIGN_OR_RETURN(const int64_t words, c.Attr<int64_t>("num_new_vocab"));
  c.set_output(0, c.Vector(words));
  c.set_output(1, c.Scalar());
  return Status();
}

Status LoadAndRemapMatrixShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 0).status());
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 0).status());
  MR_RETURN_IF_ERROR(c.WithRank(c.input(2), 1).status());
  MR_RETURN_IF_ERROR(c.WithRank(c.input(3), 1).status());
  MR_RETURN_IF_ERROR(c.WithRank(c.input(4), 1).status());
  MR_ASSIGN_OR_RETURN(const int64_t num_rows, c.Attr<int64_t>("num_rows"));
  MR_ASSIGN_OR_RETURN(const int64_t num_columns, c.Attr<int64_t>("num_cols"));
  c.set_output(0, c.Matrix(c.MakeDim(num_rows), c.MakeDim(num_columns)));
  return Status();
}

std::vector<OpBuilder> Remapping() {
  return {
      OpBuilder("GenerateVocabRemapping: The index of each word of a vocabulary in an older vocabulary.")
          .NotDifferentiable()
          .Input("new_vocab_file: string")
          .Input("old_vocab_file: string")
          .Output("remapping: int64")
          .Output("num_present: int32")
          .Attr("new_vocab_offset: int >= 0")
          .Attr("num_new_vocab: int >= 0")
          .Attr("old_vocab_size: int >= -1 = -1")
          .Shape(GenerateVocabRemappingShape),
      OpBuilder("LoadAndRemapMatrix: A matrix of a checkpoint with its rows and columns reordered, and new "
                "values for missing ones.")
          .NotDifferentiable()
          .Input("ckpt_path: string")
          .Input("old_tensor_name: string")
          .Input("row_remapping: int64")
          .Input("col_remapping: int64")
          .Input("initializing_values: float")
          .Output("output_matrix: float")
          .Attr("num_rows: int >= 0")
          .Attr("num_cols: int >= 1")
          .Attr("max_rows_in_memory: int = -1")
          .Stateful()
          .Shape(LoadAndRemapMatrixShape),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterCheckpointRemapOps(OpRegistry& registry) {
  return ops::RegisterEach(registry, ops::Remapping());
}

}  // namespace millrace
