// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace millrace::cli {

// The parts of the timeline's page, as page.html, page.css and the scripts have them (embed_page.cmake).
extern const std::string_view kPageHtml;
extern const std::string_view kPageStyle;
extern const std::string_view kPageModelScript;
extern const std::string_view kPageTimelineScript;
extern const std::string_view kPageTablesScript;

}  // namespace millrace::cli
