// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "cli/options.h"
#include "millrace/json_writer.h"
#include "millrace/status.h"

namespace CLI {
class App;
}  // namespace CLI

namespace millrace::cli {

// Exit codes of the program.
enum class ExitCode : int {
  kOk = 0,
  kFailed = 1,   // an error in a file, a model or the machine
  kUsage = 2,    // an error in the command line
  kDiffers = 3,  // success, and the answer is no: checkpoints differ, a model can't run here
};

// The context of a command. One thread at a time.
struct Context {
  Env& env;
  std::ostream& out;      // results
  std::ostream& err;      // errors, warnings and progress
  bool json = false;      // the result is one JSON document, errors too
  bool terminal = false;  // `err` is a terminal: progress lines may be overwritten

  // Writes the document and a newline.
  ExitCode Print(const JsonWriter& document) const;
  // For errors in options that only the command itself can detect.
  ExitCode Usage(const std::string& text) const;
  // "{"error": …}" on `out` with --json, else a line on `err`.
  void ReportError(const Status& status) const;
  void Warn(std::string_view text) const;
};

using Action = std::function<StatusOr<ExitCode>(const Context&)>;

// The commands of the program, while they are registered.
class Commands {
 public:
  explicit Commands(CLI::App& app) : app_(app) {}

  CLI::App& app() const { return app_; }
  // A command with subcommands.
  Command Group(const std::string& name, const std::string& what);
  // A command, of the program itself or of a group. It gets the options --json and --op_library.
  Command Add(const std::string& name, const std::string& what, Action action);
  Command Add(const std::string& name, const std::string& what, Action action, const Command& group);

  // The requested command; empty before the command line was parsed.
  const Action& chosen() const { return chosen_; }
  bool json() const { return json_; }
  // Loads the libraries of ops that the command line names.
  Status LoadOpLibraries() const;

 private:
  CLI::App& app_;
  Action chosen_;
  bool json_ = false;
  std::vector<std::string> op_libraries_;
};

// Reports the progress of a long operation: a line after two seconds and then about each second.
class Progress {
 public:
  // "millrace: <what>: 34 %, 1.2 GiB". `total` 0: not known. `bytes`: whether the numbers are bytes, or
  // counts.
  Progress(const Context& context, std::string what, uint64_t total, std::string unit = "bytes");
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Set(uint64_t done);

 private:
  using Clock = std::chrono::steady_clock;
  const Context& context_;
  const std::string what_;
  const uint64_t total_;
  const std::string unit_;
  Clock::time_point next_;
  bool shown_ = false;
};

}  // namespace millrace::cli
