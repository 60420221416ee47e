// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// millrace run: one step of a model.
#include <chrono>
#include <limits>
#include <map>
#include <memory>

#include "cli/commands.h"
#include "cli/model_session.h"
#include "cli/options.h"
#include "cli/tensor_file.h"
#include "display/tensor_text.h"
#include "display/text.h"

namespace millrace::cli {
namespace {

struct RunOneOptions {
  ModelOptions model;
  std::string output;
  std::string trace;
  bool all = false;
  double timeout = 0;
};

constexpr int64_t kMostJsonElements = 1000;

void PrintOutputs(const RunOneOptions& options, const ModelStep& step, const std::vector<Tensor>& outputs,
                  std::ostream& out) {
  TensorTextOptions text;
  if (options.all) text.most_elements = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i < outputs.size(); ++i) {
    out << Printable(step.labels[i]) << ": " << TypeAndShape(outputs[i].dtype(), outputs[i].shape()) << "\n"
        << TensorText(outputs[i], text) << "\n";
  }
}

void PrintJson(const RunOneOptions& options, const ModelStep& step, const std::vector<Tensor>& outputs,
               double seconds, const Context& context) {
  JsonWriter json;
  json.BeginObject().Key("outputs").BeginObject();
  for (size_t i = 0; i < outputs.size(); ++i) {
    json.Key(step.labels[i]);
    WriteTensorJson(outputs[i], options.all ? std::numeric_limits<int64_t>::max() : kMostJsonElements, &json);
  }
  json.EndObject().Field("seconds", seconds);
  if (!options.output.empty()) json.Field("output", options.output);
  if (!options.trace.empty()) json.Field("trace", options.trace);
  json.EndObject();
  context.Print(json);
}

StatusOr<ExitCode> RunOne(const RunOneOptions& options, const Context& context) {
  if (!options.output.empty() && !IsTensorFile(options.output)) {
    return context.Usage(StrCat(options.output, " ends with neither .npy nor .npz"));
  }
  MR_ASSIGN_OR_RETURN(const LoadedModel model, LoadModel(options.model, context.env));
  MR_ASSIGN_OR_RETURN(const ModelStep step, MakeStep(options.model, model.file, false, context.env));
  RunOptions run;
  run.timeout_in_ms = static_cast<int64_t>(options.timeout * 1000);
  if (!options.trace.empty()) run.trace_level = RunOptions::TraceLevel::kFull;
  run.output_partition_graphs = !options.trace.empty();
  std::vector<Tensor> outputs;
  RunMetadata metadata;
  const auto start = std::chrono::steady_clock::now();
  MR_RETURN_IF_ERROR(model.session->Run(run, step.feeds, step.fetches, step.targets, &outputs,
                                        options.trace.empty() ? nullptr : &metadata));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  if (!options.trace.empty()) {
    MR_RETURN_IF_ERROR(WriteFileAtomically(context.env, options.trace, metadata.SerializeAsString()));
  }
  if (!options.output.empty()) {
    std::map<std::string, Tensor> tensors;
    for (size_t i = 0; i < outputs.size(); ++i) tensors[step.labels[i]] = outputs[i];
    MR_RETURN_IF_ERROR(WriteTensors(context.env, options.output, tensors));
  }
  if (context.json) {
    PrintJson(options, step, outputs, took.count(), context);
  } else {
    if (options.output.empty()) PrintOutputs(options, step, outputs, context.out);
    if (!options.output.empty()) {
      context.out << Printable(options.output) << ": " << outputs.size() << " tensors\n";
    }
    if (!options.trace.empty()) context.out << "trace: " << Printable(options.trace) << "\n";
  }
  return ExitCode::kOk;
}

}  // namespace

void AddRunCommand(Commands* commands) {
  const auto options = std::make_shared<RunOneOptions>();
  const Command command =
      commands->Add("run", "Run a model once and show the results",
                    [options](const Context& context) { return RunOne(*options, context); });
  AddModelOptions(&options->model, command);
  AddRunOptions(&options->model, command);
  command.AddOption("-o,--out", options->output, "Write the results to an .npy or .npz file")
      .TypeName("FILE");
  command.AddFlag("--all", options->all, "Show all elements, however many");
  command.AddOption("--trace", options->trace, "Write a trace of the step, for millrace trace")
      .TypeName("FILE");
  command.AddOption("--timeout", options->timeout, "Timeout of the step in seconds; 0: none")
      .Check(Between(0.0, 1e9));
}

}  // namespace millrace::cli
