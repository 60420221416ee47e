// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "millrace/session.h"
#include "session/other_tasks.h"
#include "step/fault_injector.h"

namespace millrace {

// Changes to a session so that a test suite runs under harder conditions.
struct TestConfig {
  int threads = 0;                 // > 0: threads for nodes and for loops, regardless of the options
  uint64_t spread_seed = 0;        // not 0: nodes are spread over the CPUs, of which there are at least two
  bool spread_over_tasks = false;  // `spread_seed` is for tasks: a CPU more is not needed
  bool spread_over_types = false;  // the CPU, and devices of the type "FAKE", of which there are two
  MakeOtherTasks other_tasks;      // empty: the session is alone
  FaultOptions faults;
};

// The options, changed by the configuration.
SessionOptions WithTestConfig(const TestConfig& config, SessionOptions options);

// Sets the reader that configures new direct sessions. Programs of the product have none, and the
// environment does not affect their sessions; test programs link mr_test_environment, which sets one before
// main().
using TestConfigReader = StatusOr<TestConfig> (*)();
void SetTestConfigReader(TestConfigReader reader);
// The reader's configuration; without a reader the default.
StatusOr<TestConfig> ReadTestConfig();

}  // namespace millrace
