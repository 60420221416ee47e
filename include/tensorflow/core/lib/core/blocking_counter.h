// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Waits until an event has happened a given number of times.
#ifndef TENSORFLOW_CORE_LIB_CORE_BLOCKING_COUNTER_H_
#define TENSORFLOW_CORE_LIB_CORE_BLOCKING_COUNTER_H_

#include "tensorflow/core/platform/mutex.h"

namespace tensorflow {

class BlockingCounter {
 public:
  explicit BlockingCounter(int count) : left_(count) {}
  void DecrementCount() {
    mutex_lock lock(mu_);
    if (--left_ == 0) done_.notify_all();
  }
  void Wait() {
    mutex_lock lock(mu_);
    while (left_ > 0) done_.wait(lock);
  }

 private:
  mutex mu_;
  condition_variable done_;
  int left_;
};

}  // namespace tensorflow

#endif
