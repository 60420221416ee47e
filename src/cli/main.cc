// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// The program `millrace`: a command for each thing that can be done with a file.
#include <google/protobuf/stubs/logging.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "base/json_writer.h"
#include "cli/trace_command.h"

namespace millrace::cli {
namespace {

// With --json an error is an object on standard output, too: {"error": {"code": …, "message": …}}.
int Finish(const StatusOr<std::string>& summary, bool json, const std::string& done) {
  if (summary.ok()) {
    std::printf("%s\n", (json ? *summary : done).c_str());
    return 0;
  }
  if (json) {
    JsonWriter error;
    error.BeginObject().Key("error").BeginObject();
    error.Field("code", ErrorCodeName(summary.status().code()));
    error.Field("message", summary.status().message());
    error.EndObject().EndObject();
    std::printf("%s\n", error.text().c_str());
  } else {
    std::fprintf(stderr, "millrace: %s\n", summary.status().ToString().c_str());
  }
  return 1;
}

int Main(int argc, char** argv) {
  google::protobuf::SetLogHandler(nullptr);  // what is wrong with a message is told once, by us
  CLI::App app("Tools for graphs and for what running them leaves behind.", "millrace");
  app.require_subcommand(1);
  TraceOptions trace;
  bool json = false;
  CLI::App* const command =
      app.add_subcommand("trace", "Turns the RunMetadata of a traced step into a timeline");
  command->add_option("run_metadata", trace.run_metadata, "Serialised RunMetadata, ours or TensorFlow's")
      ->required();
  command->add_option(
      "--graph", trace.graph,
      "GraphDef (serialised or text) for the critical path, when the trace has no partition graphs");
  command->add_option("-o,--output", trace.output, "The page to write; else the input's name with .html");
  command->add_flag("--json", json, "Print the figures, and errors, as JSON");
  CLI11_PARSE(app, argc, argv);
  if (trace.output.empty()) {
    const std::string& input = trace.run_metadata;
    const size_t dot = input.rfind('.');
    const bool has_extension =
        dot != std::string::npos && input.find('/', dot) == std::string::npos && dot > 0;
    trace.output = (has_extension ? input.substr(0, dot) : input) + ".html";
  }
  if (trace.output == trace.run_metadata) {
    return Finish(
        errors::InvalidArgument("the page would replace ", trace.run_metadata, "; name another with -o"),
        json, "");
  }
  return Finish(RunTrace(Env::Posix(), trace), json, "timeline: " + trace.output);
}

}  // namespace
}  // namespace millrace::cli

int main(int argc, char** argv) { return millrace::cli::Main(argc, argv); }
