// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/function.h"
#include "millrace/ref.h"
#include "millrace/status.h"

namespace millrace {

// A place in a stream. It is reached when all work that was put into the stream before it has ended.
// Thread-safe.
class Event : public RefCounted {
 public:
  using Callback = UniqueFunction<void(const Status&)>;
  // Calls `callback` once when the event is reached: from this thread when it is already, else from the
  // device's, with no lock held; callbacks of one stream in the order of their events. The status is OK, or
  // the error of the stream. A callback must not block.
  virtual void Then(Callback callback) = 0;
  // When it was reached, by std::chrono::steady_clock. REQUIRES: it is reached.
  virtual int64_t TimeNs() const = 0;
  // Blocks the calling thread until the event is reached.
  Status Wait();
};

// The work of a device, done in the order in which it is put in. What work is, and how a kernel puts it in,
// is a matter of the type of device: kernels know their device by its type. Work holds no pointer into the
// step that put it in; it may use device memory that was given back since (see Device::allocator).
//
// An error of work stays with the stream: the device is lost, and every event that is reached later says so.
// What a kernel finds wrong with its inputs is no such error; one that depends on values is found by an
// asynchronous kernel, which waits for its own work. Thread-safe.
class Stream {
 public:
  virtual ~Stream() = default;
  // An event behind all work that is in the stream.
  virtual RefPtr<Event> Record() = 0;
  // Work that is put in from now on starts after `event`, of whichever stream.
  virtual void WaitFor(RefPtr<Event> event) = 0;
};

}  // namespace millrace
