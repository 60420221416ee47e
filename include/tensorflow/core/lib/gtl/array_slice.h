// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// A view of contiguous elements that something else owns.
#ifndef TENSORFLOW_CORE_LIB_GTL_ARRAY_SLICE_H_
#define TENSORFLOW_CORE_LIB_GTL_ARRAY_SLICE_H_

#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <vector>

namespace tensorflow {
namespace gtl {

template <typename T>
class ArraySlice {
 public:
  using value_type = T;
  using const_iterator = const T*;
  ArraySlice() : data_(nullptr), size_(0) {}
  ArraySlice(const T* data, size_t size) : data_(data), size_(size) {}
  template <size_t N>
  ArraySlice(const T (&array)[N]) : data_(array), size_(N) {}  // NOLINT(google-explicit-constructor)
  // From the elements of a call's argument, which are valid until the call ends.
  ArraySlice(std::initializer_list<T> list) : ArraySlice(list.begin(), list.size()) {}
  // From anything that has data() and size(): vectors, strings, arrays.
  template <typename Container,
            typename = typename std::enable_if<std::is_convertible<
                decltype(std::declval<const Container&>().data()), const T*>::value>::type>
  ArraySlice(const Container& container)  // NOLINT(google-explicit-constructor)
      : data_(container.data()), size_(container.size()) {}

  const T* data() const { return data_; }
  size_t size() const { return size_; }
  size_t length() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  const T& operator[](size_t i) const { return data_[i]; }
  const T& at(size_t i) const { return data_[i]; }
  const T& front() const { return data_[0]; }
  const T& back() const { return data_[size_ - 1]; }
  operator std::vector<T>() const { return std::vector<T>(begin(), end()); }  // NOLINT

 private:
  const T* data_;
  size_t size_;
};

}  // namespace gtl
}  // namespace tensorflow

#endif
