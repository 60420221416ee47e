// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

namespace millrace {

// A child of fork() has one thread: those that its objects count on are not there, and locks that other
// threads held stay locked. What is made for the whole process is made anew there; what belongs to the
// program (sessions) is marked, and refuses to work.

// Calls `fn` in each child that is forked from here on, before fork() returns there. It may allocate memory;
// it takes no lock that another thread may have held.
void RunInForkedChildren(void (*fn)());

// How many forks lie between this process and the start of the program.
extern std::atomic<int> fork_count;
inline int ForkCount() {
  return fork_count.load(std::memory_order_relaxed);
}  // one thread runs when it is written

// Remembers the process in which it was made.
class ForkMark {
 public:
  ForkMark() : count_(ForkCount()) {}
  bool is_of_this_process() const { return count_ == ForkCount(); }

 private:
  int count_;
};

// The T of this process, never destroyed. Making one starts no threads.
template <typename T>
T& OfProcess() {
  static std::atomic<T*> value = [] {
    RunInForkedChildren([] { value.store(new T, std::memory_order_release); });
    return new T;
  }();
  return *value.load(std::memory_order_acquire);  // acquires what the child's first thread made
}

}  // namespace millrace
