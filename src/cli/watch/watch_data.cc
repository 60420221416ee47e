// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/watch/watch_data.h"

#include <cmath>
#include <limits>

#include "cli/watch/page.h"
#include "display/graph/page.h"
#include "display/graph/scope_tree.h"
#include "display/page/page.h"
#include "display/tensor_text.h"
#include "display/text.h"
#include "millrace/json_writer.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace::cli {
namespace {

enum class Form {
  kLive,        // for the page: images and sounds by their addresses at the server
  kWhole,       // for the page: written out
  kForPrograms  // numbers that are not finite are null, images and sounds are left out
};

void WriteScalar(double value, Form form, JsonWriter* json) {
  if (std::isfinite(value) || form == Form::kForPrograms) {
    const bool is_float = std::abs(value) <= static_cast<double>(std::numeric_limits<float>::max());
    if (is_float) return WriteNumberJson(static_cast<float>(value), json);
    json->Value(value);
  } else {
    json->Value(std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity");
  }
}

template <typename Points, typename Write>
void Column(std::string_view name, const Points& points, const Write& write, JsonWriter* json) {
  json->Key(name).BeginArray();
  for (const auto& point : points) write(point);
  json->EndArray();
}

template <typename Points>
void WriteSteps(const Points& points, JsonWriter* json) {
  Column(
      "step", points, [&](const auto& p) { json->Value(p.step); }, json);
  Column(
      "time", points, [&](const auto& p) { json->Value(p.wall_time); }, json);
}

void WriteScalars(const std::vector<ScalarPoint>& points, Form form, JsonWriter* json) {
  WriteSteps(points, json);
  Column(
      "value", points, [&](const ScalarPoint& p) { WriteScalar(p.value, form, json); }, json);
}

void WriteHistograms(const std::vector<HistogramPoint>& points, JsonWriter* json) {
  WriteSteps(points, json);
  Column(
      "low", points, [&](const HistogramPoint& p) { json->Value(p.low); }, json);
  Column(
      "high", points, [&](const HistogramPoint& p) { json->Value(p.high); }, json);
  Column(
      "counts", points,
      [&](const HistogramPoint& p) {
        json->BeginArray();
        for (const float count : p.counts) WriteNumberJson(count, json);
        json->EndArray();
      },
      json);
}

void WriteBlobs(const Series& series, Form form, JsonWriter* json) {
  const std::vector<BlobPoint>& points = series.blobs.items();
  WriteSteps(points, json);
  if (series.kind == SeriesKind::kText) {
    Column(
        "text", points,
        [&](const BlobPoint& p) {
          if (form == Form::kForPrograms) return WriteBytesJson(p.bytes, json);
          json->Value(p.bytes);
        },
        json);
    return;
  }
  Column(
      "bytes", points, [&](const BlobPoint& p) { json->Value(p.bytes.size()); }, json);
  if (form == Form::kForPrograms) return;
  Column(
      "source", points,
      [&](const BlobPoint& p) {
        json->Value(form == Form::kWhole ? StrCat("data:", p.type, ";base64,", Base64(p.bytes))
                                         : StrCat("blob?series=", series.id, "&key=", p.key));
      },
      json);
}

void WriteSeries(const Series& series, Form form, JsonWriter* json) {
  json->Field("version", series.version);
  switch (series.kind) {
    case SeriesKind::kScalars:
      return WriteScalars(series.scalars.items(), form, json);
    case SeriesKind::kHistograms:
      return WriteHistograms(series.histograms.items(), json);
    default:
      return WriteBlobs(series, form, json);
  }
}

void WriteRun(const Run& run, JsonWriter* json) {
  json->Field("id", run.id).Field("name", run.name).Field("events", run.events);
  json->Field("first_time", run.first_time).Field("last_time", run.last_time);
  json->Field("last_step", run.last_step).Field("restarts", run.restarts).Field("purged", run.purged);
  json->Field("graph", run.graph_version);
}

std::string Fill(const std::string& title, const std::string& data) {
  const std::string script =
      StrCat(kWatchPageSourceScript, kWatchPageChartScript, kWatchPageCardsScript, kWatchPageMainScript);
  return WritePage({.title = title + " – runs",
                    .summary = "Curves, histograms, images, sounds, texts and graphs of training runs",
                    .body = kWatchPageHtml,
                    .style = kWatchPageStyle,
                    .script = script,
                    .data = data});
}

}  // namespace

std::string IndexJson(const EventWatcher& watcher) {
  const EventStore& store = watcher.store();
  JsonWriter json;
  json.BeginObject().Field("generation", store.generation()).Field("files", watcher.num_files());
  json.Field("bytes", watcher.bytes()).Field("bytes_read", watcher.bytes_read());
  json.Key("runs").BeginArray();
  for (const auto& [name, run] : store.runs()) {
    json.BeginObject();
    WriteRun(*run, &json);
    json.EndObject();
  }
  json.EndArray().Key("series").BeginArray();
  for (const auto& [name, run] : store.runs()) {
    for (const auto& [key, series] : run->series) {
      json.BeginObject().Field("id", series->id).Field("run", run->id).Field("version", series->version);
      json.Field("kind", SeriesKindName(series->kind))
          .Field("tag", series->tag)
          .Field("seen", series->seen());
      if (!series->description.empty()) json.Field("description", series->description);
      json.EndObject();
    }
  }
  json.EndArray().Key("notes").BeginArray();
  for (const std::string& note : store.notes()) json.Value(note);
  json.EndArray().EndObject();
  return std::move(json).text();
}

std::string SeriesJson(const EventStore& store, std::span<const uint64_t> ids, bool with_bytes) {
  JsonWriter json;
  json.BeginObject();
  for (const uint64_t id : ids) {
    const Series* const series = store.FindSeries(id);
    if (series == nullptr) continue;
    json.Key(std::to_string(id)).BeginObject();
    WriteSeries(*series, with_bytes ? Form::kWhole : Form::kLive, &json);
    json.EndObject();
  }
  json.EndObject();
  return std::move(json).text();
}

std::string AllJson(const EventWatcher& watcher) {
  JsonWriter json;
  json.BeginObject().Field("files", watcher.num_files()).Key("runs").BeginArray();
  for (const auto& [name, run] : watcher.store().runs()) {
    json.BeginObject();
    WriteRun(*run, &json);
    json.Key("series").BeginArray();
    for (const auto& [key, series] : run->series) {
      json.BeginObject().Field("kind", SeriesKindName(series->kind)).Field("tag", series->tag);
      json.Field("seen", series->seen());
      WriteSeries(*series, Form::kForPrograms, &json);
      json.EndObject();
    }
    json.EndArray().EndObject();
  }
  json.EndArray().Key("notes").BeginArray();
  for (const std::string& note : watcher.store().notes()) json.Value(note);
  json.EndArray().EndObject();
  return std::move(json).text();
}

StatusOr<std::string> GraphPage(const Run& run) {
  tensorflow::GraphDef graph;
  if (run.graph.empty()) return errors::NotFound("Run ", run.name, " has no graph");
  if (!graph.ParseFromString(run.graph))
    return errors::DataLoss("The graph of run ", run.name, " is malformed");
  return RenderGraphPage(BuildScopeTree(graph, kMostChildrenOfPage), graph, run.name);
}

std::string LivePage(const std::string& title) {
  JsonWriter json;
  json.BeginObject().Field("live", true).Field("title", title).EndObject();
  return Fill(title, StrCat("[", json.text(), "]"));
}

std::string WholePage(const EventWatcher& watcher, const std::string& title) {
  const EventStore& store = watcher.store();
  std::vector<uint64_t> ids;
  JsonWriter graphs;
  graphs.BeginObject();
  for (const auto& [name, run] : store.runs()) {
    for (const auto& [key, series] : run->series) ids.push_back(series->id);
    const auto page = GraphPage(*run);
    if (page.ok()) graphs.Field(std::to_string(run->id), *page);
  }
  graphs.EndObject();
  JsonWriter head;
  head.BeginObject().Field("live", false).Field("title", title).EndObject();
  const std::string data = StrCat("[", head.text(), ",", IndexJson(watcher), ",",
                                  SeriesJson(store, ids, true), ",", graphs.text(), "]");
  return Fill(title, data);
}

}  // namespace millrace::cli
