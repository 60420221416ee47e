// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Locks under TensorFlow's names.
#ifndef TENSORFLOW_CORE_PLATFORM_MUTEX_H_
#define TENSORFLOW_CORE_PLATFORM_MUTEX_H_

#include <mutex>

namespace tensorflow {

class mutex {
 public:
  mutex() {}
  mutex(const mutex&) = delete;
  mutex& operator=(const mutex&) = delete;
  virtual ~mutex() {}
  virtual void lock() { mu_.lock(); }
  virtual void unlock() { mu_.unlock(); }

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
  mutex& mu_;
};

}  // namespace tensorflow

#endif
