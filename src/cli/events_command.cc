// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// millrace events: the contents of event files of TensorBoard.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "cli/commands.h"
#include "cli/event_files.h"
#include "cli/events_plot.h"
#include "cli/options.h"
#include "display/tensor_text.h"
#include "display/text.h"
#include "io/event_file.h"
#include "io/match_files.h"
#include "millrace/tensor.h"
#include "tensorflow/core/util/event.pb.h"

namespace millrace::cli {
namespace {

struct EventsOptions {
  std::vector<std::string> paths;
  std::vector<std::string> tags;
  std::string plot;
  bool points = false;
  PlotOptions style;
};

std::string KindOf(const tensorflow::Summary::Value& value) {
  using Value = tensorflow::Summary::Value;
  double scalar = 0;
  if (ScalarOf(value, &scalar)) return "scalars";
  switch (value.value_case()) {
    case Value::kHisto:
      return "histograms";
    case Value::kImage:
      return "images";
    case Value::kAudio:
      return "audio";
    case Value::kTensor: {
      const std::string& plugin = value.metadata().plugin_data().plugin_name();
      return plugin.empty() ? "tensors" : plugin;
    }
    default:
      return "others";
  }
}

// Calls `visit` for each event of a file. The last record of a file that is being written may be cut off:
// this is a warning. Other errors are those of the file.
template <typename Visit>
Status ForEachEvent(const Context& context, const std::string& path, const Visit& visit) {
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<io::EventReader> reader,
                      io::EventReader::Open(context.env, path));
  Progress progress(context, StrCat("reading ", path), 0, "events");
  tensorflow::Event event;
  for (uint64_t n = 0;; ++n) {
    const Status status = reader->Read(&event);
    if (errors::IsOutOfRange(status)) return Status();
    if (!status.ok() && status.message().starts_with("truncated record")) {
      context.Warn(StrCat(status.message(), "; the events before it are shown"));
      return Status();
    }
    MR_RETURN_IF_ERROR(status);
    visit(event);
    progress.Set(n);
  }
}

struct Contents {
  EventFile file;
  uint64_t events = 0;
  double first_time = 0, last_time = 0;
  int64_t first_step = 0, last_step = 0;
  std::map<std::string, std::set<std::string>> tags;  // by kind
  std::map<std::string, uint64_t> others;             // "graphs", …
  Status status;
};

void Count(const tensorflow::Event& event, Contents* contents) {
  using tensorflow::Event;
  if (contents->events == 0) {
    contents->first_time = event.wall_time(), contents->first_step = event.step();
    contents->last_step = event.step();
  }
  ++contents->events;
  contents->last_time = event.wall_time();
  contents->last_step = std::max<int64_t>(contents->last_step, event.step());
  switch (event.what_case()) {
    case Event::kSummary:
      for (const auto& value : event.summary().value()) {
        contents->tags[KindOf(value)].insert(value.tag());
      }
      break;
    case Event::kGraphDef:
      ++contents->others["graphs"];
      break;
    case Event::kMetaGraphDef:
      ++contents->others["meta graphs"];
      break;
    case Event::kTaggedRunMetadata:
      ++contents->others["traces"];
      break;
    case Event::kSessionLog:
      ++contents->others["session logs"];
      break;
    case Event::kLogMessage:
      ++contents->others["messages"];
      break;
    default:
      break;
  }
}

void WriteContentsJson(const Contents& contents, JsonWriter* json) {
  json->BeginObject().Field("path", contents.file.path).Field("run", contents.file.run);
  json->Field("events", contents.events).Field("first_time", contents.first_time);
  json->Field("last_time", contents.last_time).Field("first_step", contents.first_step);
  json->Field("last_step", contents.last_step).Key("tags").BeginObject();
  for (const auto& [kind, tags] : contents.tags) {
    json->Key(kind).BeginArray();
    for (const std::string& tag : tags) json->Value(tag);
    json->EndArray();
  }
  json->EndObject().Key("others").BeginObject();
  for (const auto& [what, n] : contents.others) json->Field(what, n);
  json->EndObject();
  if (!contents.status.ok()) {
    json->Key("error").BeginObject().Field("code", ErrorCodeName(contents.status.code()));
    json->Field("message", contents.status.message()).EndObject();
  }
  json->EndObject();
}

void PrintContents(const Contents& c, std::ostream& out) {
  out << Printable(c.file.path) << "\n  " << CountOf(c.events, "event");
  if (c.events > 0) {
    out << ", steps " << c.first_step << " to " << c.last_step;
    // Times outside of the calendar's range are left out.
    if (std::isfinite(c.first_time) && std::isfinite(c.last_time))
      out << ", " << TimeText(c.first_time) << " to " << TimeText(c.last_time) << " UTC";
  }
  out << "\n";
  constexpr size_t kMostShown = 20;
  for (const auto& [kind, tags] : c.tags) {
    out << "  " << Printable(kind) << " (" << tags.size() << "):";
    size_t shown = 0;
    for (const std::string& tag : tags) {
      if (++shown > kMostShown) break;
      out << " " << Printable(tag);
    }
    out << (tags.size() > kMostShown ? " …\n" : "\n");
  }
  for (const auto& [what, n] : c.others) out << "  " << what << ": " << n << "\n";
}

StatusOr<std::vector<EventFile>> FilesOf(const EventsOptions& options, Env& env) {
  MR_ASSIGN_OR_RETURN(std::vector<EventFile> files, CollectEventFiles(env, options.paths));
  if (files.empty()) return errors::NotFound(options.paths.front(), "; there are no event files in it");
  return files;
}

StatusOr<ExitCode> List(const EventsOptions& options, const Context& context) {
  MR_ASSIGN_OR_RETURN(const std::vector<EventFile> files, FilesOf(options, context.env));
  bool all_ok = true;
  JsonWriter json;
  json.BeginObject().Key("files").BeginArray();
  for (const EventFile& file : files) {
    Contents contents;
    contents.file = file;
    contents.status =
        ForEachEvent(context, file.path, [&](const tensorflow::Event& event) { Count(event, &contents); });
    all_ok = all_ok && contents.status.ok();
    if (context.json) {
      WriteContentsJson(contents, &json);
    } else {
      PrintContents(contents, context.out);
      if (!contents.status.ok()) context.ReportError(contents.status);
    }
  }
  json.EndArray().EndObject();
  if (context.json) context.Print(json);
  return all_ok ? ExitCode::kOk : ExitCode::kFailed;
}

bool Wanted(const EventsOptions& options, const std::string& tag) {
  return options.tags.empty() ||
         std::any_of(options.tags.begin(), options.tags.end(),
                     [&](const std::string& pattern) { return io::MatchesPattern(pattern, tag); });
}

struct ScalarsOfAll {
  std::vector<ScalarSeries> series;
  Status status;  // of the first file that is broken
};

ScalarsOfAll ReadScalars(const EventsOptions& options, const std::vector<EventFile>& files,
                         const Context& context) {
  std::map<std::pair<std::string, std::string>, std::vector<ScalarPoint>> points;  // by tag and run
  ScalarsOfAll result;
  for (const EventFile& file : files) {
    result.status.Update(ForEachEvent(context, file.path, [&](const tensorflow::Event& event) {
      for (const auto& value : event.summary().value()) {
        double scalar = 0;
        if (!Wanted(options, value.tag()) || !ScalarOf(value, &scalar)) continue;
        points[{value.tag(), file.run}].push_back({event.step(), event.wall_time(), scalar});
      }
    }));
  }
  for (auto& [key, of_key] : points) {
    std::stable_sort(of_key.begin(), of_key.end(),
                     [](const ScalarPoint& a, const ScalarPoint& b) { return a.step < b.step; });
    result.series.push_back({key.first, key.second, std::move(of_key)});
  }
  return result;
}

void WriteScalarsJson(const std::vector<ScalarSeries>& series, const Context& context) {
  JsonWriter json;
  json.BeginObject().Key("scalars").BeginArray();
  for (const ScalarSeries& s : series) {
    json.BeginObject().Field("tag", s.tag).Field("run", s.run).Key("points").BeginArray();
    for (const ScalarPoint& p : s.points) {
      json.BeginArray().Value(p.step).Value(p.wall_time);
      WriteNumberJson(static_cast<float>(p.value), &json);
      json.EndArray();
    }
    json.EndArray().EndObject();
  }
  json.EndArray().EndObject();
  context.Print(json);
}

std::string ValueText(double value) { return TensorText(Tensor::Scalar(static_cast<float>(value))); }

void PrintScalars(const EventsOptions& options, const std::vector<ScalarSeries>& series, std::ostream& out) {
  using enum TextTable::Align;
  if (options.points) {
    TextTable table({{"tag", kLeft}, {"run", kLeft}, {"step", kRight}, {"time", kLeft}, {"value", kLeft}});
    for (const ScalarSeries& s : series) {
      for (const ScalarPoint& p : s.points) {
        table.AddRow({s.tag, s.run, std::to_string(p.step), TimeText(p.wall_time), ValueText(p.value)});
      }
    }
    out << table.ToString();
    return;
  }
  TextTable table({{"tag", kLeft},
                   {"run", kLeft},
                   {"points", kRight},
                   {"last step", kRight},
                   {"first", kLeft},
                   {"last", kLeft},
                   {"least", kLeft},
                   {"most", kLeft}});
  for (const ScalarSeries& s : series) {
    double least = std::numeric_limits<double>::infinity(), most = -least;
    for (const ScalarPoint& p : s.points) {
      if (std::isfinite(p.value)) least = std::min(least, p.value), most = std::max(most, p.value);
    }
    table.AddRow({s.tag, s.run, CountText(s.points.size()), std::to_string(s.points.back().step),
                  ValueText(s.points.front().value), ValueText(s.points.back().value),
                  least > most ? "nan" : ValueText(least), least > most ? "nan" : ValueText(most)});
  }
  out << table.ToString();
}

StatusOr<ExitCode> Scalars(const EventsOptions& options, const Context& context) {
  MR_ASSIGN_OR_RETURN(const std::vector<EventFile> files, FilesOf(options, context.env));
  const ScalarsOfAll scalars = ReadScalars(options, files, context);
  if (scalars.series.empty()) {
    MR_RETURN_IF_ERROR(scalars.status);
    return errors::NotFound(options.paths.front(), "; there are no ", options.tags.empty() ? "" : "such ",
                            "scalars in it");
  }
  if (!options.plot.empty()) {
    MR_RETURN_IF_ERROR(
        WriteFileAtomically(context.env, options.plot, PlotScalars(scalars.series, options.style)));
  }
  if (context.json) {
    WriteScalarsJson(scalars.series, context);
  } else {
    PrintScalars(options, scalars.series, context.out);
    if (!options.plot.empty()) context.out << "plot: " << Printable(options.plot) << "\n";
  }
  if (scalars.status.ok()) return ExitCode::kOk;
  if (!context.json) context.ReportError(scalars.status);
  return ExitCode::kFailed;
}

}  // namespace

