// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Mutexes and locks under TensorFlow's names.
#ifndef TENSORFLOW_CORE_PLATFORM_MUTEX_H_
#define TENSORFLOW_CORE_PLATFORM_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "tensorflow/core/platform/thread_annotations.h"
#include "tensorflow/core/platform/types.h"

namespace tensorflow {

enum LinkerInitialized { LINKER_INITIALIZED };

class mutex {
 public:
  mutex() {}
  explicit mutex(LinkerInitialized) {}
  mutex(const mutex&) = delete;
  mutex& operator=(const mutex&) = delete;
  virtual ~mutex() {}
  virtual void lock() { mu_.lock(); }
  virtual void unlock() { mu_.unlock(); }
  bool try_lock() { return mu_.try_lock(); }

 private:
  std::mutex mu_;
};

class mutex_lock {
 public:
  explicit mutex_lock(mutex& mu) : mu_(mu) { mu_.lock(); }
  mutex_lock(const mutex_lock&) = delete;
  mutex_lock& operator=(const mutex_lock&) = delete;
  ~mutex_lock() { mu_.unlock(); }

 private:
  friend class condition_variable;
  mutex& mu_;
};

// A lock for readers; here they exclude each other, too.
using tf_shared_lock = mutex_lock;

enum ConditionResult { kCond_Timeout, kCond_MaybeNotified };

class condition_variable {
 public:
  condition_variable() {}
  condition_variable(const condition_variable&) = delete;
  condition_variable& operator=(const condition_variable&) = delete;
  void wait(mutex_lock& lock) { changed_.wait(lock.mu_); }
  template <typename Condition>
  void wait(mutex_lock& lock, Condition condition) {
    while (!condition()) wait(lock);
  }
  template <typename Rep, typename Period>
  std::cv_status wait_for(mutex_lock& lock, std::chrono::duration<Rep, Period> time) {
    return changed_.wait_for(lock.mu_, time);
  }
  void notify_one() { changed_.notify_one(); }
  void notify_all() { changed_.notify_all(); }

 private:
  std::condition_variable_any changed_;
};

inline ConditionResult WaitForMilliseconds(mutex_lock* lock, condition_variable* changed, int64 ms) {
  const std::cv_status status = changed->wait_for(*lock, std::chrono::milliseconds(ms));
  return status == std::cv_status::timeout ? kCond_Timeout : kCond_MaybeNotified;
}

}  // namespace tensorflow

#endif
