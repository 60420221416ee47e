// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/events_plot.h"
#include "cli/watch/histogram.h"
#include "cli/watch/reservoir.h"

namespace tensorflow {
class Event;
}  // namespace tensorflow

namespace millrace::cli {

// Limits of each series; beyond them points are sampled at random.
struct StoreLimits {
  size_t scalars = 1000;
  size_t histograms = 500;
  size_t blobs = 10;                          // images, sounds, texts
  size_t series = 10'000;                     // of a run
  uint64_t blob_bytes = uint64_t{512} << 20;  // of all images, sounds, texts and graphs
  uint64_t bytes_of_one = uint64_t{32} << 20;
};

enum class SeriesKind { kScalars, kHistograms, kImages, kAudio, kText };
// "scalars", …
const char* SeriesKindName(SeriesKind kind);

struct BlobPoint {
  int64_t step = 0;
  double wall_time = 0;
  uint64_t key = 0;  // of no other
  std::string bytes;
  std::string type;  // "image/png", …; empty for text
};

// The points of one tag. Only the member for its kind has any.
struct Series {
  uint64_t id = 0;       // of no other, ever
  uint64_t version = 0;  // grows with each change
  SeriesKind kind = SeriesKind::kScalars;
  std::string tag;
  std::string description;
  Reservoir<ScalarPoint> scalars;
  Reservoir<HistogramPoint> histograms;
  Reservoir<BlobPoint> blobs;

  Series(SeriesKind k, std::string t, const StoreLimits& limits);
  // The number of points written, including those not sampled.
  uint64_t seen() const;
  // The number of removed points, with steps from `step` on.
  size_t RemoveFrom(int64_t step);
};

struct Run {
  uint64_t id = 0;
  std::string name;  // "." for the folder itself
  std::map<std::pair<SeriesKind, std::string>, std::unique_ptr<Series>> series;
  std::string graph;  // a serialised GraphDef; the last one
  uint64_t graph_version = 0;
  bool graph_of_meta = false;
  uint64_t events = 0, restarts = 0, purged = 0;
  int64_t last_step = 0;
  double first_time = 0, last_time = 0;

  // TensorBoard's criterion for points that a restart has made obsolete.
  double file_version = -1;
  int64_t most_recent_step = -1;
};

// The sampled contents of event files of several runs. Not thread-safe. Accepts any event; invalid parts are
// counted and reported in `notes`.
class EventStore {
 public:
  explicit EventStore(const StoreLimits& limits) : limits_(limits) {}

  // The run of this name; created if necessary.
  Run& GetRun(const std::string& name);
  void RemoveRun(const std::string& name);
  // Events must be in the order of the run's files. A START of a session (files of version 2), or a step
  // smaller than one before (older files), removes the points from its step on, because a restart computes
  // them again.
  void Apply(const tensorflow::Event& event, Run* run);

  const std::map<std::string, std::unique_ptr<Run>>& runs() const { return runs_; }
  const Run* FindRun(uint64_t id) const;
  const Series* FindSeries(uint64_t id) const;
  const BlobPoint* FindBlob(uint64_t series, uint64_t key) const;

  // Increases with each change.
  uint64_t generation() const { return generation_; }
  const StoreLimits& limits() const { return limits_; }
  // Messages about files, without duplicates.
  const std::vector<std::string>& notes() const { return notes_; }
  void Note(std::string text);

  // For SummaryReader. Null if the run has too many series.
  Series* GetSeries(SeriesKind kind, const std::string& tag, Run* run);
  void AddBlob(Series* series, const Run& run, BlobPoint point);
  void Changed(Series* series) { series->version = ++generation_; }

 private:
  void ApplyStart(const tensorflow::Event& event, Run* run);
  void CheckOrder(const tensorflow::Event& event, Run* run);
  void SetGraph(const std::string& bytes, bool of_meta, Run* run);
  bool HasRoomFor(uint64_t bytes);

  const StoreLimits limits_;
  std::map<std::string, std::unique_ptr<Run>> runs_;
  std::map<uint64_t, Series*> series_by_id_;
  std::vector<std::string> notes_;
  uint64_t generation_ = 1, next_id_ = 1;
  uint64_t blob_bytes_ = 0;  // at least as much as there is; counted again when the limit is reached
};

}  // namespace millrace::cli
