// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "session/test_config.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/logging.h"
#include "base/strings.h"

namespace millrace {
namespace {

constexpr const char* kVariable = "MILLRACE_TEST_CONFIG";
constexpr int64_t kMaxThreads = 1024;

// One of "threads=N", "two_cpus[=SEED]", "delays[=SEED]", "aborts[=SEED]".
Status ReadItem(std::string_view item, TestConfig* config) {
  const size_t equals = std::min(item.find('='), item.size());
  const std::string_view name = item.substr(0, equals);
  int64_t number = 1;
  if (equals < item.size()) {
    const auto value = SafeStringToInt64(item.substr(equals + 1));
    if (!value || *value < 1) return errors::InvalidArgument(kVariable, ": no positive number in ", item);
    number = *value;
  }
  if (name == "threads" && equals < item.size() && number <= kMaxThreads) {
    config->threads = static_cast<int>(number);
  } else if (name == "two_cpus") {
    config->spread_seed = static_cast<uint64_t>(number);
  } else if (name == "delays" || name == "aborts") {
    (name == "delays" ? config->faults.delays : config->faults.aborts) = true;
    config->faults.seed = static_cast<uint64_t>(number);
  } else {
    return errors::InvalidArgument(kVariable, ": unknown: ", item);
  }
  return Status();
}

}  // namespace

StatusOr<TestConfig> ReadTestConfig() {
  TestConfig config;
  const char* variable = std::getenv(kVariable);
  std::string_view items = variable == nullptr ? "" : variable;
  if (items.empty()) return config;
  static const bool warned = [&] {
    MR_LOG(Warning) << kVariable << "=" << items << ": sessions run as tests want them";
    return true;
  }();
  (void)warned;
  while (!items.empty()) {
    const size_t comma = std::min(items.find(','), items.size());
    MR_RETURN_IF_ERROR(ReadItem(items.substr(0, comma), &config));
    items.remove_prefix(std::min(comma + 1, items.size()));
  }
  return config;
}

SessionOptions WithTestConfig(const TestConfig& config, SessionOptions options) {
  if (config.threads > 0) {
    options.inter_op_parallelism_threads = config.threads;
    options.intra_op_parallelism_threads = config.threads;
  }
  if (config.spread_seed != 0) options.device_count.try_emplace("CPU", 2);
  return options;
}

}  // namespace millrace
