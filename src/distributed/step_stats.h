// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "millrace/run_metadata.h"
#include "millrace/status.h"

namespace tensorflow {
class StepStats;
}

namespace millrace {

// Appends what another task measured to metadata->devices. Its times, of its wall clock, which shows
// `clock_offset_us` more than that of this task, become times since metadata->step_start_unix_us.
// InvalidArgument for what no task of a step can have measured.
Status AppendStepStats(const tensorflow::StepStats& stats, int64_t clock_offset_us, RunMetadata* metadata);

}  // namespace millrace
