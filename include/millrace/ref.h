// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace millrace {

// Base of objects with an intrusive reference count, which starts at one. Thread-safe.
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  void Ref() const { refs_.fetch_add(1, std::memory_order_relaxed); }
  void Unref() const {
    // A sole owner needs no read-modify-write: no other thread can add a reference. The acquire pairs with
    // the release of the decrements by other owners.
    if (refs_.load(std::memory_order_acquire) == 1 || refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      const_cast<RefCounted*>(this)->Destroy();
    }
  }
  // True when the caller holds the only reference, so no other code can see the object.
  bool RefCountIsOne() const { return refs_.load(std::memory_order_acquire) == 1; }
  int64_t RefCountForTest() const { return refs_.load(std::memory_order_relaxed); }

 protected:
  virtual ~RefCounted() = default;
  // Called once, when the last reference is released.
  virtual void Destroy() { delete this; }

 private:
  mutable std::atomic<int64_t> refs_{1};
};

// Owning pointer to a RefCounted object.
template <typename T>
class RefPtr {
 public:
  RefPtr() = default;
  RefPtr(std::nullptr_t) {}  // NOLINT(google-explicit-constructor)
  // Takes over the reference that the caller holds.
  explicit RefPtr(T* adopted) : p_(adopted) {}
  RefPtr(const RefPtr& o) : p_(o.p_) {
    if (p_ != nullptr) p_->Ref();
  }
  RefPtr(RefPtr&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  template <typename U>
  requires(std::is_convertible_v<U*, T*>) RefPtr(RefPtr<U> o)
      : p_(o.release()) {}  // NOLINT(google-explicit-constructor)
  RefPtr& operator=(RefPtr o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~RefPtr() {
    if (p_ != nullptr) p_->Unref();
  }

  T* get() const { return p_; }
  T* operator->() const { return p_; }
  T& operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }
  T* release() { return std::exchange(p_, nullptr); }
  void reset() { *this = RefPtr(); }
  friend bool operator==(const RefPtr& a, const RefPtr& b) { return a.p_ == b.p_; }
  friend bool operator==(const RefPtr& a, std::nullptr_t) { return a.p_ == nullptr; }

 private:
  T* p_ = nullptr;
};

template <typename T, typename... Args>
RefPtr<T> MakeRef(Args&&... args) {
  return RefPtr<T>(new T(std::forward<Args>(args)...));
}
// Adds a reference to an object.
template <typename T>
RefPtr<T> ShareRef(T* object) {
  if (object != nullptr) object->Ref();
  return RefPtr<T>(object);
}

}  // namespace millrace
