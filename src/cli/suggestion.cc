// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/suggestion.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <numeric>

#include "base/strings.h"

namespace millrace::cli {
namespace {

constexpr size_t kLongestWord = 64;  // longer ones are no typing errors

std::string Hint(std::string_view what, const std::string& word, const std::vector<std::string>& names) {
  const std::string nearest = NearestName(word, names);
  return StrCat("there is no ", what, " '", word.substr(0, kLongestWord), "'",
                nearest.empty() ? "" : StrCat("; did you mean '", nearest, "'?"));
}

std::vector<std::string> CommandsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

std::vector<std::string> OptionsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

}  // namespace

size_t EditDistance(std::string_view a, std::string_view b) {
  // Rows of the table of edit distances between prefixes: the last two and the current one.
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::string NearestName(std::string_view word, const std::vector<std::string>& names) {
  if (word.size() > kLongestWord) return "";
  std::string nearest;
  size_t least = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& name : names) {
    const size_t distance = EditDistance(word, name);
    if (distance >= least || distance >= name.size()) continue;
    least = distance;
    nearest = name;
  }
  return nearest;
}

std::string UnknownWord(const CLI::App& app, const std::vector<std::string>& args) {
  const CLI::App* command = &app;
  for (const std::string& arg : args) {
    if (arg == "--") return "";
    if (arg.size() > 1 && arg[0] == '-') {
      const std::string name = arg.substr(0, arg.find('='));
      const std::vector<std::string> options = OptionsOf(*command);
      if (name.starts_with("--") && std::find(options.begin(), options.end(), name) == options.end())
        return Hint("option", name, options);
      continue;
    }
    const std::vector<std::string> commands = CommandsOf(*command);
    if (commands.empty()) continue;  // an argument, or the value of an option
    if (std::find(commands.begin(), commands.end(), arg) == commands.end())
      return Hint("command", arg, commands);
    command = command->get_subcommand(arg);
  }
  return "";
}

}  // namespace millrace::cli
