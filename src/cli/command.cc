// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/command.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "display/text.h"
#include "op/op_library.h"

namespace millrace::cli {

ExitCode Context::Print(const JsonWriter& document) const {
  out << document.text() << "\n";
  return ExitCode::kOk;
}

ExitCode Context::Usage(const std::string& text) const {
  ReportError(errors::InvalidArgument(text));
  return ExitCode::kUsage;
}

void Context::ReportError(const Status& status) const {
  if (!json) {
    err << "millrace: " << PrintableLines(status.ToString()) << "\n";
    return;
  }
  JsonWriter error;
  error.BeginObject().Key("error").BeginObject();
  error.Field("code", ErrorCodeName(status.code()));
  error.Field("message", status.message());
  error.EndObject().EndObject();
  Print(error);
}

void Context::Warn(std::string_view text) const { err << "millrace: " << Printable(text) << "\n"; }

Command Commands::Group(const std::string& name, const std::string& what) {
  CLI::App& group = *app_.add_subcommand(name, what);
  group.require_subcommand(1);
  return Command(group);
}

Command Commands::Add(const std::string& name, const std::string& what, Action action) {
  return Add(name, what, std::move(action), Command(app_));
}

Command Commands::Add(const std::string& name, const std::string& what, Action action, const Command& group) {
  CLI::App& app = *group.app().add_subcommand(name, what);
  app.callback([this, action = std::move(action)] { chosen_ = action; });
  const Command command(app);
  command.AddFlag("--json", json_, "Print the result, and errors, as JSON");
  command.AddOption("--op_library", op_libraries_, "Load a library of ops and kernels first; may be repeated")
      .TypeName("FILE")
      .OneWordEach();
  return command;
}

Status Commands::LoadOpLibraries() const {
  for (const std::string& path : op_libraries_) {
    // A name without a slash is a file in the current folder, not in the system's library folders.
    const bool is_here = path.find('/') == std::string::npos && Env::Posix().FileExists(path);
    MR_RETURN_IF_ERROR(LoadOpLibrary(is_here ? "./" + path : path).status());
  }
  return Status();
}

Progress::Progress(const Context& context, std::string what, uint64_t total, std::string unit)
    : context_(context),
      what_(std::move(what)),
      total_(total),
      unit_(std::move(unit)),
      next_(Clock::now() + std::chrono::seconds(2)) {}

Progress::~Progress() {
  if (shown_ && context_.terminal) context_.err << "\r\033[K" << std::flush;
}

void Progress::Set(uint64_t done) {
  const Clock::time_point now = Clock::now();
  if (now < next_) return;
  next_ = now + std::chrono::seconds(1);
  shown_ = true;
  context_.err << (context_.terminal ? "\r\033[K" : "") << "millrace: " << Printable(what_) << ": ";
  if (total_ > 0 && done <= total_) {
    context_.err << static_cast<int>(100.0 * static_cast<double>(done) / static_cast<double>(total_))
                 << " %, ";
  }
  context_.err << (unit_ == "bytes" ? BytesText(done) : StrCat(CountText(done), " ", unit_))
               << (context_.terminal ? "" : "\n") << std::flush;
}

}  // namespace millrace::cli
