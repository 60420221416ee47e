// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/watch/event_store.h"

#include <algorithm>

#include "base/strings.h"
#include "cli/watch/summary_reader.h"
#include "display/text.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"
#include "tensorflow/core/util/event.pb.h"

namespace millrace::cli {
namespace {

constexpr size_t kMostNotes = 100;

uint64_t BytesOf(const Run& run) {
  uint64_t bytes = run.graph.size();
  for (const auto& [key, series] : run.series) {
    for (const BlobPoint& point : series->blobs.items()) bytes += point.bytes.size();
  }
  return bytes;
}

}  // namespace

const char* SeriesKindName(SeriesKind kind) {
  switch (kind) {
    case SeriesKind::kScalars:
      return "scalars";
    case SeriesKind::kHistograms:
      return "histograms";
    case SeriesKind::kImages:
      return "images";
    case SeriesKind::kAudio:
      return "audio";
    case SeriesKind::kText:
      break;
  }
  return "text";
}

Series::Series(SeriesKind k, std::string t, const StoreLimits& limits)
    : kind(k),
      tag(std::move(t)),
      scalars(limits.scalars),
      histograms(limits.histograms),
      blobs(limits.blobs) {}

uint64_t Series::seen() const { return scalars.seen() + histograms.seen() + blobs.seen(); }

size_t Series::RemoveFrom(int64_t step) {
  const auto obsolete = [step](const auto& point) { return point.step >= step; };
  return scalars.RemoveIf(obsolete) + histograms.RemoveIf(obsolete) + blobs.RemoveIf(obsolete);
}

Run& EventStore::GetRun(const std::string& name) {
  std::unique_ptr<Run>& run = runs_[name];
  if (run == nullptr) {
    run = std::make_unique<Run>();
    run->id = next_id_++;
    run->name = name.empty() ? "." : name;
    ++generation_;
  }
  return *run;
}

void EventStore::RemoveRun(const std::string& name) {
  const auto run = runs_.find(name);
  if (run == runs_.end()) return;
  for (const auto& [key, series] : run->second->series) series_by_id_.erase(series->id);
  runs_.erase(run);
  ++generation_;
}

void EventStore::Apply(const tensorflow::Event& event, Run* run) {
  using tensorflow::Event;
  ++generation_;
  if (run->events++ == 0) run->first_time = event.wall_time();
  run->last_time = event.wall_time();
  if (event.what_case() == Event::kFileVersion) {
    std::string_view version = event.file_version();
    run->file_version =
        ConsumePrefix(&version, "brain.Event:") ? SafeStringToDouble(version).value_or(-1) : -1;
    return;
  }
  if (run->file_version >= 2) {
    ApplyStart(event, run);
  } else {
    CheckOrder(event, run);
  }
  run->last_step = std::max<int64_t>(run->last_step, event.step());
  switch (event.what_case()) {
    case Event::kSummary: {
      SummaryReader reader(this, run, event.step(), event.wall_time());
      for (const auto& value : event.summary().value()) reader.Read(value);
      return;
    }
    case Event::kGraphDef:
      return SetGraph(event.graph_def(), false, run);
    case Event::kMetaGraphDef: {
      // The graph itself, if there is one, has more information.
      tensorflow::MetaGraphDef meta_graph;
      if (!run->graph.empty() && !run->graph_of_meta) return;
      if (event.meta_graph_def().size() > limits_.bytes_of_one ||
          !meta_graph.ParseFromString(event.meta_graph_def()) || !meta_graph.has_graph_def()) {
        return Note(StrCat("run ", run->name, ": a meta graph is malformed or too large, and left out"));
      }
      return SetGraph(meta_graph.graph_def().SerializeAsString(), true, run);
    }
    default:
      return;
  }
}

void EventStore::ApplyStart(const tensorflow::Event& event, Run* run) {
  if (event.session_log().status() != tensorflow::SessionLog::START) return;
  ++run->restarts;
  for (const auto& [key, series] : run->series) {
    const size_t removed = series->RemoveFrom(event.step());
    run->purged += removed;
    if (removed > 0) Changed(series.get());
  }
  run->last_step = std::min<int64_t>(run->last_step, event.step());
}

void EventStore::CheckOrder(const tensorflow::Event& event, Run* run) {
  if (event.step() >= run->most_recent_step || !event.has_summary()) {
    run->most_recent_step = event.step();
    return;
  }
  for (const auto& value : event.summary().value()) {
    for (auto it = run->series.lower_bound({SeriesKind::kScalars, ""}); it != run->series.end(); ++it) {
      if (it->second->tag != value.tag()) continue;
      const size_t removed = it->second->RemoveFrom(event.step());
      run->purged += removed;
      if (removed > 0) Changed(it->second.get());
    }
  }
}

void EventStore::SetGraph(const std::string& bytes, bool of_meta, Run* run) {
  const uint64_t before = run->graph.size();
  if (bytes.size() > limits_.bytes_of_one || !HasRoomFor(bytes.size() - std::min(before, bytes.size()))) {
    return Note(StrCat("run ", run->name, ": a graph of ", BytesText(bytes.size()), " is left out"));
  }
  run->graph = bytes;
  run->graph_of_meta = of_meta;
  run->graph_version = ++generation_;
}

Series* EventStore::GetSeries(SeriesKind kind, const std::string& tag, Run* run) {
  const auto found = run->series.find({kind, tag});
  if (found != run->series.end()) return found->second.get();
  constexpr size_t kMostTagBytes = 1000;
  if (tag.size() > kMostTagBytes) {
    Note(StrCat("run ", run->name, ": a tag of ", tag.size(), " bytes is left out"));
    return nullptr;
  }
  if (run->series.size() >= limits_.series) {
    Note(StrCat("run ", run->name, ": only the first ", limits_.series, " tags are shown"));
    return nullptr;
  }
  auto series = std::make_unique<Series>(kind, tag, limits_);
  series->id = next_id_++;
  series_by_id_[series->id] = series.get();
  return run->series.emplace(std::pair(kind, tag), std::move(series)).first->second.get();
}

void EventStore::AddBlob(Series* series, const Run& run, BlobPoint point) {
  if (point.bytes.size() > limits_.bytes_of_one || !HasRoomFor(point.bytes.size())) {
    return Note(StrCat("run ", run.name, ": ", SeriesKindName(series->kind), " of ",
                       Printable(series->tag, 100), " is left out: ", BytesText(limits_.bytes_of_one),
                       " each and ", BytesText(limits_.blob_bytes), " together is what is kept"));
  }
  point.key = next_id_++;
  series->blobs.Add(std::move(point));
  Changed(series);
}

bool EventStore::HasRoomFor(uint64_t bytes) {
  if (blob_bytes_ + bytes > limits_.blob_bytes) {
    blob_bytes_ = 0;
    for (const auto& [name, run] : runs_) blob_bytes_ += BytesOf(*run);
  }
  if (blob_bytes_ + bytes > limits_.blob_bytes) return false;
  blob_bytes_ += bytes;
  return true;
}

const Run* EventStore::FindRun(uint64_t id) const {
  for (const auto& [name, run] : runs_) {
    if (run->id == id) return run.get();
  }
  return nullptr;
}

const Series* EventStore::FindSeries(uint64_t id) const {
  const auto found = series_by_id_.find(id);
  return found == series_by_id_.end() ? nullptr : found->second;
}

const BlobPoint* EventStore::FindBlob(uint64_t series, uint64_t key) const {
  const Series* const found = FindSeries(series);
  if (found == nullptr) return nullptr;
  for (const BlobPoint& point : found->blobs.items()) {
    if (point.key == key) return &point;
  }
  return nullptr;
}

void EventStore::Note(std::string text) {
  if (notes_.size() >= kMostNotes || std::find(notes_.begin(), notes_.end(), text) != notes_.end()) return;
  notes_.push_back(std::move(text));
  ++generation_;
}

}  // namespace millrace::cli
