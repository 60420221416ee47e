// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Records of many files in a random order, and compressed strings.
#include "ops/family.h"

namespace millrace::ops {
namespace {

Status RecordInputShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const int64_t batch, c.Attr<int64_t>("batch_size"));
  c.set_output(0, c.Vector(batch > 0 ? c.MakeDim(batch) : c.UnknownDim()));
  return Status();
}

std::vector<OpBuilder> Records() {
  return {
      OpBuilder("DecodeCompressed: Decompresses strings.")
          .Input("bytes: string")
          .Output("output: string")
          .Attr("compression_type: string = ''")
          .Shape(shape_fns::Unchanged),
      OpBuilder(
          "RecordInput: Records of the files that match a pattern, in a random order, epoch after epoch.")
          .Output("records: string")
          .Attr("file_pattern: string")
          .Attr("file_random_seed: int = 301")
          .Attr("file_shuffle_shift_ratio: float = 0")
          .Attr("file_buffer_size: int = 10000")
          .Attr("file_parallelism: int = 16")
          .Attr("batch_size: int = 32")
          .Attr("compression_type: string = ''")
          .Stateful()
          .Shape(RecordInputShape),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterRecordOps(OpRegistry& registry) {
  return ops::RegisterEach(registry, ops::NotDifferentiable(ops::Records()));
}

}  // namespace millrace
