// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "base/env.h"
#include "io/record_file.h"
#include "millrace/status.h"

namespace tensorflow {
class Event;
class GraphDef;
class MetaGraphDef;
class RunMetadata;
class SessionLog;
class Summary;
}  // namespace tensorflow

// Event files, which TensorBoard reads: records that are tensorflow.Event messages, the first of which names
// the version of the format.
namespace millrace::io {

// Writes the events of one run of a program to a folder or under a prefix. One thread at a time.
class EventWriter {
 public:
  struct Options {
    std::string suffix;  // of the names of files
    // Data is on the disk at the latest with the first event after that.
    double flush_after_secs = 120;
    // A file of this size is closed and another begun; 0: never.
    uint64_t rotate_after_bytes = 0;
    // For tests: seconds since 1970, and the host name.
    std::function<double()> now;
    std::string host;
  };

  // Files are called "<prefix>.out.tfevents.<seconds, ten digits>.<host><suffix>";
  // the prefix is a path, usually "<folder>/events". The first file is created at
  // once.
  static StatusOr<std::unique_ptr<EventWriter>> Open(Env& env, const std::string& prefix, Options options);
  static StatusOr<std::unique_ptr<EventWriter>> Open(Env& env, const std::string& prefix);
  ~EventWriter();  // closes, and drops the error

  const std::string& path() const { return path_; }  // of the current file

  // Writes an event unchanged. After an error the writer begins a new file with the next event; also when the
  // file has been deleted.
  Status Write(const tensorflow::Event& event);
  // Each creates an event with the current time.
  Status AddSummary(const tensorflow::Summary& summary, int64_t step);
  // A serialised tensorflow.Summary, as returned by summary ops.
  Status AddSummary(std::string_view serialized, int64_t step);
  Status AddGraph(const tensorflow::GraphDef& graph, int64_t step = 0);
  Status AddMetaGraph(const tensorflow::MetaGraphDef& graph, int64_t step = 0);
  Status AddSessionLog(const tensorflow::SessionLog& log, int64_t step);
  // InvalidArgument for a repeated tag.
  Status AddRunMetadata(const tensorflow::RunMetadata& metadata, const std::string& tag, int64_t step);

  Status Flush();  // to stable storage
  Status Close();
  // Closes the current file and begins another.
  Status Reopen();

 private:
  EventWriter(Env& env, std::string prefix, Options options);
  Status Begin();
  Status Append(const tensorflow::Event& event);

  Env& env_;
  const std::string prefix_;
  const Options options_;
  std::string path_;
  std::unique_ptr<WritableFile> file_;  // null: closed, or after an error
  std::unique_ptr<RecordWriter> records_;
  uint64_t bytes_ = 0;
  double last_flush_ = 0;
  std::set<std::string> tags_;  // of run metadata
};

// Reads the events of a file one after the other. One thread at a time.
class EventReader {
 public:
  struct Options {
    uint64_t offset = 0;               // where to begin: a result of offset()
    uint64_t most_bytes = UINT64_MAX;  // of a record; more is ResourceExhausted
  };
  static StatusOr<std::unique_ptr<EventReader>> Open(Env& env, const std::string& path,
                                                     const Options& options);
  static StatusOr<std::unique_ptr<EventReader>> Open(Env& env, const std::string& path);
  // Where the next event begins.
  uint64_t offset() const { return records_->offset(); }
  // OutOfRange at the end; a file that is being written may have more later. DataLoss with the offset for a
  // corrupt record.
  Status Read(tensorflow::Event* event);

 private:
  EventReader(std::string path, std::unique_ptr<RecordReader> records)
      : path_(std::move(path)), records_(std::move(records)) {}
  const std::string path_;
  const std::unique_ptr<RecordReader> records_;
  std::string record_;
};

}  // namespace millrace::io
