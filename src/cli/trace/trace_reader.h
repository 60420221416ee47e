// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "cli/trace/dependencies.h"
#include "cli/trace/trace.h"
#include "millrace/status.h"

namespace millrace::cli {

// The most events that a trace may have; more are ResourceExhausted.
inline constexpr size_t kMostTraceEvents = 4'000'000;

// Reads the step statistics of a serialised tensorflow.RunMetadata, of this engine or of TensorFlow's. Errors
// on bytes that are no such message, and when no event is in it. Memory is in proportion to the bytes.
StatusOr<Trace> ReadTrace(std::string_view run_metadata);

// Adds the partition graphs of the message to `graph`.
Status ReadPartitionGraphs(std::string_view run_metadata, DependencyGraph* graph);

// Adds a GraphDef, serialised or in text form, to `graph`.
Status ReadGraphFile(std::string_view bytes, DependencyGraph* graph);

}  // namespace millrace::cli
