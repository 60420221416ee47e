// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "millrace/status.h"

namespace millrace {

// A device name, any part of which may be missing: "/job:w/replica:0/task:1/device:GPU:2", "/gpu:2",
// "/device:CPU:*", "".
struct DeviceName {
  std::optional<std::string> job;
  std::optional<int> replica;
  std::optional<int> task;
  std::optional<std::string> type;  // upper case for the legacy spellings "/cpu:0" and "/gpu:0"
  std::optional<int> index;

  // Accepts full and legacy spellings, parts in any order, '*' for replica, task or index. InvalidArgument
  // "Malformed device specification '...'" otherwise.
  static StatusOr<DeviceName> Parse(std::string_view text);
  // Full spelling of the parts that are set; "" when none is.
  std::string ToString() const;

  bool IsFullySpecified() const { return job && replica && task && type && index; }
  bool HasAnything() const { return job || replica || task || type || index; }
  // Every part set here has the same value in `o`: `o` matches this name.
  bool Describes(const DeviceName& o) const;
  bool SameTask(const DeviceName& o) const { return job == o.job && replica == o.replica && task == o.task; }
  // Parts that are set in `o` take precedence.
  DeviceName OverriddenBy(const DeviceName& o) const;
  // InvalidArgument when both set a part to different values; with allow_soft the type and index in conflict
  // are dropped.
  Status MergeFrom(const DeviceName& o, bool allow_soft = false);
  friend bool operator==(const DeviceName&, const DeviceName&) = default;
};

// "/job:w/replica:0/task:1/device:GPU:2" -> "/job:w/replica:0/task:1" and "device:GPU:2"; false when it isn't
// full.
bool SplitDeviceName(std::string_view name, std::string* task, std::string* device);

}  // namespace millrace
