// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "millrace/status.h"
#include "step/step_compiler.h"
#include "step/worker.h"

namespace millrace {

// Runs a step of several tasks: starts all of its partitions and waits for all. The first error aborts the
// others and is returned; it names its task. Measurements of the workers are collected in args.metadata, and
// their state of the step is dropped. Workers behind connections are started first.

// On the calling thread, for partitions that run in this process.
Status RunOnWorkers(const CompiledStep& step, const StepArgs& args);
// Without a blocked thread: `done` is called once, when nothing of the step runs any more, possibly before
// this returns. Objects in args must live until then.
void StartOnWorkers(const CompiledStep& step, const StepArgs& args, InstalledPartition::Done done);

}  // namespace millrace
