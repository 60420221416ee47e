// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Parts, prefixes and cases of strings.
#ifndef TENSORFLOW_CORE_LIB_STRINGS_STR_UTIL_H_
#define TENSORFLOW_CORE_LIB_STRINGS_STR_UTIL_H_

#include <sstream>
#include <vector>

#include "tensorflow/core/lib/core/stringpiece.h"
#include "tensorflow/core/lib/strings/numbers.h"
#include "tensorflow/core/lib/strings/strcat.h"

namespace tensorflow {
namespace str_util {

// Filters for Split: all parts; parts that are not empty; parts with more than white space.
struct AllowEmpty {
  bool operator()(StringPiece) const { return true; }
};
struct SkipEmpty {
  bool operator()(StringPiece part) const { return !part.empty(); }
};
struct SkipWhitespace {
  bool operator()(StringPiece part) const {
    return std::any_of(part.begin(), part.end(), [](char c) { return !strings::internal::IsSpace(c); });
  }
};
// The parts between any of the characters of `delimiters`. An empty text has none.
template <typename Keep>
std::vector<string> Split(StringPiece text, StringPiece delimiters, Keep keep) {
  std::vector<string> parts;
  if (text.empty()) return parts;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && delimiters.find(text[i]) == StringPiece::npos) continue;
    const StringPiece part = text.substr(begin, i - begin);
    if (keep(part)) parts.push_back(string(part));
    begin = i + 1;
  }
  return parts;
}
inline std::vector<string> Split(StringPiece text, StringPiece delimiters) {
  return Split(text, delimiters, AllowEmpty());
}
template <typename Keep>
std::vector<string> Split(StringPiece text, char delimiter, Keep keep) {
  return Split(text, StringPiece(&delimiter, 1), keep);
}
inline std::vector<string> Split(StringPiece text, char delimiter) {
  return Split(text, delimiter, AllowEmpty());
}
template <typename Parts>
string Join(const Parts& parts, const char* between) {
  std::ostringstream os;
  const char* next = "";
  for (const auto& part : parts) {
    os << next << part;
    next = between;
  }
  return os.str();
}

inline string Lowercase(StringPiece text) {
  string result(text);
  for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return result;
}
inline string Uppercase(StringPiece text) {
  string result(text);
  for (char& c : result) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return result;
}
inline bool StartsWith(StringPiece text, StringPiece prefix) { return text.starts_with(prefix); }
inline bool EndsWith(StringPiece text, StringPiece suffix) { return text.ends_with(suffix); }
inline bool StrContains(StringPiece text, StringPiece part) { return text.find(part) != StringPiece::npos; }
// Removes the prefix, or suffix, if it is there.
inline bool ConsumePrefix(StringPiece* text, StringPiece prefix) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}
inline bool ConsumeSuffix(StringPiece* text, StringPiece suffix) {
  if (!text->ends_with(suffix)) return false;
  text->remove_suffix(suffix.size());
  return true;
}
inline StringPiece StripPrefix(StringPiece text, StringPiece prefix) {
  ConsumePrefix(&text, prefix);
  return text;
}
inline StringPiece StripSuffix(StringPiece text, StringPiece suffix) {
  ConsumeSuffix(&text, suffix);
  return text;
}
// Returns the number of characters removed.
inline size_t RemoveLeadingWhitespace(StringPiece* text) {
  const size_t before = text->size();
  while (!text->empty() && strings::internal::IsSpace(text->front())) text->remove_prefix(1);
  return before - text->size();
}
inline size_t RemoveTrailingWhitespace(StringPiece* text) {
  const size_t before = text->size();
  while (!text->empty() && strings::internal::IsSpace(text->back())) text->remove_suffix(1);
  return before - text->size();
}
inline size_t RemoveWhitespaceContext(StringPiece* text) {
  return RemoveLeadingWhitespace(text) + RemoveTrailingWhitespace(text);
}
inline void StripTrailingWhitespace(string* text) {
  StringPiece rest(*text);
  RemoveTrailingWhitespace(&rest);
  text->resize(rest.size());
}
// Replaces the first `old`, or all of them.
inline string StringReplace(StringPiece text, StringPiece old, StringPiece by, bool all) {
  string result(text);
  size_t at = old.empty() ? string::npos : result.find(old.data(), 0, old.size());
  while (at != string::npos) {
    result.replace(at, old.size(), by.data(), by.size());
    at = all ? result.find(old.data(), at + by.size(), old.size()) : string::npos;
  }
  return result;
}

}  // namespace str_util
}  // namespace tensorflow

#endif
