// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "device/device_view.h"
#include "graph/graph.h"
#include "millrace/run_metadata.h"

namespace millrace {

// The costs of nodes, measured in traced steps: by name of the node and device. Thread-safe.
class CostModel {
 public:
  struct Cost {
    int64_t runs = 0;
    int64_t total_ns = 0;
    int64_t peak_bytes = 0;                       // maximum of its own memory in use
    std::vector<NodeStats::Output> outputs = {};  // of the last run
    int64_t average_ns() const { return runs == 0 ? 0 : total_ns / runs; }
  };
  void Record(std::span<const DeviceStats> devices) MR_EXCLUDES(mu_);
  // On that device, else on another one (as an estimate); empty if it was never measured.
  std::optional<Cost> Find(std::string_view node, std::string_view device) const MR_EXCLUDES(mu_);

 private:
  mutable Mutex mu_;
  std::map<std::string, std::map<std::string, Cost, std::less<>>, std::less<>> costs_ MR_GUARDED_BY(mu_);
};

// The costs that placement by cost uses. Times in nanoseconds.
struct PlacementCosts {
  std::function<int64_t(const Node& node, const DeviceDescription& device, int64_t input_bytes,
                        int64_t output_bytes)>
      compute_ns;
  std::function<int64_t(const Node& node, int output)> output_bytes;  // -1: not known
  std::function<int64_t(const DeviceDescription& from, const DeviceDescription& to, int64_t bytes)>
      transfer_ns;
};

// Measured costs if there are any; else estimates from the op's traits and the sizes of its inputs and
// outputs. Transfers cost a fixed time and one by size. REQUIRES: `model` outlives the result.
PlacementCosts CostsOf(const CostModel& model);

}  // namespace millrace
