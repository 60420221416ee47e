// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "base/fork.h"

#include <pthread.h>

namespace millrace {

std::atomic<int> fork_count{0};

namespace {

[[maybe_unused]] const bool counts = [] {
  RunInForkedChildren([] { fork_count.fetch_add(1, std::memory_order_relaxed); });
  return true;
}();

}  // namespace

void RunInForkedChildren(void (*fn)()) { ::pthread_atfork(nullptr, nullptr, fn); }

}  // namespace millrace
