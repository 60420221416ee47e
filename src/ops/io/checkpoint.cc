// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Checkpoints in both of TensorFlow's formats.
#include <string>
#include <vector>

#include "ops/family.h"
#include "tensor/tensor_slice.h"

namespace millrace::ops {
namespace {

// Inputs [1, end) are vectors with an entry for each of the further inputs.
Status NamesShape(InferenceContext& c, int end) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 0).status());
  for (int i = 1; i < end; ++i) {
    MR_ASSIGN_OR_RETURN(const ShapeHandle names, c.WithRank(c.input(i), 1));
    MR_RETURN_IF_ERROR(c.WithValue(c.Dim(names, 0), c.num_inputs() - end).status());
  }
  return Status::Ok();
}
Status SaveShape(InferenceContext& c) { return NamesShape(c, 2); }
Status SaveSlicesShape(InferenceContext& c) { return NamesShape(c, 3); }

// The shape that a shape_and_slice cuts out; unknown when it is empty.
Status SetSliceShape(InferenceContext& c, int output, const std::string& text) {
  if (text.empty()) {
    c.set_output(output, c.UnknownShape());
    return Status::Ok();
  }
  MR_ASSIGN_OR_RETURN(const ShapeAndSlice part, ParseShapeAndSlice(text));
  MR_ASSIGN_OR_RETURN(const ShapeHandle shape, c.MakeShapeFromPartial(part.slice_shape));
  c.set_output(output, shape);
  return Status::Ok();
}

Status RestoreV2Shape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 0).status());
  MR_ASSIGN_OR_RETURN(const ShapeHandle names, c.WithRank(c.input(1), 1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle slices, c.WithRank(c.input(2), 1));
  MR_RETURN_IF_ERROR(c.Merge(names, slices).status());
  const Tensor* const texts = c.input_tensor(2);
  if (texts != nullptr && texts->num_elements() != c.num_outputs()) {
    return errors::InvalidArgument("The number of shape_and_slice doesn't match tensor outputs.");
  }
  for (int i = 0; i < c.num_outputs(); ++i) {
    MR_RETURN_IF_ERROR(SetSliceShape(c, i, texts == nullptr ? "" : texts->data<std::string>()[i]));
  }
  return Status::Ok();
}

// Scalars, of which the third is a shape_and_slice.
Status RestoreShape(InferenceContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) MR_RETURN_IF_ERROR(c.WithRank(c.input(i), 0).status());
  const Tensor* const text = c.num_inputs() > 2 ? c.input_tensor(2) : nullptr;
  const bool known = text != nullptr && text->num_elements() == 1;
  return SetSliceShape(c, 0, known ? *text->data<std::string>() : "");
}

Status MergeShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 1).status());
  return c.WithRank(c.input(1), 0).status();
}

OpBuilder Stateful(const char* name) { return OpBuilder(name).Stateful().Traits(kEffect); }

std::vector<OpBuilder> CheckpointOps() {
  return {
      Stateful("SaveV2: Writes tensors, or parts of them, to a checkpoint.")
          .Input("prefix: string")
          .Input("tensor_names: string")
          .Input("shape_and_slices: string")
          .Input("tensors: dtypes")
          .Attr("dtypes: list(type) >= 1")
          .Shape(SaveSlicesShape),
      Stateful("RestoreV2: Tensors of a checkpoint, or parts of them.")
          .Input("prefix: string")
          .Input("tensor_names: string")
          .Input("shape_and_slices: string")
          .Output("tensors: dtypes")
          .Attr("dtypes: list(type) >= 1")
          .Shape(RestoreV2Shape),
      Stateful("MergeV2Checkpoints: Joins the shards of a checkpoint under one name.")
          .Input("checkpoint_prefixes: string")
          .Input("destination_prefix: string")
          .Attr("delete_old_dirs: bool = true")
          .Shape(MergeShape),
      Stateful("Save: Writes tensors to a checkpoint in the first format.")
          .Input("filename: string")
          .Input("tensor_names: string")
          .Input("data: T")
          .Attr("T: list(type) >= 1")
          .Shape(SaveShape),
      Stateful("SaveSlices: Writes parts of tensors to a checkpoint in the first format.")
          .Input("filename: string")
          .Input("tensor_names: string")
          .Input("shapes_and_slices: string")
          .Input("data: T")
          .Attr("T: list(type) >= 1")
          .Shape(SaveSlicesShape),
      Stateful("Restore: A tensor of a checkpoint in the first format.")
          .Input("file_pattern: string")
          .Input("tensor_name: string")
          .Output("tensor: dt")
          .Attr("dt: type")
          .Attr("preferred_shard: int = -1")
          .Shape(RestoreShape),
      Stateful("RestoreSlice: A part of a tensor of a checkpoint in the first format.")
          .Input("file_pattern: string")
          .Input("tensor_name: string")
          .Input("shape_and_slice: string")
          .Output("tensor: dt")
          .Attr("dt: type")
          .Attr("preferred_shard: int = -1")
          .Shape(RestoreShape),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterCheckpointOps(OpRegistry& registry) {
  return ops::RegisterEach(registry, ops::NotDifferentiable(ops::CheckpointOps()));
}

}  // namespace millrace
