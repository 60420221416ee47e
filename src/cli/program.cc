// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/program.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <new>
#include <sstream>

#include "cli/commands.h"
#include "cli/suggestion.h"

namespace millrace::cli {
namespace {

// The command that the words name, if any: for the hint at its help.
std::string CommandName(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app.get_name() : StrCat(app.get_name(), " ", CommandName(*chosen.front()));
}

// Help and version go to standard output and are no error.
ExitCode Refuse(const CLI::App& app, const std::vector<std::string>& args, const CLI::ParseError& error,
                const Context& context) {
  std::ostringstream out, err;
  if (app.exit(error, out, err) == 0) {
    context.out << out.str();
    return ExitCode::kOk;
  }
  const std::string unknown = UnknownWord(app, args);
  context.Usage(unknown.empty() ? error.what() : unknown);
  if (!context.json) context.err << "Try '" << CommandName(app) << " --help'.\n";
  return ExitCode::kUsage;
}

ExitCode Run(const Commands& commands, const Context& context) {
  StatusOr<ExitCode> result = ExitCode::kOk;
  try {
    const Status loaded = commands.LoadOpLibraries();
    result = loaded.ok() ? commands.chosen()(context) : StatusOr<ExitCode>(loaded);
  } catch (const std::bad_alloc&) {
    result = errors::ResourceExhausted("out of memory");
  }
  if (result.ok()) return *result;
  context.ReportError(result.status());
  return ExitCode::kFailed;
}

}  // namespace

void AddAllCommands(Commands* commands) {
  AddBenchCommand(commands);
  AddCheckpointCommand(commands);
  AddCompletionCommand(commands);
  AddDataCommand(commands);
  AddEventsCommand(commands);
  AddGraphCommand(commands);
  AddOpsCommand(commands);
  AddRecordsCommand(commands);
  AddRewriteCommands(commands);
  AddRunCommand(commands);
  AddServerCommands(commands);
  AddShowCommand(commands);
  AddTraceCommand(commands);
  AddWatchCommand(commands);
}

int RunProgram(const std::vector<std::string>& args, Context context) {
  CLI::App app("Tools for models, checkpoints, records, event files and traces.", "millrace");
  app.require_subcommand(1);
  app.set_version_flag("--version", "millrace " MR_VERSION);
  app.footer(
      "Exit code 0: success, 1: failure, 2: wrong command line, 3: success, and the answer is no.\n"
      "Every command and group takes --help; every command that is not a group also takes --json and "
      "--op_library.");
  Commands commands(app);
  AddAllCommands(&commands);
  // Errors of the command line, too, are JSON if --json is given.
  context.json = std::find(args.begin(), args.end(), "--json") != args.end();
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::ParseError& error) {
    return static_cast<int>(Refuse(app, args, error, context));
  }
  ExitCode code = Run(commands, context);
  context.out.flush();
  if (!context.out && code == ExitCode::kOk) {
    context.err << "millrace: the output could not be written\n";
    code = ExitCode::kFailed;
  }
  return static_cast<int>(code);
}

}  // namespace millrace::cli
