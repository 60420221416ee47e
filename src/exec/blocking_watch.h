// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/mutex.h"
#include "millrace/ref.h"

namespace millrace {

class ReadyQueue;

// Checks the steps with calls that are deferred behind one that may block. One thread of the process does so
// as long as there are such steps, and a little longer. Thread-safe.
class BlockingWatch {
 public:
  static BlockingWatch& Global();
  // Calls queue->Look() every half a millisecond until it returns false. The caller holds no lock of the
  // queue.
  void Add(RefPtr<ReadyQueue> queue) MR_EXCLUDES(mu_);

 private:
  void Loop() MR_EXCLUDES(mu_);

  Mutex mu_;
  std::vector<RefPtr<ReadyQueue>> queues_ MR_GUARDED_BY(mu_);
  bool runs_ MR_GUARDED_BY(mu_) = false;
};

}  // namespace millrace
