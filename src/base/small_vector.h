// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <utility>

namespace millrace {

// A vector of trivially copyable elements of which the first N live inside the object.
template <typename T, uint32_t N>
class SmallVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  SmallVector() = default;
  SmallVector(std::initializer_list<T> values) { assign(values.begin(), values.end()); }
  SmallVector(const SmallVector& o) { assign(o.begin(), o.end()); }
  SmallVector(SmallVector&& o) noexcept { Steal(o); }
  SmallVector& operator=(const SmallVector& o) {
    if (this != &o) assign(o.begin(), o.end());
    return *this;
  }
  SmallVector& operator=(SmallVector&& o) noexcept {
    if (this != &o) {
      FreeHeap();
      Steal(o);
    }
    return *this;
  }
  ~SmallVector() { FreeHeap(); }

  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T* data() { return capacity_ == N ? inline_ : heap_; }
  const T* data() const { return capacity_ == N ? inline_ : heap_; }
  uint32_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T& back() { return data()[size_ - 1]; }
  const T& back() const { return data()[size_ - 1]; }
  void clear() { size_ = 0; }
  void pop_back() { --size_; }
  void push_back(T value) {
    if (size_ == capacity_) Grow(capacity_ * 2);
    data()[size_++] = value;
  }
  void resize(uint32_t n, T value = T()) {
    if (n > capacity_) Grow(n);
    for (uint32_t i = size_; i < n; ++i) data()[i] = value;
    size_ = n;
  }
  template <typename It>
  void assign(It first, It last) {
    clear();
    for (; first != last; ++first) push_back(*first);
  }
  // Removes the element at `i`, keeping the order of the others.
  void EraseAt(uint32_t i) {
    std::copy(begin() + i + 1, end(), begin() + i);
    --size_;
  }
  operator std::span<const T>() const { return {data(), size_}; }  // NOLINT(google-explicit-constructor)
  friend bool operator==(const SmallVector& a, const SmallVector& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  void Grow(uint32_t want) {
    T* bigger = new T[want];
    std::copy(begin(), end(), bigger);
    FreeHeap();
    heap_ = bigger;
    capacity_ = want;
  }
  void FreeHeap() {
    if (capacity_ != N) delete[] heap_;
  }
  void Steal(SmallVector& o) {
    size_ = o.size_;
    capacity_ = o.capacity_;
    if (capacity_ == N) {
      std::copy(o.inline_, o.inline_ + size_, inline_);
    } else {
      heap_ = o.heap_;
    }
    o.size_ = 0;
    o.capacity_ = N;
  }

  uint32_t size_ = 0;
  uint32_t capacity_ = N;  // equal to N exactly when the elements are inline
  union {
    T inline_[N];
    T* heap_;
  };
};

}  // namespace millrace
