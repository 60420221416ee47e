// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "device/device.h"
#include "millrace/session.h"
#include "step/step_compiler.h"

namespace millrace {

// The devices that the options ask for. The limit of the BFC allocator that CPUs use comes from the
// environment where they say nothing.
StatusOr<DeviceOptions> DeviceOptionsOf(const SessionOptions& options);

// The options of the session's compilers. The passes to leave out are those of the options, and those of the
// environment variable MILLRACE_DISABLE_PASSES ("all", or names with commas), which lets a test suite run
// without them.
CompileOptions CompileOptionsOf(const SessionOptions& options);

// The task that the options name as the leader of collective groups, in full; empty: none.
StatusOr<std::string> CollectiveLeaderOf(const SessionOptions& options);

}  // namespace millrace
