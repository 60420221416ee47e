// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

namespace millrace {

// Orders what was written before an operation of gRPC was started before what is done at its event. gRPC
// orders them too, but inside libraries that were built without ThreadSanitizer, which would take each such
// access for a race. Belongs to the object that is the operation's tag. Thread-safe.
class EventOrder {
 public:
  // Before the operation is started. Release: pairs with AtEvent.
  void BeforeStart() { started_.store(true, std::memory_order_release); }
  // First at the event. Acquire: pairs with BeforeStart.
  void AtEvent() const { static_cast<void>(started_.load(std::memory_order_acquire)); }

 private:
  std::atomic<bool> started_{false};
};

}  // namespace millrace
