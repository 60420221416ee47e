// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/output.h"
#include "millrace/run_metadata.h"
#include "millrace/scope.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

// What TensorBoard shows of a training: ops that make summaries, and a writer of event files.
namespace millrace {

namespace summary {

inline constexpr char kSummaries[] = "summaries";

struct Options {
  std::vector<std::string> collections = {kSummaries};
  std::string family = {};  // put before the tag, so that TensorBoard groups it
};

// Each adds an op that makes a serialised Summary, a string scalar, and puts it into collections. The op is
// called `name`, with '_' for what names may not have, below the scope; the tag is the name of the op.
Output Scalar(const Scope& scope, std::string_view name, const Input& value, const Options& options = {});
// Of values of a real type and any shape.
Output Histogram(const Scope& scope, std::string_view name, const Input& values, const Options& options = {});
// uint8 or float [batch, height, width, channels] with 1, 3 or 4 channels; at most `max_outputs` of the
// batch. Floats are scaled to 0..255, about 127 where there are negative ones.
Output Image(const Scope& scope, std::string_view name, const Input& tensor, int max_outputs = 3,
             const Options& options = {});
// float in [-1, 1], [batch, frames, channels] or [batch, frames], of so many samples a second.
Output Audio(const Scope& scope, std::string_view name, const Input& tensor, const Input& sample_rate,
             int max_outputs = 3, const Options& options = {});
// Strings of any shape; Markdown is shown as such, and two dimensions as a table.
Output Text(const Scope& scope, std::string_view name, const Input& tensor, const Options& options = {});
// Any tensor, for the plugin of TensorBoard that the metadata, a serialised SummaryMetadata, names.
Output Tensor(const Scope& scope, std::string_view name, const Input& tensor,
              std::string_view serialized_metadata = {}, const Options& options = {});
// One summary of several.
Output Merge(const Scope& scope, const std::vector<Output>& summaries);
// Of all in a collection; unset where there are none.
Output MergeAll(const Scope& scope, const std::string& collection = kSummaries);

}  // namespace summary

// How TensorBoard's "custom scalars" arranges curves. Tags are regular expressions.
struct CustomScalars {
  struct Margin {
    std::string value, lower, upper;  // tags
  };
  struct Chart {
    std::string title;
    std::vector<std::string> tags = {};  // a curve for each; or
    std::vector<Margin> margins = {};    // curves with a band around each
  };
  struct Category {
    std::string title;
    std::vector<Chart> charts;
    bool closed = false;
  };
  std::vector<Category> categories;
};

// What TensorBoard's projector shows of one variable.
struct Projection {
  std::string tensor_name;
  std::string metadata_path = {};  // labels of the rows, a line each
  std::string sprite_path = {};    // one image with a picture for each row
  int sprite_width = 0, sprite_height = 0;
};
// Writes projector_config.pbtxt to a folder of events.
Status WriteProjectorConfig(const std::string& folder, const std::vector<Projection>& projections);

// Writes the events of a program to a file in a folder, "events.out.tfevents.<seconds>.<host>", in a thread
// of its own: calls wait only when the queue is full. The first error of the thread is
// returned by the calls that follow it. Thread-safe.
class SummaryWriter {
 public:
  struct Options {
    int max_queue = 1000;     // events that wait for the thread
    double flush_secs = 120;  // how long events may stay in memory
    std::string suffix = {};  // of the names of files
  };
  // Makes the folder when it is not there.
  static StatusOr<std::unique_ptr<SummaryWriter>> Open(const std::string& folder) {
    return Open(folder, Options());
  }
  static StatusOr<std::unique_ptr<SummaryWriter>> Open(const std::string& folder, const Options& options);
  // The writer that the process has for a folder, so that all of its parts write to one file.
  static StatusOr<std::shared_ptr<SummaryWriter>> ForFolder(const std::string& folder);
  ~SummaryWriter();  // writes what waits and closes
  SummaryWriter(const SummaryWriter&) = delete;
  SummaryWriter& operator=(const SummaryWriter&) = delete;

  const std::string& folder() const;

  // A serialised Summary, as the ops give it. InvalidArgument for what is none.
  Status AddSummary(std::string_view serialized, int64_t step);
  Status AddScalar(const std::string& tag, float value, int64_t step);
  Status AddText(const std::string& tag, const Tensor& strings, int64_t step);
  Status AddTensor(const std::string& tag, const Tensor& tensor, int64_t step,
                   std::string_view serialized_metadata = {});
  Status AddCustomScalars(const CustomScalars& layout);
  // The graph of a scope; the meta graph has its collections too.
  Status AddGraph(const Scope& scope, int64_t step = 0);
  // A serialised MetaGraphDef.
  Status AddMetaGraph(std::string_view serialized, int64_t step = 0);
  // InvalidArgument when the tag was there before.
  Status AddRunMetadata(const RunMetadata& metadata, const std::string& tag, int64_t step);
  enum class SessionStatus { kStart = 1, kStop = 2, kCheckpoint = 3 };
  Status AddSessionLog(SessionStatus status, int64_t step, const std::string& checkpoint_path = {},
                       const std::string& message = {});

  // Waits until all that was added is on disk.
  Status Flush();
  // The same, and ends the thread; what is added afterwards is FailedPrecondition.
  Status Close();

 private:
  struct State;
  explicit SummaryWriter(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace millrace
