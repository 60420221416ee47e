// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/match_files.h"

#include <algorithm>

#include "base/strings.h"

namespace millrace::io {
namespace {

constexpr std::string_view kWildcards = "*?[\\";

// Matches one character with the pattern's first element, which is then removed. An open bracket without its
// end is a bracket.
bool MatchesOne(std::string_view* pattern, char c) {
  const char first = pattern->front();
  pattern->remove_prefix(1);
  if (first == '?') return true;
  if (first == '\\' && !pattern->empty()) {
    const char literal = pattern->front();
    pattern->remove_prefix(1);
    return literal == c;
  }
  if (first != '[') return first == c;
  std::string_view set = *pattern;
  const bool negated = !set.empty() && (set[0] == '^' || set[0] == '!');
  if (negated) set.remove_prefix(1);
  const size_t end = set.find(']', 1);  // a bracket in the first place is a member
  if (end == std::string_view::npos) return c == '[';
  bool found = false;
  const auto code = [](char x) { return static_cast<unsigned char>(x); };
  for (size_t i = 0; i < end; ++i) {
    const bool is_range = i + 2 < end && set[i + 1] == '-';
    const char last = is_range ? set[i + 2] : set[i];
    found = found || (code(set[i]) <= code(c) && code(c) <= code(last));
    if (is_range) i += 2;
  }
  *pattern = set.substr(end + 1);
  return found != negated;
}

std::string Join(const std::string& folder, std::string_view name) {
  if (folder.empty() || folder.back() == '/') return StrCat(folder, name);
  return StrCat(folder, "/", name);
}

}  // namespace

bool MatchesPattern(std::string_view pattern, std::string_view text) {
  // After a mismatch only the latest '*' has to match one more character: earlier ones need no
  // change.
  bool has_star = false;
  std::string_view after_star, from;
  while (!text.empty()) {
    if (!pattern.empty() && pattern.front() == '*') {
      has_star = true;
      pattern.remove_prefix(1);
      after_star = pattern;
      from = text;
      continue;
    }
    if (!pattern.empty() && MatchesOne(&pattern, text.front())) {
      text.remove_prefix(1);
      continue;
    }
    if (!has_star) return false;
    from.remove_prefix(1);
    text = from;
    pattern = after_star;
  }
  return pattern.find_first_not_of('*') == std::string_view::npos;
}

StatusOr<std::vector<std::string>> MatchingFiles(Env& env, const std::string& pattern) {
  constexpr size_t kMostMatches = 10'000'000;
  std::vector<std::string> found = {pattern.starts_with('/') ? "/" : ""};
  for (const std::string_view part : StrSplitSkipEmpty(pattern, '/')) {
    if (part.find_first_of(kWildcards) == std::string_view::npos) {
      for (std::string& path : found) path = Join(path, part);
      continue;
    }
    std::vector<std::string> next;
    for (const std::string& folder : found) {
      const auto names = env.GetChildren(folder.empty() ? "." : folder);
      if (!names.ok()) continue;  // no folder, or one that cannot be read
      for (const std::string& name : *names) {
        if (MatchesPattern(part, name)) next.push_back(Join(folder, name));
      }
      if (next.size() > kMostMatches) {
        return errors::ResourceExhausted(pattern, "; matches more than ", kMostMatches, " files");
      }
    }
    found = std::move(next);
  }
  std::erase_if(found, [&](const std::string& path) { return path.empty() || !env.FileExists(path); });
  std::sort(found.begin(), found.end());
  return found;
}

Status MakeFolders(Env& env, const std::string& folder) {
  if (folder.empty() || env.FileExists(folder)) return Status();
  for (size_t slash = folder.find('/', 1);; slash = folder.find('/', slash + 1)) {
    const std::string part = folder.substr(0, slash);
    Status status = env.CreateDir(part);
    // Another process may make it at the same time, and folders above may be read-only.
    if (!status.ok() && !env.FileExists(part)) return status;
    if (slash == std::string::npos) return Status();
  }
}

}  // namespace millrace::io
