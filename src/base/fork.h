// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

namespace millrace {

// A child of fork() has one thread: the threads that its objects rely on do not exist, and locks that other
// threads held stay locked. Objects of the whole process are created anew there; objects of the program
// (sessions) are marked, and refuse calls.

// Calls `fn` in each child of a later fork, before fork() returns there. It may allocate memory; it must not
// take a lock that another thread may have held.
void RunInForkedChildren(void (*fn)());

// The number of forks between the start of the program and this process.
extern std::atomic<int> fork_count;
inline int ForkCount() {
  return fork_count.load(std::memory_order_relaxed);
}  // one thread runs when it is written

// Remembers the process that created it.
class ForkMark {
 public:
  ForkMark() : count_(ForkCount()) {}
  bool is_of_this_process() const { return count_ == ForkCount(); }

 private:
  int count_;
};

// The T of this process, never destroyed. Its constructor must start no threads.
template <typename T>
T& OfProcess() {
  static std::atomic<T*> value = [] {
    RunInForkedChildren([] { value.store(new T, std::memory_order_release); });
    return new T;
  }();
  return *value.load(std::memory_order_acquire);  // acquires what the child's first thread made
}

}  // namespace millrace
