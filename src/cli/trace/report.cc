// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/trace/report.h"

#include <algorithm>
#include <utility>

#include "cli/trace/page.h"
#include "cli/trace/trace_reader.h"
#include "display/page/page.h"
#include "display/text.h"
#include "millrace/json_writer.h"

namespace millrace::cli {
namespace {

// The number of points of a memory curve in the page; each is the highest of its interval.
constexpr size_t kMostCurvePoints = 100'000;

template <typename Range, typename Get>
void Column(std::string_view name, const Range& range, const Get& get, JsonWriter& json) {
  json.Key(name).BeginArray();
  for (const auto& item : range) json.Value(get(item));
  json.EndArray();
}

void WriteTexts(std::string_view name, const StringPool& pool, JsonWriter& json) {
  json.Key(name).BeginArray();
  for (uint32_t i = 0; i < pool.size(); ++i) json.Value(pool[i]);
  json.EndArray();
}

void WriteTotals(const TraceReport& report, JsonWriter& json) {
  json.Key("totals").BeginArray();
  for (const OpTotal& t : report.totals) {
    json.BeginObject()
        .Field("op", report.trace.ops[t.op])
        .Field("count", t.count)
        .Field("total_ns", t.total_ns);
    json.Field("mean_ns", t.mean_ns).Field("longest_ns", t.longest_ns).Field("share", t.share).EndObject();
  }
  json.EndArray();
}

void WriteCurve(const MemoryCurve& curve, JsonWriter& json) {
  const size_t stride = (curve.ns.size() + kMostCurvePoints - 1) / kMostCurvePoints;
  std::vector<size_t> shown;
  for (size_t i = 0; stride > 0 && i < curve.ns.size(); i += stride) {
    const auto begin = curve.bytes.begin() + static_cast<ptrdiff_t>(i);
    const auto end = curve.bytes.begin() + static_cast<ptrdiff_t>(std::min(i + stride, curve.bytes.size()));
    shown.push_back(static_cast<size_t>(std::max_element(begin, end) - curve.bytes.begin()));
  }
  json.BeginObject().Field("name", curve.name).Field("origin", curve.origin);
  json.Field("peak_bytes", curve.peak_bytes).Field("peak_ns", curve.peak_ns);
  Column(
      "ns", shown, [&](size_t i) { return curve.ns[i]; }, json);
  Column(
      "bytes", shown, [&](size_t i) { return curve.bytes[i]; }, json);
  json.EndObject();
}

void WriteEvents(const std::vector<TraceEvent>& events, JsonWriter& json) {
  json.Key("events").BeginObject();
  Column(
      "node", events, [](const TraceEvent& e) { return e.node; }, json);
  Column(
      "row", events, [](const TraceEvent& e) { return e.row; }, json);
  Column(
      "start", events, [](const TraceEvent& e) { return e.start_ns; }, json);
  Column(
      "took", events, [](const TraceEvent& e) { return e.duration_ns(); }, json);
  Column(
      "waited", events, [](const TraceEvent& e) { return e.waited_ns; }, json);
  Column(
      "shapes", events, [](const TraceEvent& e) { return e.shapes; }, json);
  Column(
      "output", events, [](const TraceEvent& e) { return e.output_bytes; }, json);
  Column(
      "requested", events, [](const TraceEvent& e) { return e.requested_bytes; }, json);
  Column(
      "peak", events, [](const TraceEvent& e) { return e.peak_bytes; }, json);
  json.EndObject();
}

void WriteFigures(const TraceReport& report, JsonWriter& json) {
  json.Field("source", report.source).Field("events_count", report.trace.events.size());
  json.Field("length_ns", report.trace.length_ns).Field("resolution_ns", report.trace.resolution_ns);
  json.Field("nodes_count", report.trace.nodes.size()).Field("events_in_graph", report.events_in_graph);
}

}  // namespace

StatusOr<TraceReport> MakeTraceReport(std::string_view run_metadata, std::string_view graph_file,
                                      std::string source) {
  TraceReport report;
  report.source = std::move(source);
  MR_ASSIGN_OR_RETURN(report.trace, ReadTrace(run_metadata));
  report.totals = TotalsByOp(report.trace);
  DependencyGraph graph;
  MR_RETURN_IF_ERROR(ReadPartitionGraphs(run_metadata, &graph));
  std::string origin = "partition graphs of the trace";
  if (graph.empty() && !graph_file.empty()) {
    MR_RETURN_IF_ERROR(ReadGraphFile(graph_file, &graph));
    origin = "graph file";
  }
  if (graph.empty()) {
    graph = GraphOfLabels(report.trace);
    origin = "inputs named by the labels of the nodes";
  }
  const EventDependencies dependencies = FindEventDependencies(report.trace, graph);
  const bool usable = !dependencies.predecessors.empty();
  report.events_in_graph = usable ? dependencies.events_in_graph : 0;
  if (usable) {
    report.path = FindCriticalPath(report.trace, dependencies);
    report.path.origin = std::move(origin);
    if (!dependencies.complete) report.path.origin += " (cut short: the graph is too large)";
  } else {
    report.path = GuessCriticalPath(report.trace);
  }
  report.memory = MemoryCurves(report.trace, usable ? &dependencies : nullptr);
  return report;
}

std::string PageData(const TraceReport& report) {
  const Trace& trace = report.trace;
  JsonWriter json;
  json.BeginObject();
  WriteFigures(report, json);
  Column(
      "devices", trace.devices, [](const std::string& d) { return std::string_view(d); }, json);
  json.Key("rows").BeginArray();
  for (const TraceRow& row : trace.rows) {
    json.BeginObject().Field("device", row.device).Field("thread", row.thread).Field("part", row.part);
    json.Field("name", row.name).EndObject();
  }
  json.EndArray();
  WriteTexts("ops", trace.ops, json);
  WriteTexts("shapes", trace.shapes, json);
  json.Key("nodes").BeginObject();
  Column(
      "name", trace.nodes, [](const TraceNode& n) { return std::string_view(n.name); }, json);
  Column(
      "op", trace.nodes, [](const TraceNode& n) { return n.op; }, json);
  Column(
      "inputs", trace.nodes, [](const TraceNode& n) { return std::string_view(n.inputs); }, json);
  json.EndObject();
  WriteEvents(trace.events, json);
  json.Key("path").BeginObject().Field("origin", report.path.origin).Field("busy_ns", report.path.busy_ns);
  json.Field("by_time_only", report.path.by_time_only);
  Column(
      "events", report.path.events, [](uint32_t e) { return e; }, json);
  json.EndObject();
  json.Key("memory").BeginArray();
  for (const MemoryCurve& curve : report.memory) WriteCurve(curve, json);
  json.EndArray();
  WriteTotals(report, json);
  json.EndObject();
  return std::move(json).text();
}

std::string SummaryJson(const TraceReport& report) {
  const Trace& trace = report.trace;
  JsonWriter json;
  json.BeginObject();
  WriteFigures(report, json);
  Column(
      "devices", trace.devices, [](const std::string& d) { return std::string_view(d); }, json);
  json.Key("critical_path").BeginObject();
  json.Field("origin", report.path.origin).Field("busy_ns", report.path.busy_ns);
  json.Field("events", report.path.events.size());
  Column(
      "nodes", report.path.events,
      [&](uint32_t e) { return std::string_view(trace.nodes[trace.events[e].node].name); }, json);
  json.EndObject();
  json.Key("memory").BeginArray();
  for (const MemoryCurve& curve : report.memory) {
    json.BeginObject().Field("name", curve.name).Field("origin", curve.origin);
    json.Field("peak_bytes", curve.peak_bytes).Field("peak_ns", curve.peak_ns).EndObject();
  }
  json.EndArray();
  WriteTotals(report, json);
  json.EndObject();
  return std::move(json).text();
}

std::string RenderPage(const TraceReport& report) {
  const std::string title = report.source + " – step timeline";
  const std::string summary =
      StrCat(CountOf(report.trace.events.size(), "event"), " in ", report.trace.length_ns / 1000, " µs on ",
             CountOf(report.trace.devices.size(), "device"));
  const std::string data = PageData(report);
  const std::string script = StrCat(kPageModelScript, kPageTimelineScript, kPageTablesScript);
  return WritePage({.title = title,
                    .summary = summary,
                    .body = kPageHtml,
                    .style = kPageStyle,
                    .script = script,
                    .data = data});
}

}  // namespace millrace::cli
