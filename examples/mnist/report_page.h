// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace millrace::mnist {

// The files report_page.html, report_style.css and report_script.js, built into the program. The HTML names
// the places of the others, and of what a run fills in, as @STYLE@, @SCRIPT@, @TITLE@, @SUMMARY@, @SPRITE@
// and @DATA@.
extern const std::string_view kReportHtml;
extern const std::string_view kReportStyle;
extern const std::string_view kReportScript;

}  // namespace millrace::mnist
