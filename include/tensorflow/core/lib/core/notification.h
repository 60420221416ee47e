// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// An event that happens once, and can be waited for.
#ifndef TENSORFLOW_CORE_LIB_CORE_NOTIFICATION_H_
#define TENSORFLOW_CORE_LIB_CORE_NOTIFICATION_H_

#include "tensorflow/core/platform/mutex.h"

namespace tensorflow {

class Notification {
 public:
  Notification() : notified_(false) {}
  void Notify() {
    mutex_lock lock(mu_);
    notified_ = true;
    changed_.notify_all();
  }
  bool HasBeenNotified() {
    mutex_lock lock(mu_);
    return notified_;
  }
  void WaitForNotification() {
    mutex_lock lock(mu_);
    while (!notified_) changed_.wait(lock);
  }

 private:
  mutex mu_;
  condition_variable changed_;
  bool notified_;
};

}  // namespace tensorflow

#endif
