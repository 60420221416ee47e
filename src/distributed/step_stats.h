// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "millrace/run_metadata.h"
#include "millrace/status.h"

namespace tensorflow {
class StepStats;
}

namespace millrace {

// Appends what another task measured to metadata->devices. Its times, of the wall clock, become times since
// metadata->step_start_unix_us. InvalidArgument for what no task of a step can have measured.
Status AppendStepStats(const tensorflow::StepStats& stats, RunMetadata* metadata);

}  // namespace millrace
