// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "display/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/utf8.h"
#include "millrace/status.h"

namespace millrace {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

// U+0000 to U+001F, U+007F, and U+0080 to U+009F, which some terminals interpret as well.
bool IsControl(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7f;
  return first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
}

void AppendOctal(std::string_view bytes, std::string* out) {
  for (const char c : bytes) {
    const auto b = static_cast<unsigned char>(c);
    *out += {'\\', static_cast<char>('0' + b / 64), static_cast<char>('0' + b / 8 % 8),
             static_cast<char>('0' + b % 8)};
  }
}

// Returns whether all of it fitted.
bool AppendPrintable(std::string_view text, size_t most, std::string_view escaped, std::string* out) {
  size_t taken = 0;
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const std::string_view character = text.substr(0, std::max<size_t>(length, 1));
    taken += character.size();
    if (taken > most) return false;
    if (character == "\n") {
      *out += "\\n";
    } else if (length == 0 || IsControl(character)) {
      AppendOctal(character, out);
    } else {
      if (escaped.find(character) != std::string_view::npos) *out += '\\';
      *out += character;
    }
    text.remove_prefix(character.size());
  }
  return true;
}

template <typename... Args>
std::string Format(const char* format, Args... args) {
  char text[400];
  const int n = std::snprintf(text, sizeof(text), format, args...);
  return std::string(text, static_cast<size_t>(std::clamp(n, 0, 399)));
}

}  // namespace

std::string Printable(std::string_view text, size_t most) {
  std::string out;
  if (!AppendPrintable(text, most, "", &out)) out += "…";
  return out;
}

std::string PrintableLines(std::string_view text, size_t most) {
  std::string out;
  bool whole = true;
  for (size_t begin = 0; whole && begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (begin > 0) out += '\n';
    for (size_t at = begin; whole && at <= end;) {  // the parts between tabs
      const size_t tab = std::min(text.substr(0, end).find('\t', at), end);
      if (at > begin) out += "    ";
      const std::string_view part = text.substr(at, tab - at);
      whole = part.size() <= most && AppendPrintable(part, most, "", &out);
      most -= std::min(most, part.size());
      at = tab + 1;
    }
    begin = end + 1;
  }
  return whole ? out : out + "…";
}

std::string Quoted(std::string_view text, size_t most) {
  std::string out = "\"";
  const bool whole = AppendPrintable(text, most, "\"\\", &out);
  out += whole ? "\"" : StrCat("…\" (", text.size(), " bytes)");
  return out;
}

std::string EscapeXml(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const std::string_view character = text.substr(0, std::max<size_t>(length, 1));
    const char c = character[0];
    if (length == 0 || (IsControl(character) && c != '\n' && c != '\t')) {
      out += kReplacement;
    } else if (c == '&' || c == '<' || c == '>' || c == '"') {
      out += StrCat("&#", static_cast<int>(c), ";");
    } else {
      out += character;
    }
    text.remove_prefix(character.size());
  }
  return out;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string BytesText(uint64_t bytes) {
  if (bytes < 1024) return StrCat(bytes, " B");
  static constexpr std::array<const char*, 6> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1023.5 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return Format(value < 9.995 ? "%.2f %s" : value < 99.95 ? "%.1f %s" : "%.0f %s", value, kUnits[unit]);
}

std::string CountText(uint64_t count) {
  std::string out = std::to_string(count);
  for (size_t at = out.size(); at > 3;) out.insert(at -= 3, 1, ',');
  return out;
}

std::string CountOf(uint64_t count, std::string_view noun) {
  return StrCat(CountText(count), " ", noun, count == 1 ? "" : "s");
}

std::string ShortCount(double number) {
  if (!(std::abs(number) >= 1000)) return Format("%.4g", number);
  static constexpr std::array<const char*, 6> kUnits = {"k", "M", "G", "T", "P", "E"};
  double value = number / 1000;
  size_t unit = 0;
  for (; std::abs(value) >= 999.5 && unit + 1 < kUnits.size(); ++unit) value /= 1000;
  return Format("%.3g %s", value, kUnits[unit]);
}

std::string DurationText(double seconds) {
  if (seconds < 999.5e-9) return Format("%.0f ns", seconds * 1e9);
  if (seconds < 999.5e-6) return Format("%.3g µs", seconds * 1e6);
  if (seconds < 999.5e-3) return Format("%.3g ms", seconds * 1e3);
  return Format(seconds < 100 ? "%.3g s" : "%.0f s", seconds);
}

std::string NumberText(double number) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof(text), number).ptr;
  return std::string(text, end);
}

std::string TimeText(double unix_seconds) {
  // Years with at most four digits.
  if (!(unix_seconds >= 0 && unix_seconds < 253402300800.0)) return NumberText(unix_seconds);
  // Days to a date of the Gregorian calendar, in eras of 400 years that begin on the first of March.
  const auto total = static_cast<int64_t>(unix_seconds);
  const int64_t second = total % 86400, days = total / 86400 + 719468;
  const int64_t era = days / 146097, day_of_era = days % 146097;
  const int64_t year_of_era =
      (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  const int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const int64_t shifted = (5 * day_of_year + 2) / 153;
  const int64_t day = day_of_year - (153 * shifted + 2) / 5 + 1;
  const int64_t month = shifted < 10 ? shifted + 3 : shifted - 9;
  const int64_t year = year_of_era + era * 400 + (month <= 2 ? 1 : 0);
  return Format("%04d-%02d-%02d %02d:%02d:%02d", static_cast<int>(year), static_cast<int>(month),
                static_cast<int>(day), static_cast<int>(second / 3600), static_cast<int>(second / 60 % 60),
                static_cast<int>(second % 60));
}

std::string Base64(std::string_view bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) {
      group = group << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    }
    for (size_t k = 0; k < 4; ++k) {
      out += i + k > bytes.size() ? '=' : kDigits[group >> (18 - 6 * k) & 63];
    }
  }
  return out;
}

size_t Width(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

void TextTable::AddRow(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = Printable(cell);
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::ToString() const {
  std::vector<size_t> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    size_t width = Width(columns_[c].first);
    for (const auto& row : rows_) width = std::max(width, Width(row[c]));
    widths.push_back(width);
  }
  std::string out;
  const auto add = [&](size_t c, std::string_view cell, std::string* line) {
    const std::string padding(widths[c] - Width(cell), ' ');
    if (columns_[c].second == Align::kRight) *line += padding;
    *line += cell;
    if (columns_[c].second == Align::kLeft) *line += padding;
    *line += "  ";
  };
  const auto finish = [&](std::string line) {
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  std::string title;
  for (size_t c = 0; c < columns_.size(); ++c) add(c, columns_[c].first, &title);
  finish(title);
  for (const auto& row : rows_) {
    std::string line;
    for (size_t c = 0; c < columns_.size(); ++c) add(c, row[c], &line);
    finish(line);
  }
  return out;
}

}  // namespace millrace
