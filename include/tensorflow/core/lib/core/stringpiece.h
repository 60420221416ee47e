// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// A view of bytes that something else owns.
#ifndef TENSORFLOW_CORE_LIB_CORE_STRINGPIECE_H_
#define TENSORFLOW_CORE_LIB_CORE_STRINGPIECE_H_

#include <algorithm>
#include <cstring>
#include <functional>
#include <ostream>
#include <string>

#include "tensorflow/core/platform/types.h"

namespace tensorflow {

class StringPiece {
 public:
  using value_type = char;
  using const_iterator = const char*;
  using iterator = const char*;
  static const size_t npos = static_cast<size_t>(-1);

  constexpr StringPiece() : data_(nullptr), size_(0) {}
  constexpr StringPiece(const char* data, size_t size) : data_(data), size_(size) {}
  StringPiece(const char* text) : data_(text), size_(text == nullptr ? 0 : std::strlen(text)) {}  // NOLINT
  StringPiece(const string& text) : data_(text.data()), size_(text.size()) {}                     // NOLINT
  explicit operator string() const { return string(data_ == nullptr ? "" : data_, size_); }
  string ToString() const { return string(*this); }

  constexpr const char* data() const { return data_; }
  constexpr size_t size() const { return size_; }
  constexpr size_t length() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr const char* begin() const { return data_; }
  constexpr const char* end() const { return data_ + size_; }
  constexpr char operator[](size_t i) const { return data_[i]; }
  char front() const { return data_[0]; }
  char back() const { return data_[size_ - 1]; }

  void clear() { *this = StringPiece(); }
  void remove_prefix(size_t n) {
    data_ += n;
    size_ -= n;
  }
  void remove_suffix(size_t n) { size_ -= n; }
  StringPiece substr(size_t from, size_t n = npos) const {
    from = std::min(from, size_);
    return StringPiece(data_ + from, std::min(n, size_ - from));
  }
  size_t find(StringPiece part, size_t from = 0) const {
    if (from > size_) return npos;
    const const_iterator found = std::search(begin() + from, end(), part.begin(), part.end());
    return found == end() && !part.empty() ? npos : static_cast<size_t>(found - begin());
  }
  size_t find(char c, size_t from = 0) const { return find(StringPiece(&c, 1), from); }
  size_t rfind(char c) const {
    for (size_t i = size_; i > 0; --i) {
      if (data_[i - 1] == c) return i - 1;
    }
    return npos;
  }
  bool starts_with(StringPiece prefix) const { return substr(0, prefix.size_).compare(prefix) == 0; }
  bool ends_with(StringPiece suffix) const {
    return size_ >= suffix.size_ && substr(size_ - suffix.size_).compare(suffix) == 0;
  }
  int compare(StringPiece other) const {
    const size_t common = std::min(size_, other.size_);
    const int order = common == 0 ? 0 : std::memcmp(data_, other.data_, common);
    if (order != 0) return order;
    return size_ < other.size_ ? -1 : size_ > other.size_ ? 1 : 0;
  }

 private:
  const char* data_;
  size_t size_;
};

inline bool operator==(StringPiece a, StringPiece b) { return a.size() == b.size() && a.compare(b) == 0; }
inline bool operator!=(StringPiece a, StringPiece b) { return !(a == b); }
inline bool operator<(StringPiece a, StringPiece b) { return a.compare(b) < 0; }
inline bool operator>(StringPiece a, StringPiece b) { return b < a; }
inline bool operator<=(StringPiece a, StringPiece b) { return !(b < a); }
inline bool operator>=(StringPiece a, StringPiece b) { return !(a < b); }
inline std::ostream& operator<<(std::ostream& os, StringPiece text) {
  return os.write(text.data(), static_cast<std::streamsize>(text.size()));
}

}  // namespace tensorflow

namespace std {
template <>
struct hash<tensorflow::StringPiece> {
  size_t operator()(tensorflow::StringPiece text) const {
    size_t value = 1469598103934665603u;  // FNV-1a
    for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 1099511628211u;
    return value;
  }
};
}  // namespace std

#endif
