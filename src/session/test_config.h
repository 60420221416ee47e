// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "millrace/session.h"
#include "step/fault_injector.h"

namespace millrace {

// What every session of a process does differently so that a test suite runs under harder conditions. Read
// from the environment variable MILLRACE_TEST_CONFIG when a session is made (docs/soundness.md); without it
// nothing is different, and what it would change is not even built.
struct TestConfig {
  int threads = 0;           // > 0: threads for nodes and for loops, whatever the options say
  uint64_t spread_seed = 0;  // not 0: at least two CPUs, and nodes strewn over them
  FaultOptions faults;
};

// InvalidArgument when the variable says something unknown.
StatusOr<TestConfig> ReadTestConfig();
// The options with what the configuration says about them.
SessionOptions WithTestConfig(const TestConfig& config, SessionOptions options);

}  // namespace millrace
