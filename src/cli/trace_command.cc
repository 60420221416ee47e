// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/trace_command.h"

#include <memory>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/trace/report.h"
#include "display/text.h"

namespace millrace::cli {
namespace {

// A larger page could not be shown by a browser either.
constexpr uint64_t kMostFileBytes = uint64_t{2} << 30;

// "a/step.html" for "a/step.pb".
std::string PageBeside(const std::string& input) {
  const size_t dot = input.rfind('.');
  const bool has_extension = dot != std::string::npos && input.find('/', dot) == std::string::npos && dot > 0;
  return (has_extension ? input.substr(0, dot) : input) + ".html";
}

StatusOr<ExitCode> WriteTimeline(TraceOptions options, const Context& context) {
  if (options.output.empty() && options.run_metadata == "-") {
    return context.Usage("a trace from standard input has no place for its page; name one with -o");
  }
  if (options.output.empty()) options.output = PageBeside(options.run_metadata);
  if (options.output == options.run_metadata) {
    return context.Usage(StrCat("the page would replace ", options.run_metadata, "; name another with -o"));
  }
  MR_ASSIGN_OR_RETURN(const std::string summary, RunTrace(context.env, options));
  context.out << (context.json ? summary : "timeline: " + Printable(options.output)) << "\n";
  return ExitCode::kOk;
}

}  // namespace

StatusOr<std::string> RunTrace(Env& env, const TraceOptions& options) {
  MR_ASSIGN_OR_RETURN(const std::string run_metadata,
                      ReadFileToString(env, options.run_metadata, kMostFileBytes));
  std::string graph;
  if (!options.graph.empty()) {
    MR_ASSIGN_OR_RETURN(graph, ReadFileToString(env, options.graph, kMostFileBytes));
    if (graph.empty()) return errors::InvalidArgument(options.graph, "; a graph without nodes");
  }
  const std::string name = options.run_metadata.substr(options.run_metadata.rfind('/') + 1);
  auto report = MakeTraceReport(run_metadata, graph, name);
  if (!report.ok()) return report.status().WithContext(StrCat(" (reading ", options.run_metadata, ")"));
  MR_RETURN_IF_ERROR(WriteFileAtomically(env, options.output, RenderPage(*report)));
  return SummaryJson(*report);
}

void AddTraceCommand(Commands* commands) {
  const auto options = std::make_shared<TraceOptions>();
  const Command command =
      commands->Add("trace", "Turn the RunMetadata of a traced step into a timeline",
                    [options](const Context& context) { return WriteTimeline(*options, context); });
  command.AddOption("run_metadata", options->run_metadata, "Serialised RunMetadata, ours or TensorFlow's")
      .Required()
      .TypeName("FILE");
  command
      .AddOption(
          "--graph", options->graph,
          "GraphDef (serialised or text) for the critical path, when the trace has no partition graphs")
      .TypeName("FILE");
  command.AddOption("-o,--output", options->output, "The page to write; else the input's name with .html")
      .TypeName("FILE");
}

}  // namespace millrace::cli
