// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace millrace::data {

// The destination of statistics of iterators. Thread-safe.
class StatsAggregator {
 public:
  virtual ~StatsAggregator() = default;
  virtual void AddToHistogram(const std::string& name, double value) = 0;
  virtual void AddToCounter(const std::string& name, int64_t value) = 0;
};

}  // namespace millrace::data
