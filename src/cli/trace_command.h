// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/env.h"
#include "millrace/status.h"

namespace millrace::cli {

struct TraceOptions {
  std::string run_metadata;  // path of a serialised tensorflow.RunMetadata
  std::string graph;         // path of a GraphDef, serialised or text; "" for none
  std::string output;        // path of the page
};

// Writes the timeline of a traced step as an HTML page; the file at `output` is replaced atomically or, on an
// error, unchanged. Returns the figures as a JSON object. Errors name the file.
StatusOr<std::string> RunTrace(Env& env, const TraceOptions& options);

}  // namespace millrace::cli
