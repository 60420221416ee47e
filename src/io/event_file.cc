// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/event_file.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <utility>

#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/protobuf/config.pb.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"
#include "tensorflow/core/util/event.pb.h"

namespace millrace::io {
namespace {

constexpr const char* kVersion = "brain.Event:2";
constexpr int kMostNames = 1000;  // files of the same second

double WallTime() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "localhost";
}

}  // namespace

EventWriter::EventWriter(Env& env, std::string prefix, Options options)
    : env_(env), prefix_(std::move(prefix)), options_(std::move(options)) {}

EventWriter::~EventWriter() { Close().IgnoreError("a caller that needs the status calls Close itself"); }

StatusOr<std::unique_ptr<EventWriter>> EventWriter::Open(Env& env, const std::string& prefix) {
  return Open(env, prefix, Options());
}

StatusOr<std::unique_ptr<EventWriter>> EventWriter::Open(Env& env, const std::string& prefix,
                                                         Options options) {
  if (!options.now) options.now = WallTime;
  if (options.host.empty()) options.host = HostName();
  std::unique_ptr<EventWriter> writer(new EventWriter(env, prefix, std::move(options)));
  MR_RETURN_IF_ERROR(writer->Begin());
  return writer;
}

Status EventWriter::Begin() {
  const double now = options_.now();
  char seconds[32];
  std::snprintf(seconds, sizeof(seconds), "%010lld", static_cast<long long>(now));
  const std::string name = StrCat(prefix_, ".out.tfevents.", seconds, ".", options_.host);
  path_ = name + options_.suffix;
  // The existing file was written by another writer, or by this one a moment ago.
  for (int i = 1; env_.FileExists(path_); ++i) {
    if (i == kMostNames) return errors::AlreadyExists("There are too many files called ", name);
    path_ = StrCat(name, ".", i, options_.suffix);
  }
  MR_ASSIGN_OR_RETURN(file_, env_.NewWritableFile(path_));
  records_ = std::make_unique<RecordWriter>(*file_, Compression::kNone);
  bytes_ = 0;
  last_flush_ = now;
  tensorflow::Event first;
  first.set_wall_time(now);
  first.set_file_version(kVersion);
  MR_RETURN_IF_ERROR(Append(first));
  // Readers identify an event file by its first record.
  return file_->Flush();
}

Status EventWriter::Append(const tensorflow::Event& event) {
  std::string bytes;
  if (!event.SerializeToString(&bytes)) return errors::ResourceExhausted("An event is longer than 2 GiB");
  Status status = records_->Write(bytes);
  if (!status.ok()) {
    records_.reset();
    file_.reset();
    return status;
  }
  bytes_ += bytes.size();
  return Status();
}

Status EventWriter::Write(const tensorflow::Event& event) {
  if (file_ == nullptr) MR_RETURN_IF_ERROR(Begin());
  if (options_.rotate_after_bytes > 0 && bytes_ >= options_.rotate_after_bytes) MR_RETURN_IF_ERROR(Reopen());
  MR_RETURN_IF_ERROR(Append(event));
  return options_.now() - last_flush_ >= options_.flush_after_secs ? Flush() : Status();
}

Status EventWriter::AddSummary(const tensorflow::Summary& summary, int64_t step) {
  tensorflow::Event event;
  event.set_wall_time(options_.now());
  event.set_step(step);
  *event.mutable_summary() = summary;
  return Write(event);
}

Status EventWriter::AddSummary(std::string_view serialized, int64_t step) {
  tensorflow::Summary summary;
  if (!summary.ParseFromArray(serialized.data(), static_cast<int>(serialized.size())))
    return errors::InvalidArgument("The string of ", serialized.size(), " bytes is not a Summary");
  return AddSummary(summary, step);
}

Status EventWriter::AddGraph(const tensorflow::GraphDef& graph, int64_t step) {
  tensorflow::Event event;
  event.set_wall_time(options_.now());
  event.set_step(step);
  if (!graph.SerializeToString(event.mutable_graph_def()))
    return errors::ResourceExhausted("The graph is longer than 2 GiB");
  return Write(event);
}

Status EventWriter::AddMetaGraph(const tensorflow::MetaGraphDef& graph, int64_t step) {
  tensorflow::Event event;
  event.set_wall_time(options_.now());
  event.set_step(step);
  if (!graph.SerializeToString(event.mutable_meta_graph_def()))
    return errors::ResourceExhausted("The graph is longer than 2 GiB");
  return Write(event);
}

Status EventWriter::AddSessionLog(const tensorflow::SessionLog& log, int64_t step) {
  tensorflow::Event event;
  event.set_wall_time(options_.now());
  event.set_step(step);
  *event.mutable_session_log() = log;
  return Write(event);
}

Status EventWriter::AddRunMetadata(const tensorflow::RunMetadata& metadata, const std::string& tag,
                                   int64_t step) {
  if (tags_.contains(tag))
    return errors::InvalidArgument("The provided tag was already used for this event type");
  tensorflow::Event event;
  event.set_wall_time(options_.now());
  event.set_step(step);
  event.mutable_tagged_run_metadata()->set_tag(tag);
  if (!metadata.SerializeToString(event.mutable_tagged_run_metadata()->mutable_run_metadata()))
    return errors::ResourceExhausted("The metadata are longer than 2 GiB");
  MR_RETURN_IF_ERROR(Write(event));
  tags_.insert(tag);
  return Status();
}

Status EventWriter::Flush() {
  if (file_ == nullptr) return Status();
  last_flush_ = options_.now();
  if (!env_.FileExists(path_)) {
    // The file was deleted: data written to the old file would be lost.
    records_.reset();
    file_.reset();
    return Begin();
  }
  MR_RETURN_IF_ERROR(file_->Flush());
  return file_->Sync();
}

Status EventWriter::Close() {
  if (file_ == nullptr) return Status();
  Status status = records_->Close();
  status.Update(file_->Sync());
  status.Update(file_->Close());
  records_.reset();
  file_.reset();
  return status;
}

Status EventWriter::Reopen() {
  MR_RETURN_IF_ERROR(Close());
  return Begin();
}

StatusOr<std::unique_ptr<EventReader>> EventReader::Open(Env& env, const std::string& path) {
  return Open(env, path, Options());
}

StatusOr<std::unique_ptr<EventReader>> EventReader::Open(Env& env, const std::string& path,
                                                         const Options& options) {
  MR_ASSIGN_OR_RETURN(auto records, RecordReader::OpenAt(env, path, options.offset));
  records->LimitRecords(options.most_bytes);
  return std::unique_ptr<EventReader>(new EventReader(path, std::move(records)));
}

Status EventReader::Read(tensorflow::Event* event) {
  const uint64_t offset = records_->offset();
  MR_RETURN_IF_ERROR(records_->Read(&record_));
  if (!event->ParseFromString(record_))
    return errors::DataLoss("The record at ", offset, " of ", path_, " is not an event");
  return Status();
}

}  // namespace millrace::io
