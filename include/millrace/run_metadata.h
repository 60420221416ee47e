// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "millrace/dtype.h"
#include "millrace/shape.h"

namespace tensorflow {
class RunMetadata;
}

namespace millrace {

// One run of one node. Times are in nanoseconds of the steady clock; `start_ns` counts from the start of the
// step.
struct NodeStats {
  std::string node;
  std::string op;
  std::string label;  // "name = Op(input, input)", as timelines show it
  int64_t scheduled_ns = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  uint32_t thread = 0;  // 0 is the thread that called Run
  struct Output {
    DataType dtype = DataType::kInvalid;
    TensorShape shape;
    int64_t bytes = 0;
  };
  std::vector<Output> outputs;
};

struct DeviceStats {
  std::string device;
  std::vector<NodeStats> nodes;
};

// What a Run with tracing tells about itself.
struct RunMetadata {
  int64_t step_start_unix_us = 0;
  std::vector<DeviceStats> devices;
  std::vector<std::string> partition_graphs;  // serialised GraphDefs, when asked for

  // The wire form.
  void ToProto(tensorflow::RunMetadata* proto) const;
  // A JSON document in the Chrome trace-event format, which Perfetto and chrome://tracing open.
  std::string ToChromeTrace() const;
};

}  // namespace millrace
