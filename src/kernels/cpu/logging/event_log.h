// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "io/event_file.h"
#include "kernel/resource.h"
#include "millrace/status.h"

namespace tensorflow {
class Event;
}  // namespace tensorflow

namespace millrace {

// Now, as events have it: seconds since 1970.
inline double EventTime() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// An event file that many steps may write to. Thread-safe; writes block on the disk.
class EventLog final : public Resource {
 public:
  // Flushes after `most_held` events.
  EventLog(std::unique_ptr<io::EventWriter> writer, int64_t most_held)
      : writer_(std::move(writer)), most_held_(most_held) {}
  ~EventLog() override = default;

  Status Write(const tensorflow::Event& event) {
    MutexLock lock(mu_);
    MR_RETURN_IF_ERROR(writer_->Write(event));
    if (++held_ <= most_held_) return Status();
    held_ = 0;
    return writer_->Flush();
  }
  Status Flush() {
    MutexLock lock(mu_);
    held_ = 0;
    return writer_->Flush();
  }
  Status Close() {
    MutexLock lock(mu_);
    return writer_->Close();
  }
  std::string DebugString() const override { return "EventsFileWriter"; }

 private:
  Mutex mu_;
  const std::unique_ptr<io::EventWriter> writer_ MR_GUARDED_BY(mu_);
  int64_t held_ MR_GUARDED_BY(mu_) = 0;
  const int64_t most_held_;
};

}  // namespace millrace
