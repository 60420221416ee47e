// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "io/event_file.h"
#include "kernels/cpu/logging/summary_sink.h"

namespace millrace {

// An event file.
class EventLog final : public SummarySink {
 public:
  // Flushes after `most_held` events.
  EventLog(std::unique_ptr<io::EventWriter> writer, int64_t most_held)
      : writer_(std::move(writer)), most_held_(most_held) {}
  ~EventLog() override = default;

  Status Write(const tensorflow::Event& event, const CancellationManager* /*cancellation*/) override {
    MutexLock lock(mu_);
    MR_RETURN_IF_ERROR(writer_->Write(event));
    if (++held_ <= most_held_) return Status();
    held_ = 0;
    return writer_->Flush();
  }
  Status Flush() override {
    MutexLock lock(mu_);
    held_ = 0;
    return writer_->Flush();
  }
  Status Close() override {
    MutexLock lock(mu_);
    return writer_->Close();
  }
  bool keeps_scalar_types() const override { return false; }
  std::string DebugString() const override { return "EventsFileWriter"; }

 private:
  Mutex mu_;
  const std::unique_ptr<io::EventWriter> writer_ MR_GUARDED_BY(mu_);
  int64_t held_ MR_GUARDED_BY(mu_) = 0;
  const int64_t most_held_;
};

}  // namespace millrace
