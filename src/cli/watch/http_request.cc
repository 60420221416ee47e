// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/watch/http_request.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <span>
#include <vector>

#include "base/strings.h"

namespace millrace::cli {
namespace {

bool SameIgnoringCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

bool IsPort(std::string_view text) {
  return !text.empty() && text.size() <= 5 &&
         std::all_of(text.begin(), text.end(), [](char c) { return '0' <= c && c <= '9'; });
}

// "[::1]:6006", "127.0.0.1", "localhost:80".
bool IsHostAllowed(std::string_view host, std::span<const std::string> own_names) {
  in6_addr six = {};
  in_addr four = {};
  if (host.starts_with('[')) {
    const size_t close = host.find(']');
    if (close == std::string_view::npos) return false;
    const std::string_view after = host.substr(close + 1);
    if (!after.empty() && (after[0] != ':' || !IsPort(after.substr(1)))) return false;
    return inet_pton(AF_INET6, std::string(host.substr(1, close - 1)).c_str(), &six) == 1;
  }
  const size_t colon = host.find(':');
  if (colon != std::string_view::npos && !IsPort(host.substr(colon + 1))) return false;
  const std::string name(host.substr(0, colon));
  const auto is_name = [&](std::string_view own) { return !own.empty() && SameIgnoringCase(name, own); };
  return is_name("localhost") || std::any_of(own_names.begin(), own_names.end(), is_name) ||
         inet_pton(AF_INET, name.c_str(), &four) == 1;
}

std::map<std::string, std::string> ParseQuery(std::string_view text) {
  std::map<std::string, std::string> query;
  for (const std::string_view part : StrSplitSkipEmpty(text, '&')) {
    const size_t equals = std::min(part.find('='), part.size());
    query.emplace(part.substr(0, equals), part.substr(std::min(equals + 1, part.size())));
  }
  return query;
}

// "GET /path?query HTTP/1.1".
int ParseFirstLine(std::string_view line, HttpRequest* request) {
  const std::vector<std::string_view> words = StrSplit(line, ' ');
  if (words.size() != 3 || !words[2].starts_with("HTTP/1.") || words[1].empty()) return 400;
  if (words[0] != "GET") return 405;
  if (words[1][0] != '/') return 400;
  const size_t mark = std::min(words[1].find('?'), words[1].size());
  request->path = words[1].substr(0, mark);
  request->query = ParseQuery(words[1].substr(std::min(mark + 1, words[1].size())));
  return 0;
}

}  // namespace

int ParseHttpRequest(std::string_view head, std::span<const std::string> own_names, HttpRequest* request) {
  std::vector<std::string_view> lines = StrSplit(head, '\n');
  for (std::string_view& line : lines) ConsumeSuffix(&line, "\r");
  const auto is_text = [](unsigned char c) { return c >= 0x20 || c == '\t' || c == '\r' || c == '\n'; };
  if (!std::all_of(head.begin(), head.end(), is_text)) return 400;
  if (const int refused = ParseFirstLine(lines.front(), request); refused != 0) return refused;
  std::optional<std::string_view> host;
  for (const std::string_view line : std::span(lines).subspan(1)) {
    if (line.empty()) continue;
    const size_t colon = line.find(':');
    if (colon == 0 || colon == std::string_view::npos) return 400;
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = StripWhitespace(line.substr(colon + 1));
    if (SameIgnoringCase(name, "host")) {
      if (host.has_value()) return 400;
      host = value;
    }
    const bool has_body =
        SameIgnoringCase(name, "content-length") ? value != "0" : SameIgnoringCase(name, "transfer-encoding");
    if (has_body) return 400;
  }
  if (!host.has_value()) return 400;
  return IsHostAllowed(*host, own_names) ? 0 : 421;
}

}  // namespace millrace::cli
