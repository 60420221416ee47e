// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint/checkpoint_state.h"

#include <cstdio>
#include <filesystem>

#include "base/strings.h"
#include "io/checkpoint/bundle_format.h"
#include "io/match_files.h"

namespace millrace::io {
namespace {

constexpr uint64_t kMaxStateBytes = 64 << 20;

// The text format of messages, as far as four fields need it: names, a colon, numbers or quoted strings.
class StateParser {
 public:
  explicit StateParser(std::string_view text) : rest_(text) {}

  StatusOr<CheckpointState> Parse() {
    CheckpointState state;
    for (SkipBlanks(); !rest_.empty(); SkipBlanks()) {
      const std::string_view name = TakeWhile([](char c) { return c == '_' || IsLetter(c); });
      SkipBlanks();
      if (name.empty() || !ConsumePrefix(&rest_, ":")) return Wrong("a field");
      SkipBlanks();
      MR_RETURN_IF_ERROR(Field(name, &state));
      SkipBlanks();
      if (!ConsumePrefix(&rest_, ",")) ConsumePrefix(&rest_, ";");
    }
    return state;
  }

 private:
  static bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
  template <typename Fn>
  std::string_view TakeWhile(Fn&& fn) {
    size_t n = 0;
    while (n < rest_.size() && fn(rest_[n])) ++n;
    const std::string_view taken = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return taken;
  }
  void SkipBlanks() {
    while (true) {
      TakeWhile([](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; });
      if (rest_.empty() || rest_[0] != '#') return;
      TakeWhile([](char c) { return c != '\n'; });
    }
  }
  Status Wrong(std::string_view wanted) const {
    return errors::InvalidArgument("a checkpoint state has no ", wanted, " at '",
                                   CEscape(rest_.substr(0, 20)), "'");
  }

  Status Field(std::string_view name, CheckpointState* state) {
    if (name == "model_checkpoint_path") return String(&state->model_checkpoint_path);
    if (name == "all_model_checkpoint_paths") {
      return List([&] { return String(&state->all_model_checkpoint_paths.emplace_back()); });
    }
    if (name == "all_model_checkpoint_timestamps") {
      return List([&] { return Number(&state->all_model_checkpoint_timestamps.emplace_back()); });
    }
    if (name == "last_preserved_timestamp") return Number(&state->last_preserved_timestamp);
    return errors::InvalidArgument("a checkpoint state has an unknown field ", CEscape(name));
  }
  // One value, or several in brackets.
  template <typename Fn>
  Status List(Fn&& value) {
    if (!ConsumePrefix(&rest_, "[")) return value();
    SkipBlanks();
    if (ConsumePrefix(&rest_, "]")) return Status::Ok();
    while (true) {
      SkipBlanks();
      MR_RETURN_IF_ERROR(value());
      SkipBlanks();
      if (ConsumePrefix(&rest_, "]")) return Status::Ok();
      if (!ConsumePrefix(&rest_, ",")) return Wrong("',' or ']'");
    }
  }
  Status Number(double* value) {
    const std::string_view text = TakeWhile(
        [](char c) { return IsLetter(c) || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '+'; });
    const auto number = SafeStringToDouble(text);
    if (!number.has_value()) return Wrong("number");
    *value = *number;
    return Status::Ok();
  }
  // Quoted pieces one after the other are one string.
  Status String(std::string* value) {
    if (rest_.empty() || (rest_[0] != '"' && rest_[0] != '\'')) return Wrong("string");
    while (!rest_.empty() && (rest_[0] == '"' || rest_[0] == '\'')) {
      const char quote = rest_[0];
      rest_.remove_prefix(1);
      while (!rest_.empty() && rest_[0] != quote) {
        if (rest_[0] == '\n') return Wrong("end of a string");
        if (rest_[0] == '\\') {
          rest_.remove_prefix(1);
          if (!Escape(value)) return Wrong("character after a backslash");
          continue;
        }
        value->push_back(rest_[0]);
        rest_.remove_prefix(1);
      }
      if (rest_.empty()) return Wrong("end of a string");
      rest_.remove_prefix(1);
      SkipBlanks();
    }
    return Status::Ok();
  }
  bool Escape(std::string* value) {
    if (rest_.empty()) return false;
    static constexpr std::string_view kLetters = "abfnrtv\\'\"?", kMeanings = "\a\b\f\n\r\t\v\\'\"?";
    if (const size_t at = kLetters.find(rest_[0]); at != std::string_view::npos) {
      value->push_back(kMeanings[at]);
      rest_.remove_prefix(1);
      return true;
    }
    const bool hex = rest_[0] == 'x' || rest_[0] == 'X';
    if (hex) rest_.remove_prefix(1);
    int code = 0, digits = 0;
    for (; digits < (hex ? 2 : 3) && !rest_.empty(); ++digits) {
      const int digit = Digit(rest_[0]);
      if (digit >= (hex ? 16 : 8)) break;
      code = code * (hex ? 16 : 8) + digit;
      rest_.remove_prefix(1);
    }
    value->push_back(static_cast<char>(code));
    return digits > 0;
  }
  static int Digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : 16;
  }

