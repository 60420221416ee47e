// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "cli/trace/analysis.h"
#include "cli/trace/trace.h"
#include "millrace/status.h"

namespace millrace::cli {

// A trace with the results of its analysis.
struct TraceReport {
  std::string source;  // the file's name, shown in the title
  Trace trace;
  std::vector<OpTotal> totals;
  CriticalPath path;
  std::vector<MemoryCurve> memory;
  size_t events_in_graph = 0;
};

// `graph_file` ("" for none) is the text or the bytes of a GraphDef; it is used when the message has no
// partition graphs.
StatusOr<TraceReport> MakeTraceReport(std::string_view run_metadata, std::string_view graph_file,
                                      std::string source);

// One HTML page that loads nothing else.
std::string RenderPage(const TraceReport& report);
// The data of the page: a JSON document.
std::string PageData(const TraceReport& report);
// A JSON object for programs, without the events: figures, totals, critical path.
std::string SummaryJson(const TraceReport& report);

}  // namespace millrace::cli
