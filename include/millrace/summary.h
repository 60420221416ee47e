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

// Summaries for TensorBoard: ops that make summaries, and a writer of event files.
namespace millrace {

namespace summary {

inline constexpr char kSummaries[] = "summaries";

struct Options {
  std::vector<std::string> collections = {kSummaries};
  std::string family = {};  // prepended to the tag, so that TensorBoard groups it
};

// Each adds an op that makes a serialised Summary, a string scalar, and adds it to collections. The op is
// called `name`, with '_' for invalid characters, below the scope; the tag is the name of the op.
Output Scalar(const Scope& scope, std::string_view name, const Input& value, const Options& options = {});
// For values of a real type and any shape.
Output Histogram(const Scope& scope, std::string_view name, const Input& values, const Options& options = {});
// uint8 or float [batch, height, width, channels] with 1, 3 or 4 channels; at most `max_outputs` of the
// batch. Floats are scaled to 0..255, with zero at 127 if there are negative ones.
Output Image(const Scope& scope, std::string_view name, const Input& tensor, int max_outputs = 3,
             const Options& options = {});
// float in [-1, 1], [batch, frames, channels] or [batch, frames], with the sample rate in Hz.
Output Audio(const Scope& scope, std::string_view name, const Input& tensor, const Input& sample_rate,
             int max_outputs = 3, const Options& options = {});
// Strings of any shape; Markdown is rendered, and matrices are shown as tables.
Output Text(const Scope& scope, std::string_view name, const Input& tensor, const Options& options = {});
// Any tensor, for the TensorBoard plugin in the metadata, a serialised SummaryMetadata.
Output Tensor(const Scope& scope, std::string_view name, const Input& tensor,
              std::string_view serialized_metadata = {}, const Options& options = {});
// Merges several summaries into one.
Output Merge(const Scope& scope, const std::vector<Output>& summaries);
// Merges all summaries of a collection; unset if there are none.
Output MergeAll(const Scope& scope, const std::string& collection = kSummaries);

}  // namespace summary

// The layout of TensorBoard's "custom scalars". Tags are regular expressions.
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

// One variable in TensorBoard's projector.
struct Projection {
  std::string tensor_name;
  std::string metadata_path = {};  // labels of the rows, one per line
  std::string sprite_path = {};    // one image with a thumbnail for each row
  int sprite_width = 0, sprite_height = 0;
};
// Writes projector_config.pbtxt to an event folder.
Status WriteProjectorConfig(const std::string& folder, const std::vector<Projection>& projections);

// Writes the events of a program to a file in a folder, "events.out.tfevents.<seconds>.<host>", in a separate
// thread: calls block only if the queue is full. The first error of the thread is returned by later calls.
// Thread-safe.
class SummaryWriter {
 public:
  struct Options {
    int max_queue = 1000;     // capacity of the queue of events
    double flush_secs = 120;  // the maximum time that events are buffered
    std::string suffix = {};  // of file names
  };
  // Creates the folder if necessary.
  static StatusOr<std::unique_ptr<SummaryWriter>> Open(const std::string& folder) {
    return Open(folder, Options());
  }
  static StatusOr<std::unique_ptr<SummaryWriter>> Open(const std::string& folder, const Options& options);
  // The writer of this process for a folder, shared by all callers.
  static StatusOr<std::shared_ptr<SummaryWriter>> ForFolder(const std::string& folder);
  ~SummaryWriter();  // writes queued events and closes
  SummaryWriter(const SummaryWriter&) = delete;
  SummaryWriter& operator=(const SummaryWriter&) = delete;

  const std::string& folder() const;

  // A serialised Summary, as from the ops. InvalidArgument for invalid bytes.
  Status AddSummary(std::string_view serialized, int64_t step);
  Status AddScalar(const std::string& tag, float value, int64_t step);
  Status AddText(const std::string& tag, const Tensor& strings, int64_t step);
  Status AddTensor(const std::string& tag, const Tensor& tensor, int64_t step,
                   std::string_view serialized_metadata = {});
  Status AddCustomScalars(const CustomScalars& layout);
  // The graph of a scope; the meta graph includes its collections.
  Status AddGraph(const Scope& scope, int64_t step = 0);
  // A serialised MetaGraphDef.
  Status AddMetaGraph(std::string_view serialized, int64_t step = 0);
  // InvalidArgument if the tag was used before.
  Status AddRunMetadata(const RunMetadata& metadata, const std::string& tag, int64_t step);
  enum class SessionStatus { kStart = 1, kStop = 2, kCheckpoint = 3 };
  Status AddSessionLog(SessionStatus status, int64_t step, const std::string& checkpoint_path = {},
                       const std::string& message = {});

  // Waits until all added events are on disk.
  Status Flush();
  // Flushes and ends the thread; later calls return FailedPrecondition.
  Status Close();

 private:
  struct State;
  explicit SummaryWriter(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace millrace