void AddEventsCommand(Commands* commands) {
  const Command group = commands->Group("events", "Show the event files of TensorBoard");
  const auto options = std::make_shared<EventsOptions>();
  const auto add_paths = [&](const Command& command) {
    command.AddOption("paths", options->paths, "Event files, and folders to search for them")
        .Required()
        .TypeName("PATH");
  };
  add_paths(commands->Add(
      "ls", "List the contents of the files",
      [options](const Context& context) { return List(*options, context); }, group));
  const Command scalars = commands->Add(
      "scalars", "Show and plot the scalars, by tag and run (the folder of the file)",
      [options](const Context& context) { return Scalars(*options, context); }, group);
  add_paths(scalars);
  scalars.AddOption("--tag", options->tags, "Only tags that match this pattern (* ? [a-z]); may be repeated")
      .OneWordEach();
  scalars.AddFlag("--points", options->points, "Each point, not a summary of each tag");
  scalars.AddOption("--plot", options->plot, "Draw them into this SVG file").TypeName("FILE");
  scalars.AddOption("--smooth", options->style.smoothing, "Smoothing of the curves, from 0 to below 1")
      .Check(Between(0.0, 0.9999));
  scalars.AddFlag("--log", options->style.log_scale, "Logarithmic scale; values up to 0 are left out");
}

}  // namespace millrace::cli
