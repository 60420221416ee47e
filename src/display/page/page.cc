// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "display/page/page.h"

#include "display/text.h"
#include "millrace/status.h"

namespace millrace {

std::string FillPage(std::string_view page,
                     const std::vector<std::pair<std::string_view, std::string_view>>& values) {
  std::string out;
  while (!page.empty()) {
    size_t at = page.size();
    std::pair<std::string_view, std::string_view> first;
    for (const auto& value : values) {
      const size_t found = page.find(value.first);
      if (found < at) at = found, first = value;
    }
    out += page.substr(0, at);
    out += first.second;
    page.remove_prefix(at + first.first.size());
  }
  return out;
}

std::string WritePage(const PageParts& parts) {
  const std::string title = EscapeXml(Printable(parts.title, 300));
  const std::string summary = EscapeXml(parts.summary);
  const std::string body = FillPage(parts.body, {{"@TITLE@", title}});
  const std::string style = StrCat(kPageBaseStyle, parts.style);
  const std::string script = StrCat(kPageBaseScript, parts.script);
  return FillPage(kPageFrame, {{"@TITLE@", title},
                               {"@SUMMARY@", summary},
                               {"@STYLE@", style},
                               {"@BODY@", body},
                               {"@DATA@", parts.data},
                               {"@SCRIPT@", script}});
}

}  // namespace millrace
