// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "millrace/status.h"
#include "millrace/tensor.h"

namespace millrace {

// The tensor in a file, and the debug op that produced it.
struct DumpKey {
  std::string_view device;  // "/job:localhost/replica:0/task:0/device:CPU:0"; may be empty
  std::string_view tensor;  // "node:0"
  std::string_view op;      // "DebugIdentity"
};

// Unimplemented for URLs that are not file URLs, InvalidArgument for a name that leaves the URL's folder.
Status CheckDumps(std::string_view tensor, const std::vector<std::string>& urls);

// Writes `value`, which may be uninitialized, as an Event to a new file below each URL's folder:
// FOLDER/_tfdbg_device_DEVICE/NODE_OUTPUT_OP_MICROSECONDS. The folders are created.
Status DumpTensor(const DumpKey& key, const std::vector<std::string>& urls, const Tensor& value);

}  // namespace millrace
