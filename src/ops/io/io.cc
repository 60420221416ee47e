// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Files and the readers that take records out of them.
#include <string>
#include <vector>

#include "ops/data_flow/data_flow.h"
#include "ops/family.h"

namespace millrace::ops {
namespace {

Status ReadShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(CheckHandleShape(c, 0));
  MR_RETURN_IF_ERROR(CheckHandleShape(c, 1));
  c.set_output(0, c.Scalar());
  c.set_output(1, c.Scalar());
  return Status::Ok();
}

Status ReadUpToShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(CheckHandleShape(c, 0));
  MR_RETURN_IF_ERROR(CheckHandleShape(c, 1));
  MR_RETURN_IF_ERROR(c.WithRank(c.input(2), 0).status());
  const ShapeHandle records = c.Vector(c.UnknownDim());
  c.set_output(0, records);
  c.set_output(1, records);
  return Status::Ok();
}

Status RestoreShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(CheckHandleShape(c, 0));
  return c.WithRank(c.input(1), 0).status();
}

Status FileShape(InferenceContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) MR_RETURN_IF_ERROR(c.WithRank(c.input(i), 0).status());
  if (c.num_outputs() > 0) c.set_output(0, c.Scalar());
  return Status::Ok();
}

Status MatchingFilesShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRankAtMost(c.input(0), 1).status());
  c.set_output(0, c.Vector(c.UnknownDim()));
  return Status::Ok();
}

// A reader with its attributes other than container and name.
OpBuilder ReaderNode(const std::string& name, bool resource) {
  OpBuilder op = HandleNode(name, "reader_handle", resource);
  if (name.starts_with("TextLine")) op.Attr("skip_header_lines: int = 0");
  if (name.starts_with("FixedLength")) {
    op.Attr("header_bytes: int = 0")
        .Attr("record_bytes: int")
        .Attr("footer_bytes: int = 0")
        .Attr("hop_bytes: int = 0");
  }
  op.Attr("container: string = ''").Attr("shared_name: string = ''");
  if (resource && name.starts_with("FixedLength")) op.Attr("encoding: string = ''");
  if (name.starts_with("TFRecord")) op.Attr("compression_type: string = ''");
  if (!resource && !name.starts_with("WholeFile")) op.Deprecated(26, StrCat("Use ", NameOf(name), "V2"));
  return op;
}

void AddReaderOps(bool resource, std::vector<OpBuilder>* ops) {
  const std::string v2 = resource ? "V2" : "";
  const std::string queue = resource ? "queue_handle: resource" : "queue_handle: Ref(string)";
  const auto access = [&](const char* name) {
    return HandleAccess(WithSuffix(name, v2), "reader_handle", resource);
  };
  for (const char* name :
       {"WholeFileReader: Reads whole files as records.", "TextLineReader: Reads lines from text files.",
        "FixedLengthRecordReader: Reads records of one length from files.",
        "TFRecordReader: Reads records from TFRecord files.",
        "IdentityReader: Returns the queued names themselves as records."}) {
    ops->push_back(ReaderNode(WithSuffix(name, v2), resource));
  }
  // Of one kind only, and not deprecated.
  if (!resource)
    ops->push_back(HandleNode("LMDBReader: Reads the entries of LMDB databases.", "reader_handle", resource)
                       .Attr("container: string = ''")
                       .Attr("shared_name: string = ''"));
  ops->push_back(access("ReaderRead: The next record of the files whose names are in a queue.")
                     .Input(queue)
                     .Output("key: string")
                     .Output("value: string")
                     .Shape(ReadShape));
  ops->push_back(access("ReaderReadUpTo: The next records of the files whose names are in a queue.")
                     .Input(queue)
                     .Input("num_records: int64")
                     .Output("keys: string")
                     .Output("values: string")
                     .Shape(ReadUpToShape));
  ops->push_back(access("ReaderNumRecordsProduced: The number of records that a reader has produced.")
                     .Output("records_produced: int64")
                     .Shape(AccessScalarShape));
  ops->push_back(access("ReaderNumWorkUnitsCompleted: The number of files that a reader has finished.")
                     .Output("units_completed: int64")
                     .Shape(AccessScalarShape));
  ops->push_back(access("ReaderSerializeState: The state of a reader, as a string.")
                     .Output("state: string")
                     .Shape(AccessScalarShape));
  ops->push_back(access("ReaderRestoreState: Restores the state of a reader.")
                     .Input("state: string")
                     .Shape(RestoreShape));
  ops->push_back(access("ReaderReset: Resets a reader to its initial state.").Shape(AccessShape));
}

std::vector<OpBuilder> IoOps() {
  std::vector<OpBuilder> ops;
  AddReaderOps(false, &ops);
  AddReaderOps(true, &ops);
  // Files change from step to step, so reading one is an effect, too.
  ops.push_back(OpBuilder("ReadFile: The bytes of a file.")
                    .Input("filename: string")
                    .Output("contents: string")
                    .Shape(FileShape)
                    .Traits(kEffect));
  ops.push_back(OpBuilder("WriteFile: Writes bytes to a file.")
                    .Input("filename: string")
                    .Input("contents: string")
                    .Stateful()
                    .Shape(FileShape)
                    .Traits(kEffect));
  ops.push_back(OpBuilder("MatchingFiles: The names of files that match a pattern.")
                    .Input("pattern: string")
                    .Output("filenames: string")
                    .Shape(MatchingFilesShape)
                    .Traits(kEffect));
  ops.push_back(OpBuilder("ShardedFilename: The name of one shard of a set of files.")
                    .Input("basename: string")
                    .Input("shard: int32")
                    .Input("num_shards: int32")
                    .Output("filename: string")
                    .Shape(FileShape));
  ops.push_back(OpBuilder("ShardedFilespec: The pattern that all shards of a set of files match.")
                    .Input("basename: string")
                    .Input("num_shards: int32")
                    .Output("filename: string")
                    .Shape(FileShape));
  return ops;
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterIoOps(OpRegistry& registry) {
  return ops::RegisterEach(registry, ops::NotDifferentiable(ops::IoOps()));
}

}  // namespace millrace
