// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "millrace/session.h"

namespace millrace {

// The limit of the BFC allocator that CPUs use, by the options or, where they say nothing, the environment;
// 0: none.
StatusOr<int64_t> CpuBfcLimit(const SessionOptions& options);

// The passes of compile/ to leave out: those of the options, and those of the environment variable
// MILLRACE_DISABLE_PASSES ("all", or names with commas), which lets a test suite run without them.
std::set<std::string> DisabledPasses(const SessionOptions& options);

// The task that the options name as the leader of collective groups, in full; empty: none.
StatusOr<std::string> CollectiveLeaderOf(const SessionOptions& options);

}  // namespace millrace
