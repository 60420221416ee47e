// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>

// Clang's thread-safety annotations; empty for other compilers.
#if defined(__clang__)
#define MR_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define MR_THREAD_ANNOTATION(x)
#endif
#define MR_GUARDED_BY(x) MR_THREAD_ANNOTATION(guarded_by(x))
#define MR_PT_GUARDED_BY(x) MR_THREAD_ANNOTATION(pt_guarded_by(x))
#define MR_REQUIRES(...) MR_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define MR_REQUIRES_SHARED(...) MR_THREAD_ANNOTATION(requires_shared_capability(__VA_ARGS__))
#define MR_EXCLUDES(...) MR_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define MR_ACQUIRE(...) MR_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define MR_RELEASE(...) MR_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define MR_ACQUIRE_SHARED(...) MR_THREAD_ANNOTATION(acquire_shared_capability(__VA_ARGS__))
#define MR_RELEASE_SHARED(...) MR_THREAD_ANNOTATION(release_shared_capability(__VA_ARGS__))
#define MR_RELEASE_GENERIC(...) MR_THREAD_ANNOTATION(release_generic_capability(__VA_ARGS__))
#define MR_NO_THREAD_SAFETY_ANALYSIS MR_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace millrace {

class MR_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void Lock() MR_ACQUIRE() { mu_.lock(); }
  void Unlock() MR_RELEASE() { mu_.unlock(); }
  bool TryLock() MR_THREAD_ANNOTATION(try_acquire_capability(true)) { return mu_.try_lock(); }

 private:
  friend class CondVar;
  std::mutex mu_;
};

class MR_THREAD_ANNOTATION(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mu) MR_ACQUIRE(mu) : mu_(mu) { mu_.Lock(); }
  ~MutexLock() MR_RELEASE() { mu_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mu_;
};

class MR_THREAD_ANNOTATION(capability("mutex")) SharedMutex {
 public:
  void Lock() MR_ACQUIRE() { mu_.lock(); }
  void Unlock() MR_RELEASE() { mu_.unlock(); }
  void LockShared() MR_ACQUIRE_SHARED() { mu_.lock_shared(); }
  void UnlockShared() MR_RELEASE_SHARED() { mu_.unlock_shared(); }

 private:
  std::shared_mutex mu_;
};

class MR_THREAD_ANNOTATION(scoped_lockable) WriterLock {
 public:
  explicit WriterLock(SharedMutex& mu) MR_ACQUIRE(mu) : mu_(mu) { mu_.Lock(); }
  ~WriterLock() MR_RELEASE() { mu_.Unlock(); }
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

 private:
  SharedMutex& mu_;
};

class MR_THREAD_ANNOTATION(scoped_lockable) ReaderLock {
 public:
  explicit ReaderLock(SharedMutex& mu) MR_ACQUIRE_SHARED(mu) : mu_(mu) { mu_.LockShared(); }
  ~ReaderLock() MR_RELEASE_GENERIC() { mu_.UnlockShared(); }
  ReaderLock(const ReaderLock&) = delete;
  ReaderLock& operator=(const ReaderLock&) = delete;

 private:
  SharedMutex& mu_;
};

// A condition variable for Mutex. Wait in a loop on the condition; spurious wake-ups happen.
class CondVar {
 public:
  void Wait(Mutex& mu) MR_REQUIRES(mu) {
    std::unique_lock<std::mutex> lock(mu.mu_, std::adopt_lock);
    cv_.wait(lock);
    lock.release();
  }
  // Returns false when `deadline` passed.
  bool WaitUntil(Mutex& mu, std::chrono::steady_clock::time_point deadline) MR_REQUIRES(mu) {
    std::unique_lock<std::mutex> lock(mu.mu_, std::adopt_lock);
    const bool in_time = cv_.wait_until(lock, deadline) == std::cv_status::no_timeout;
    lock.release();
    return in_time;
  }
  void NotifyOne() { cv_.notify_one(); }
  void NotifyAll() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

}  // namespace millrace
