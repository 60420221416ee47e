// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/trace_command.h"

#include "cli/trace/report.h"

namespace millrace::cli {
namespace {

// Beyond this a page would be too large for a browser, too.
constexpr uint64_t kMostFileBytes = uint64_t{2} << 30;

}  // namespace

StatusOr<std::string> RunTrace(Env& env, const TraceOptions& options) {
  MR_ASSIGN_OR_RETURN(const std::string run_metadata,
                      ReadFileToString(env, options.run_metadata, kMostFileBytes));
  std::string graph;
  if (!options.graph.empty()) {
    MR_ASSIGN_OR_RETURN(graph, ReadFileToString(env, options.graph, kMostFileBytes));
    if (graph.empty()) return errors::InvalidArgument(options.graph, "; a graph without nodes");
  }
  const std::string name = options.run_metadata.substr(options.run_metadata.rfind('/') + 1);
  auto report = MakeTraceReport(run_metadata, graph, name);
  if (!report.ok()) return report.status().WithContext(StrCat(" (reading ", options.run_metadata, ")"));
  MR_RETURN_IF_ERROR(WriteFileAtomically(env, options.output, RenderPage(*report)));
  return SummaryJson(*report);
}

}  // namespace millrace::cli
