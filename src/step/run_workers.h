// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "millrace/status.h"
#include "step/step_compiler.h"
#include "step/worker.h"

namespace millrace {

// Runs a step of several tasks: starts all of its partitions and waits for all. The first error wins and
// aborts the others; it says from which task it is. What the workers measured is put together in
// args.metadata, and what they keep for the step is dropped. Workers behind connections are started first.

// On the calling thread, as far as partitions run in this process.
Status RunOnWorkers(const CompiledStep& step, const StepArgs& args);
// Without a thread that waits: `done` is called once, when nothing of the step runs any more, perhaps before
// this returns. What args refer to must live until then.
void StartOnWorkers(const CompiledStep& step, const StepArgs& args, InstalledPartition::Done done);

}  // namespace millrace
