// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "millrace/run_metadata.h"
#include "millrace/status.h"

namespace tensorflow {
class StepStats;
}

namespace millrace {

// Appends measurements of another task to metadata->devices. Times of its wall clock, which is
// `clock_offset_us` ahead of that of this task, become times since metadata->step_start_unix_us.
// InvalidArgument for impossible measurements.
Status AppendStepStats(const tensorflow::StepStats& stats, int64_t clock_offset_us, RunMetadata* metadata);

}  // namespace millrace
