// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes the environment variable MILLRACE_TEST_CONFIG (docs/soundness.md) configure the sessions of a test
// program. Linked into test programs only.
#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/logging.h"
#include "base/strings.h"
#include "distributed/in_process_cluster.h"
#include "kernels/device/fake_kernels_testing.h"
#include "rpc/register.h"
#include "session/test_config.h"

namespace millrace {
namespace {

constexpr const char* kVariable = "MILLRACE_TEST_CONFIG";
constexpr int64_t kMaxThreads = 1024;
constexpr int kTasks = 3;

// One of "threads=N", "two_cpus[=SEED]", "device[=SEED]", "cluster[=SEED]",
// "cluster_grpc[=SEED]", "delays[=SEED]", "aborts[=SEED]".
Status ReadItem(std::string_view item, TestConfig* config) {
  const size_t equals = std::min(item.find('='), item.size());
  const std::string_view name = item.substr(0, equals);
  int64_t number = 1;
  if (equals < item.size()) {
    const auto value = SafeStringToInt64(item.substr(equals + 1));
    if (!value || *value < 1) return errors::InvalidArgument(kVariable, ": no positive number in ", item);
    number = *value;
  }
  const auto seed = static_cast<uint64_t>(number);
  if (name == "threads" && equals < item.size() && number <= kMaxThreads) {
    config->threads = static_cast<int>(number);
  } else if (name == "two_cpus") {
    config->spread_seed = seed;
  } else if (name == "device") {
    MR_RETURN_IF_ERROR(RegisterFakeDevices());
    config->spread_seed = seed;
    config->spread_over_types = true;
  } else if (name == "cluster" || name == "cluster_grpc") {
    InProcessClusterOptions options{.num_tasks = kTasks, .seed = seed};
    if (name == "cluster_grpc") {
      MR_RETURN_IF_ERROR(RegisterGrpc());
      options.protocol = "grpc";
    }
    config->spread_seed = seed;
    config->spread_over_tasks = true;
    config->other_tasks = InProcessCluster::Maker(options);
  } else if (name == "delays" || name == "aborts") {
    (name == "delays" ? config->faults.delays : config->faults.aborts) = true;
    config->faults.seed = seed;
  } else {
    return errors::InvalidArgument(kVariable, ": unknown: ", item);
  }
  return Status();
}

StatusOr<TestConfig> ReadEnvironment() {
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

[[maybe_unused]] const bool installed = [] {
  SetTestConfigReader(ReadEnvironment);
  return true;
}();

}  // namespace
}  // namespace millrace
