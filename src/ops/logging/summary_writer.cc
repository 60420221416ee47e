// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Writers of event files and databases, by handle.
#include "ops/family.h"

namespace millrace::ops {
namespace {

// The handle and the parameters of a summary are scalars; input `any` is the data of the summary.
template <int any>
Status WriteShape(InferenceContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (i != any) MR_RETURN_IF_ERROR(c.WithRank(c.input(i), 0).status());
  }
  return Status();
}

// A vector for pixels that are not finite comes last.
Status WriteImageShape(InferenceContext& c) {
  for (int i = 0; i < 3; ++i) MR_RETURN_IF_ERROR(c.WithRank(c.input(i), 0).status());
  MR_RETURN_IF_ERROR(c.WithRank(c.input(3), 4).status());
  return c.WithRank(c.input(4), 1).status();
}

std::vector<OpBuilder> Writers() {
  return {
      OpBuilder("SummaryWriter: The handle of a writer of event files.")
          .NotDifferentiable()
          .Output("writer: resource")
          .Attr("shared_name: string = ''")
          .Attr("container: string = ''")
          .Stateful()
          .Shape(shape_fns::Scalar),
      OpBuilder("CreateSummaryFileWriter: Makes a writer of event files in a folder, if it does not exist.")
          .NotDifferentiable()
          .Input("writer: resource")
          .Input("logdir: string")
          .Input("max_queue: int32")
          .Input("flush_millis: int32")
          .Input("filename_suffix: string")
          .Stateful()
          .Shape(WriteShape<-1>)
          .Traits(kEffect),
      OpBuilder("CreateSummaryDbWriter: Makes a writer of a run to an SQLite database, if it does not exist.")
          .NotDifferentiable()
          .Input("writer: resource")
          .Input("db_uri: string")
          .Input("experiment_name: string")
          .Input("run_name: string")
          .Input("user_name: string")
          .Stateful()
          .Shape(WriteShape<-1>)
          .Traits(kEffect),
      OpBuilder("FlushSummaryWriter: Flushes a writer's buffer to its file.")
          .NotDifferentiable()
          .Input("writer: resource")
          .Stateful()
          .Shape(WriteShape<-1>)
          .Traits(kEffect),
      OpBuilder("CloseSummaryWriter: Closes the file of a writer and deletes the writer.")
          .NotDifferentiable()
          .Input("writer: resource")
          .Stateful()
          .Shape(WriteShape<-1>)
          .Traits(kEffect),
  };
}

std::vector<OpBuilder> Writes() {
  return {
      OpBuilder("WriteSummary: Writes a tensor with metadata to an event file.")
          .NotDifferentiable()
          .Input("writer: resource")
          .Input("step: int64")
          .Input("tensor: T")
          .Input("tag: string")
          .Input("summary_metadata: string")
          .Attr("T: type")
          .Stateful()
          .Shape(WriteShape<2>)
          .Traits(kEffect),
      OpBuilder("WriteRawProtoSummary: Writes serialized summaries to an event file.")
          .NotDifferentiable()
          .Input("writer: resource")
          .Input("step: int64")
          .Input("tensor: string")
          .Stateful()
          .Shape(WriteShape<2>)
          .Traits(kEffect),
      OpBuilder("ImportEvent: Writes a serialized event to an event file, unchanged.")
          .NotDifferentiable()
          .Input("writer: resource")
          .Input("event: string")
          .Stateful()
          .Shape(WriteShape<-1>)
          .Traits(kEffect),
      OpBuilder("WriteScalarSummary: Writes a number to an event file.")
          .NotDifferentiable()
          .Input("writer: resource")
          .Input("step: int64")
          .Input("tag: string")
          .Input("value: T")
          .Attr("T: realnumbertype")
          .Stateful()
          .Shape(WriteShape<-1>)
          .Traits(kEffect),
      OpBuilder("WriteHistogramSummary: Writes a histogram of values to an event file.")
          .NotDifferentiable()
          .Input("writer: resource")
          .Input("step: int64")
          .Input("tag: string")
          .Input("values: T")
          .Attr("T: realnumbertype = DT_FLOAT")
          .Stateful()
          .Shape(WriteShape<3>)
          .Traits(kEffect),
      OpBuilder("WriteImageSummary: Writes images to an event file.")
          .NotDifferentiable()
          .Input("writer: resource")
          .Input("step: int64")
          .Input("tag: string")
          .Input("tensor: T")
          .Input("bad_color: uint8")
          .Attr("max_images: int >= 1 = 3")
          .Attr("T: {uint8, float, half} = DT_FLOAT")
          .Stateful()
          .Shape(WriteImageShape)
          .Traits(kEffect),
      OpBuilder("WriteAudioSummary: Writes sound clips to an event file.")
          .NotDifferentiable()
          .Input("writer: resource")
          .Input("step: int64")
          .Input("tag: string")
          .Input("tensor: float")
          .Input("sample_rate: float")
          .Attr("max_outputs: int >= 1 = 3")
          .Stateful()
          .Shape(WriteShape<3>)
          .Traits(kEffect),
      OpBuilder("WriteGraphSummary: Writes a serialized graph to an event file.")
          .NotDifferentiable()
          .Input("writer: resource")
          .Input("step: int64")
          .Input("tensor: string")
          .Stateful()
          .Shape(WriteShape<-1>)
          .Traits(kEffect),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterSummaryWriterOps(OpRegistry& registry) {
  MR_RETURN_IF_ERROR(ops::RegisterEach(registry, ops::Writers()));
  return ops::RegisterEach(registry, ops::Writes());
}

}  // namespace millrace