  std::string_view rest_;
};

std::string NumberText(double value) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.17g", value);
  return text;
}

bool IsAbsolute(const std::string& path) { return path.starts_with('/'); }

// `path` as seen from the folder.
std::string RelativeTo(const std::string& folder, const std::string& path) {
  const std::filesystem::path base(folder.empty() ? "." : folder);
  return std::filesystem::path(path).lexically_normal().lexically_relative(base.lexically_normal()).string();
}

// Whether there are files of a checkpoint of either format.
StatusOr<bool> IsThere(Env& env, const std::string& prefix) {
  if (env.FileExists(BundleIndexPath(prefix))) return true;
  MR_ASSIGN_OR_RETURN(const auto found, MatchingFiles(env, prefix));
  return !found.empty();
}

}  // namespace

StatusOr<CheckpointState> ParseCheckpointState(std::string_view text) {
  MR_ASSIGN_OR_RETURN(CheckpointState state, StateParser(text).Parse());
  if (state.model_checkpoint_path.empty()) {
    return errors::InvalidArgument("Invalid checkpoint state: no model_checkpoint_path");
  }
  return state;
}

std::string CheckpointStateText(const CheckpointState& state) {
  std::string text = StrCat("model_checkpoint_path: \"", CEscape(state.model_checkpoint_path), "\"\n");
  for (const std::string& path : state.all_model_checkpoint_paths) {
    text += StrCat("all_model_checkpoint_paths: \"", CEscape(path), "\"\n");
  }
  for (const double time : state.all_model_checkpoint_timestamps) {
    text += StrCat("all_model_checkpoint_timestamps: ", NumberText(time), "\n");
  }
  if (state.last_preserved_timestamp != 0) {
    text += StrCat("last_preserved_timestamp: ", NumberText(state.last_preserved_timestamp), "\n");
  }
  return text;
}

StatusOr<std::optional<CheckpointState>> ReadCheckpointState(Env& env, const std::string& folder,
                                                             const std::string& file) {
  const std::string path = folder.empty() ? file : folder + "/" + file;
  if (!env.FileExists(path)) return std::optional<CheckpointState>();
  MR_ASSIGN_OR_RETURN(const std::string text, ReadFileToString(env, path, kMaxStateBytes));
  auto state = ParseCheckpointState(text);
  if (!state.ok()) return state.status().WithContext(StrCat(" (in ", path, ")"));
  const auto from_folder = [&](std::string* name) {
    if (!IsAbsolute(*name) && !folder.empty()) *name = folder + "/" + *name;
  };
  from_folder(&state->model_checkpoint_path);
  for (std::string& name : state->all_model_checkpoint_paths) from_folder(&name);
  return std::optional<CheckpointState>(*std::move(state));
}

StatusOr<std::optional<std::string>> LatestCheckpoint(Env& env, const std::string& folder,
                                                      const std::string& file) {
  MR_ASSIGN_OR_RETURN(const auto state, ReadCheckpointState(env, folder, file));
  if (!state.has_value()) return std::optional<std::string>();
  const std::string& latest = state->model_checkpoint_path;
  MR_ASSIGN_OR_RETURN(const bool there, IsThere(env, latest));
  if (there) return std::optional<std::string>(latest);
  // A folder that was moved has it under the same name.
  const std::string name = latest.substr(latest.rfind('/') + 1);
  const std::string moved = folder.empty() ? name : folder + "/" + name;
  MR_ASSIGN_OR_RETURN(const bool is_moved, name.empty() ? StatusOr<bool>(false) : IsThere(env, moved));
  return is_moved ? std::optional<std::string>(moved) : std::nullopt;
}

Status UpdateCheckpointState(Env& env, const std::string& folder, CheckpointState state,
                             const UpdateStateOptions& options) {
  if (state.model_checkpoint_path.empty()) {
    return errors::InvalidArgument("the latest checkpoint of ", folder, " has no name");
  }
  auto& all = state.all_model_checkpoint_paths;
  auto& times = state.all_model_checkpoint_timestamps;
  if (!times.empty() && times.size() != all.size()) {
    return errors::InvalidArgument(
        "Checkpoint timestamps, if provided, must match checkpoint paths (got paths ", all.size(),
        " and timestamps ", times.size(), ")");
  }
  if (all.empty() || all.back() != state.model_checkpoint_path) {
    all.push_back(state.model_checkpoint_path);
    times.clear();
  }
  const auto rewrite = [&](std::string* path) {
    const bool relative = IsAbsolute(*path) ? options.save_relative_paths && IsAbsolute(folder)
                                            : !IsAbsolute(folder) && !folder.empty();
    if (relative) *path = RelativeTo(folder, *path);
  };
  rewrite(&state.model_checkpoint_path);
  for (std::string& path : all) rewrite(&path);
  if (state.model_checkpoint_path == options.file) {
    return errors::InvalidArgument("Save path '", state.model_checkpoint_path,
                                   "' conflicts with path used for checkpoint state.  Please use a different "
                                   "save path.");
  }
  const std::string path = folder.empty() ? options.file : folder + "/" + options.file;
  return WriteFileAtomically(env, path, CheckpointStateText(state));
}

}  // namespace millrace::io
