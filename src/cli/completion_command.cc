// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// millrace completion: a script that tells a shell which words the program takes. It is made from the command
// line itself.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "base/strings.h"
#include "cli/commands.h"
#include "cli/options.h"

namespace millrace::cli {
namespace {

struct OptionWords {
  std::vector<std::string> names;  // "-n", "--count"
  std::string what;
  bool takes_value = false;
  bool is_path = false;
  std::vector<std::string> choices;  // of its values; empty: anything
};

// A command with the words that lead to it.
struct CommandWords {
  std::vector<std::string> path;  // "records", "head"
  std::vector<std::pair<std::string, std::string>> commands;
  std::vector<OptionWords> options;
  bool takes_paths = false;
  std::vector<std::string> choices;  // of the first argument
};

// A check by a list shows its values in the name of the type: "TEXT:{none,zlib}".
std::vector<std::string> ChoicesOf(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t open = type.find('{'), close = type.rfind('}');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  std::vector<std::string> choices;
  for (const std::string_view choice :
       StrSplit(std::string_view(type).substr(open + 1, close - open - 1), ',')) {
    choices.emplace_back(choice);
  }
  return choices;
}

bool TakesPath(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.starts_with("FILE") || type.starts_with("PATH");
}

void Describe(const CLI::App& app, const std::vector<std::string>& path, std::vector<CommandWords>* all) {
  CommandWords words;
  words.path = path;
  const auto any = [](const CLI::App*) { return true; };
  for (const CLI::App* command : app.get_subcommands(any)) {
    words.commands.emplace_back(command->get_name(), command->get_description());
  }
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) {
      words.takes_paths = words.takes_paths || TakesPath(*option);
      if (words.choices.empty()) words.choices = ChoicesOf(*option);
      continue;
    }
    OptionWords o;
    for (const std::string& name : option->get_snames()) o.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) o.names.push_back("--" + name);
    o.what = option->get_description();
    o.takes_value = option->get_items_expected_max() > 0;
    o.is_path = TakesPath(*option);
    o.choices = ChoicesOf(*option);
    words.options.push_back(std::move(o));
  }
  all->push_back(words);
  for (const CLI::App* command : app.get_subcommands(any)) {
    std::vector<std::string> below = path;
    below.push_back(command->get_name());
    Describe(*command, below, all);
  }
}

// In single quotes, for all three shells.
std::string ShellQuoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::vector<std::string> FirstWords(const CommandWords& command) {
  std::vector<std::string> words;
  for (const auto& [name, what] : command.commands) words.push_back(name);
  words.insert(words.end(), command.choices.begin(), command.choices.end());
  return words;
}

// Which command the words before the cursor lead to: the same loop in bash and zsh. Words that are no
// subcommands of the current command are arguments, and are skipped.
std::string PathLoop(const std::vector<CommandWords>& all, std::string_view words, std::string_view until) {
  std::string out =
      StrCat("  local command='' word i\n  for word in ", words, "; do\n    case \"$command $word\" in\n");
  for (const CommandWords& command : all) {
    for (const auto& [name, what] : command.commands) {
      out += StrCat("      ", ShellQuoted(StrCat(StrJoin(command.path, "/"), " ", name)), ") command=",
                    ShellQuoted(StrCat(command.path.empty() ? "" : StrJoin(command.path, "/") + "/", name)),
                    " ;;\n");
    }
  }
  return StrCat(out, "    esac\n  done\n", until);
}

// The values of the option before the cursor.
std::string BashValues(const CommandWords& command) {
  std::string out;
  for (const OptionWords& option : command.options) {
    if (!option.takes_value) continue;
    out += StrCat("        ", StrJoin(option.names, "|"), ") ");
    if (option.is_path) {
      out += "_millrace_files;";
    } else if (!option.choices.empty()) {
      out += StrCat("COMPREPLY=($(compgen -W ", ShellQuoted(StrJoin(option.choices, " ")),
                    " -- \"$current\"));");
    }
    out += " return ;;\n";
  }
  return out.empty() ? "" : StrCat("      case \"$previous\" in\n", out, "      esac\n");
}

std::string BashScript(const std::vector<CommandWords>& all) {
  std::string out =
      "# Completion of millrace for bash: eval \"$(millrace completion bash)\"\n"
      "_millrace_files() {\n"
      "  local file\n"
      "  compopt -o filenames 2>/dev/null\n"
      "  while IFS= read -r file; do COMPREPLY+=(\"$file\"); done < <(compgen -f -- \"$current\")\n"
      "}\n"
      "_millrace() {\n"
      "  local current=\"${COMP_WORDS[COMP_CWORD]}\" previous=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
      "  COMPREPLY=()\n";
  out += PathLoop(all, "\"${COMP_WORDS[@]:1:COMP_CWORD-1}\"", "  case \"$command\" in\n");
  for (const CommandWords& command : all) {
    std::vector<std::string> options;
    for (const OptionWords& o : command.options) {
      options.insert(options.end(), o.names.begin(), o.names.end());
    }
    out += StrCat("    ", ShellQuoted(StrJoin(command.path, "/")), ")\n", BashValues(command));
    out += StrCat("      if [[ $current == -* ]]; then\n        COMPREPLY=($(compgen -W ",
                  ShellQuoted(StrJoin(options, " ")), " -- \"$current\"))\n");
    out += StrCat("      else\n        COMPREPLY=($(compgen -W ",
                  ShellQuoted(StrJoin(FirstWords(command), " ")), " -- \"$current\"))\n");
    if (command.takes_paths) {
      out += "        _millrace_files\n";
    }
    out += "      fi ;;\n";
  }
  return out + "  esac\n}\ncomplete -F _millrace millrace\n";
}

