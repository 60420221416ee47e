// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Objects that count the references to them.
#ifndef TENSORFLOW_CORE_LIB_CORE_REFCOUNT_H_
#define TENSORFLOW_CORE_LIB_CORE_REFCOUNT_H_

#include <atomic>
#include <memory>

#include "tensorflow/core/platform/macros.h"

namespace tensorflow {
namespace core {

// Has one reference when it is created, and is deleted with the last one. Thread-safe.
class RefCounted {
 public:
  RefCounted() : references_(1) {}
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;
  void Ref() const { references_.fetch_add(1, std::memory_order_relaxed); }
  // True when it was the last one.
  bool Unref() const {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
    delete this;
    return true;
  }
  bool RefCountIsOne() const { return references_.load(std::memory_order_acquire) == 1; }

 protected:
  virtual ~RefCounted() {}

 private:
  mutable std::atomic<int> references_;
};

struct RefCountDeleter {
  void operator()(const RefCounted* object) const { object->Unref(); }
};
// Holds a reference.
template <typename T>
using RefCountPtr = std::unique_ptr<T, RefCountDeleter>;

// Releases a reference at the end of its scope.
class ScopedUnref {
 public:
  explicit ScopedUnref(const RefCounted* object) : object_(object) {}
  ScopedUnref(const ScopedUnref&) = delete;
  ScopedUnref& operator=(const ScopedUnref&) = delete;
  ~ScopedUnref() {
    if (object_ != nullptr) object_->Unref();
  }

 private:
  const RefCounted* const object_;
};

}  // namespace core
}  // namespace tensorflow

#endif
