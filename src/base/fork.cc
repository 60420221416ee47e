// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "base/fork.h"

#include <pthread.h>

namespace millrace {
namespace {

std::atomic<int> forks{0};

}  // namespace

void RunInForkedChildren(void (*fn)()) { ::pthread_atfork(nullptr, nullptr, fn); }

int ForkCount() {
  [[maybe_unused]] static const bool counts = [] {
    RunInForkedChildren([] { forks.fetch_add(1, std::memory_order_relaxed); });
    return true;
  }();
  return forks.load(std::memory_order_relaxed);  // written while the process has one thread
}

}  // namespace millrace
