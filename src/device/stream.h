// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/function.h"
#include "millrace/ref.h"
#include "millrace/status.h"

namespace millrace {

// A position in a stream. It is reached when all earlier work in the stream has ended.
// Thread-safe.
class Event : public RefCounted {
 public:
  using Callback = UniqueFunction<void(const Status&)>;
  // Calls `callback` once when the event is reached: from this thread when it is already, else from the
  // device's, with no lock held; callbacks of one stream in the order of their events. The status is OK, or
  // the error of the stream. A callback must not block.
  virtual void Then(Callback callback) = 0;
  // The time when it was reached, by std::chrono::steady_clock. REQUIRES: it is reached.
  virtual int64_t TimeNs() const = 0;
  // Blocks the calling thread until the event is reached.
  Status Wait();
};

// The work of a device, executed in order. The form of work, and how a kernel adds it, depend on the device
// type: kernels cast the device to its type. Work holds no pointer into the step that added it; it may use
// device memory that was freed since (see Device::allocator).
//
// An error of work stays with the stream: the device is lost, and every later event reports it. Errors in the
// inputs of a kernel are not such errors; an error that depends on values is detected by an asynchronous
// kernel, which waits for its own work. Thread-safe.
class Stream {
 public:
  virtual ~Stream() = default;
  // An event after all work in the stream.
  virtual RefPtr<Event> Record() = 0;
  // Work that is added from now on starts after `event`, of any stream.
  virtual void WaitFor(RefPtr<Event> event) = 0;
};

}  // namespace millrace
