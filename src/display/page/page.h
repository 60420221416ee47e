// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace {

// A page that needs no network and no other file.
struct PageParts {
  std::string_view title;    // any text
  std::string_view summary;  // any text; shown without the script
  std::string_view body;     // HTML
  std::string_view style;    // after what all pages have (base.css)
  std::string_view script;   // after what all pages have (base.js)
  std::string_view data;     // JSON as JsonWriter writes it, for the script
};
std::string WritePage(const PageParts& parts);

// Replaces each @NAME@ of a page in one pass, so that filled-in text is never searched.
std::string FillPage(std::string_view page,
                     const std::vector<std::pair<std::string_view, std::string_view>>& values);

// The files of this folder, which the build makes constants of (cmake/embed_page.cmake).
extern const std::string_view kPageFrame;
extern const std::string_view kPageBaseStyle;
extern const std::string_view kPageBaseScript;

}  // namespace millrace