// "word:description" for _describe; a colon in the word would end it.
std::string ZshWord(const std::string& word, const std::string& what) {
  return ShellQuoted(StrCat(word, ":", what));
}

std::string ZshValues(const CommandWords& command) {
  std::string out;
  for (const OptionWords& option : command.options) {
    if (!option.takes_value) continue;
    out += StrCat("        ", StrJoin(option.names, "|"), ") ");
    if (option.is_path) {
      out += "_files;";
    } else if (!option.choices.empty()) {
      out += StrCat("compadd -- ", StrJoin(option.choices, " "), ";");
    }
    out += " return ;;\n";
  }
  return out.empty() ? "" : StrCat("      case \"$words[CURRENT-1]\" in\n", out, "      esac\n");
}

std::string ZshScript(const std::vector<CommandWords>& all) {
  std::string out =
      "#compdef millrace\n"
      "# Completion of millrace for zsh: eval \"$(millrace completion zsh)\"\n"
      "_millrace() {\n";
  out +=
      PathLoop(all, "\"${(@)words[2,CURRENT-1]}\"", "  local -a options commands\n  case \"$command\" in\n");
  for (const CommandWords& command : all) {
    out += StrCat("    ", ShellQuoted(StrJoin(command.path, "/")), ")\n", ZshValues(command));
    out += "      options=(";
    for (const OptionWords& option : command.options) {
      for (const std::string& name : option.names) out += StrCat(ZshWord(name, option.what), " ");
    }
    out += ")\n      commands=(";
    for (const auto& [name, what] : command.commands) out += StrCat(ZshWord(name, what), " ");
    for (const std::string& choice : command.choices) out += StrCat(ShellQuoted(choice), " ");
    out += ")\n      if [[ $words[CURRENT] == -* ]]; then\n        _describe option options\n      else\n";
    out += command.takes_paths ? "        _files\n" : "        _describe command commands\n";
    out += "      fi ;;\n";
  }
  // The script may be sourced, or autoloaded as a function.
  return out +
         "  esac\n}\n"
         "if [[ $funcstack[1] == _millrace ]]; then _millrace \"$@\"; else compdef _millrace millrace; fi\n";
}

// The condition under which the words so far lead to the command.
std::string FishCondition(const CommandWords& command) {
  std::vector<std::string> conditions;
  for (const std::string& word : command.path) conditions.push_back("__fish_seen_subcommand_from " + word);
  if (!command.commands.empty()) {
    std::vector<std::string> below;
    for (const auto& [name, what] : command.commands) below.push_back(name);
    conditions.push_back("not __fish_seen_subcommand_from " + StrJoin(below, " "));
  }
  return conditions.empty() ? "" : StrCat(" -n ", ShellQuoted(StrJoin(conditions, "; and ")));
}

std::string FishQuoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string FishScript(const std::vector<CommandWords>& all) {
  std::string out =
      "# Completion of millrace for fish: millrace completion fish | source\ncomplete -c millrace -f\n";
  for (const CommandWords& command : all) {
    const std::string start = StrCat("complete -c millrace", FishCondition(command));
    for (const auto& [name, what] : command.commands) {
      out += StrCat(start, " -a ", name, " -d ", FishQuoted(what), "\n");
    }
    if (!command.choices.empty()) {
      out += StrCat(start, " -a ", FishQuoted(StrJoin(command.choices, " ")), "\n");
    }
    if (command.takes_paths) out += start + " -F\n";
    for (const OptionWords& option : command.options) {
      out += start;
      for (const std::string& name : option.names) {
        out += name.starts_with("--") ? StrCat(" -l ", name.substr(2)) : StrCat(" -s ", name.substr(1));
      }
      if (option.takes_value) {
        out += option.is_path           ? " -r -F"
               : option.choices.empty() ? " -x"
                                        : StrCat(" -x -a ", FishQuoted(StrJoin(option.choices, " ")));
      }
      out += StrCat(" -d ", FishQuoted(option.what), "\n");
    }
  }
  return out;
}

}  // namespace

void AddCompletionCommand(Commands* commands) {
  const auto shell = std::make_shared<std::string>();
  const CLI::App* const app = &commands->app();
  const Command command =
      commands->Add("completion", "Print a script for completion in a shell",
                    [shell, app](const Context& context) -> StatusOr<ExitCode> {
                      std::vector<CommandWords> all;
                      Describe(*app, {}, &all);
                      const std::string script = *shell == "bash"  ? BashScript(all)
                                                 : *shell == "zsh" ? ZshScript(all)
                                                                   : FishScript(all);
                      if (context.json) {
                        JsonWriter json;
                        json.BeginObject().Field("shell", *shell).Field("script", script).EndObject();
                        return context.Print(json);
                      }
                      context.out << script;
                      return ExitCode::kOk;
                    });
  command.AddOption("shell", *shell, "The shell").Required().OneOf({"bash", "zsh", "fish"});
}

}  // namespace millrace::cli
