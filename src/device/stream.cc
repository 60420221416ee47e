// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "device/stream.h"

#include "base/notification.h"

namespace millrace {

Status Event::Wait() {
  Notification reached;
  Status result;
  Then([&](const Status& status) {
    result = status;
    reached.Notify();
  });
  reached.Wait();
  return result;
}

}  // namespace millrace
