// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "device/device.h"
#include "millrace/session.h"
#include "step/step_compiler.h"

namespace millrace {

// The devices in the options. If these have no limit of the BFC allocator for CPUs, it comes from the
// environment.
StatusOr<DeviceOptions> DeviceOptionsOf(const SessionOptions& options);
// InvalidArgument for numbers of threads that cannot be: negative ones, except -1 between nodes, and too
// many.
Status CheckThreads(const SessionOptions& options);

// The options of the session's compilers. Disabled passes are those of the options, and those of the
// environment variable MILLRACE_DISABLE_PASSES ("all", or a comma-separated list of names), with which a test
// suite runs without them.
CompileOptions CompileOptionsOf(const SessionOptions& options);

// The full name of the leader of collective groups in the options; empty: none.
StatusOr<std::string> CollectiveLeaderOf(const SessionOptions& options);

}  // namespace millrace
