// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

namespace millrace {

// Orders writes before the start of an operation of gRPC before accesses at its event. gRPC orders them too,
// but inside libraries that were built without ThreadSanitizer, which would report each such access as a
// race. Member of the object that is the operation's tag. Thread-safe.
class EventOrder {
 public:
  // To be called before the operation is started. Release: pairs with AtEvent.
  void BeforeStart() { started_.store(true, std::memory_order_release); }
  // To be called first at the event. Acquire: pairs with BeforeStart.
  void AtEvent() const { static_cast<void>(started_.load(std::memory_order_acquire)); }

 private:
  std::atomic<bool> started_{false};
};

}  // namespace millrace
