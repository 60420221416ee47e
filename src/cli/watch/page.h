// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace millrace::cli {

// The parts of the page of runs, as page.html, page.css and the scripts have them (embed_page.cmake).
extern const std::string_view kWatchPageHtml;
extern const std::string_view kWatchPageStyle;
extern const std::string_view kWatchPageSourceScript;
extern const std::string_view kWatchPageChartScript;
extern const std::string_view kWatchPageCardsScript;
extern const std::string_view kWatchPageMainScript;

}  // namespace millrace::cli
