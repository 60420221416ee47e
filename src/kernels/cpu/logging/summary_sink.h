// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "base/cancellation.h"
#include "kernel/resource.h"
#include "millrace/status.h"

namespace tensorflow {
class Event;
}  // namespace tensorflow

namespace millrace {

// The current time in the unit of events: seconds since 1970.
inline double EventTime() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The target of the ops that write summaries: an event file or a database. Many steps may share one.
// Thread-safe; writes block on the disk.
class SummarySink : public Resource {
 public:
  // `cancellation`, of the writing step, ends waits for other writers; null: nothing does.
  virtual Status Write(const tensorflow::Event& event, const CancellationManager* cancellation) = 0;
  virtual Status Flush() = 0;
  virtual Status Close() = 0;
  // Whether scalars keep their type, as tensors of the plugin "scalars"; otherwise they become floats.
  virtual bool keeps_scalar_types() const = 0;
};

}  // namespace millrace
