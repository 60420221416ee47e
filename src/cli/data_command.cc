// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// millrace data: the elements of an input pipeline, its speed, and its slowest stage.
#include <cmath>
#include <memory>

#include "base/strings.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/pipeline.h"
#include "display/tensor_text.h"
#include "display/text.h"

namespace millrace::cli {
namespace {

using data::Dataset;
using data::PipelineMonitor;

struct DataOptions {
  ModelOptions model;
  std::string node;
  PipelineLimits limits = {.shown = 3, .seconds = 3};
};

constexpr int64_t kMostJsonElements = 1000;

// Data about a pipeline other than the elements that were read.
struct Verdict {
  std::vector<double> delays;
  int bottleneck = -1;
};

double PerSecond(int64_t elements, double seconds) {
  return seconds > 0 ? static_cast<double>(elements) / seconds : 0;
}

std::string CardinalityText(int64_t cardinality) {
  if (cardinality == Dataset::kInfinite) return "without an end";
  if (cardinality == Dataset::kUnknown) return "how many is not known";
  return CountOf(static_cast<uint64_t>(cardinality), "element");
}

void PrintElements(const PipelineRun& run, std::ostream& out) {
  for (size_t i = 0; i < run.shown.size(); ++i) {
    out << "element " << i << "\n";
    for (const Tensor& component : run.shown[i]) {
      out << TypeAndShape(component.dtype(), component.shape()) << "\n" << TensorText(component) << "\n";
    }
  }
}

std::string StageText(const PipelineMonitor::Stage& stage) {
  return stage.node.empty() ? stage.kind : StrCat(stage.kind, " ", stage.node);
}

// Rows against the direction of the data: a stage, followed by its inputs.
void AddRows(const PipelineRun& run, const Verdict& verdict, int reader, size_t depth, TextTable* table) {
  for (size_t i = 0; i < run.stages.size(); ++i) {
    const PipelineMonitor::Stage& s = run.stages[i];
    if (s.reader != reader) continue;
    const auto each = [&s](double seconds) {
      return s.elements == 0 ? "" : DurationText(seconds / static_cast<double>(s.elements));
    };
    std::string buffer;
    if (s.capacity > 0) {
      buffer = StrCat(ShortCount(s.fill), "/", CountText(static_cast<uint64_t>(s.capacity)));
    }
    const double part = run.seconds > 0 ? 100 * verdict.delays[i] / run.seconds : 0;
    table->AddRow({std::string(2 * depth, ' ') + StageText(s), CountText(static_cast<uint64_t>(s.elements)),
                   ShortCount(PerSecond(s.elements, run.seconds)), each(s.own), each(s.input + s.waited),
                   buffer, StrCat(std::lround(part), " %")});
    AddRows(run, verdict, static_cast<int>(i), depth + 1, table);
  }
}

void Print(const PipelineChoice& choice, const PipelineRun& run, const Verdict& verdict, std::ostream& out) {
  out << Printable(choice.node) << ": ";
  for (size_t i = 0; i < run.signature.types.size(); ++i) {
    out << (i == 0 ? "" : ", ") << DataTypeName(run.signature.types[i]) << " " << run.signature.shapes[i];
  }
  out << "; " << CardinalityText(run.cardinality) << "\n";
  PrintElements(run, out);
  out << CountOf(static_cast<uint64_t>(run.elements), "element") << " in " << DurationText(run.seconds)
      << ", the first after " << DurationText(run.first) << ": "
      << ShortCount(PerSecond(run.elements, run.seconds)) << " a second"
      << (run.ended ? "; the end was reached" : "") << "\n";
  using Align = TextTable::Align;
  TextTable table({{"stage", Align::kLeft},
                   {"elements", Align::kRight},
                   {"a second", Align::kRight},
                   {"own", Align::kRight},
                   {"wait", Align::kRight},
                   {"buffer", Align::kRight},
                   {"delay", Align::kRight}});
  AddRows(run, verdict, -1, 0, &table);
  out << table.ToString();
  if (verdict.bottleneck < 0) return;
  out << "bottleneck: " << Printable(StageText(run.stages[static_cast<size_t>(verdict.bottleneck)])) << "\n";
}

void WriteStageJson(const PipelineRun& run, size_t i, const Verdict& verdict, JsonWriter* json) {
  const PipelineMonitor::Stage& s = run.stages[i];
  json->BeginObject().Field("kind", s.kind).Field("node", s.node).Field("reader", s.reader);
  json->Field("elements", s.elements).Field("elements_per_s", PerSecond(s.elements, run.seconds));
  json->Field("own_s", s.own).Field("input_s", s.input).Field("wait_s", s.waited);
  json->Field("ahead_s", s.ahead).Field("delay_s", verdict.delays[i]);
  if (s.capacity > 0) {
    json->Key("buffer").BeginObject().Field("mean", s.fill).Field("size", s.capacity).EndObject();
  }
  json->EndObject();
}

void WriteJson(const PipelineChoice& choice, const PipelineRun& run, const Verdict& verdict,
               const Context& context) {
  JsonWriter json;
  json.BeginObject().Field("node", choice.node).Key("components").BeginArray();
  for (size_t i = 0; i < run.signature.types.size(); ++i) {
    json.BeginObject().Field("dtype", DataTypeName(run.signature.types[i]));
    json.Field("shape", StrCat(run.signature.shapes[i])).EndObject();
  }
  json.EndArray().Field("cardinality", run.cardinality).Key("shown").BeginArray();
  for (const data::Element& element : run.shown) {
    json.BeginArray();
    for (const Tensor& component : element) WriteTensorJson(component, kMostJsonElements, &json);
    json.EndArray();
  }
  json.EndArray().Field("elements", run.elements).Field("seconds", run.seconds);
  json.Field("first_s", run.first).Field("elements_per_s", PerSecond(run.elements, run.seconds));
  json.Field("ended", run.ended).Key("stages").BeginArray();
  for (size_t i = 0; i < run.stages.size(); ++i) WriteStageJson(run, i, verdict, &json);
  json.EndArray().Field("bottleneck", verdict.bottleneck).EndObject();
  context.Print(json);
}

StatusOr<ExitCode> RunData(const DataOptions& options, const Context& context) {
  MR_ASSIGN_OR_RETURN(const LoadedModel model, LoadModel(options.model, context.env));
  MR_ASSIGN_OR_RETURN(const PipelineChoice choice, ChoosePipeline(model.file.graph(), options.node));
  ModelOptions step_options = options.model;
  step_options.fetches = {choice.node};
  MR_ASSIGN_OR_RETURN(const ModelStep step, MakeStep(step_options, model.file, false, context.env));
  MR_ASSIGN_OR_RETURN(const PipelineRun run,
                      ReadPipeline(*model.session, choice, step.feeds, options.limits));
  Verdict verdict;
  verdict.delays = PipelineMonitor::Delays(run.stages);
  verdict.bottleneck = PipelineMonitor::Bottleneck(verdict.delays);
  if (context.json) {
    WriteJson(choice, run, verdict, context);
  } else {
    Print(choice, run, verdict, context.out);
  }
  return ExitCode::kOk;
}

}  // namespace

void AddDataCommand(Commands* commands) {
  const auto options = std::make_shared<DataOptions>();
  const Command command =
      commands->Add("data", "Read an input pipeline, measure its stages and name the slowest",
                    [options](const Context& context) { return RunData(*options, context); });
  AddModelOptions(&options->model, command);
  AddFeedOption(&options->model, command);
  AddThreadOptions(&options->model, command);
  command.AddOption("--node", options->node,
                    "The dataset, or an op that starts or reads its iterator; default: the only one");
  command.AddOption("--show", options->limits.shown, "Number of elements to show")
      .Check(Between(0, 1 << 20))
      .ShowDefault();
  command.AddOption("--elements", options->limits.elements, "Number of elements to read at most")
      .Check(NotNegative());
  command.AddOption("--seconds", options->limits.seconds, "Seconds to read at most")
      .Check(Between(0.0, 86400.0))
      .ShowDefault();
  command.AddOption("--timeout", options->limits.timeout, "Timeout in seconds; 0: none")
      .Check(Between(0.0, 1e9));
}

}  // namespace millrace::cli
