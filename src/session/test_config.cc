// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "session/test_config.h"

#include <atomic>

namespace millrace {
namespace {

std::atomic<TestConfigReader> g_reader{nullptr};

}  // namespace

void SetTestConfigReader(TestConfigReader reader) { g_reader.store(reader); }

StatusOr<TestConfig> ReadTestConfig() {
  const TestConfigReader reader = g_reader.load();
  return reader == nullptr ? TestConfig() : reader();
}

SessionOptions WithTestConfig(const TestConfig& config, SessionOptions options) {
  if (config.threads > 0) {
    options.inter_op_parallelism_threads = config.threads;
    options.intra_op_parallelism_threads = config.threads;
  }
  if (config.spread_over_types) {
    options.device_count.try_emplace("FAKE", 2);
  } else if (config.spread_seed != 0 && !config.spread_over_tasks) {
    options.device_count.try_emplace("CPU", 2);
  }
  return options;
}

}  // namespace millrace
