// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/cpu/kernel_util.h"

namespace millrace::ragged {

// Writes an element of an int32 or int64 tensor; false if the value does not fit.
inline bool PutIndex(Tensor* t, int64_t i, int64_t value) {
  if (t->dtype() == DataType::kInt64) {
    t->data<int64_t>()[i] = value;
    return true;
  }
  if (value > std::numeric_limits<int32_t>::max()) return false;
  t->data<int32_t>()[i] = static_cast<int32_t>(value);
  return true;
}

// The values of an int32 or int64 tensor, copied unless they are int64. Otherwise refers to the tensor.
class Numbers {
 public:
  explicit Numbers(const Tensor& t) : size_(t.num_elements()) {
    if (t.dtype() == DataType::kInt64) {
      data_ = t.data<int64_t>();
      return;
    }
    const auto values = t.flat<int32_t>();
    copy_.assign(values.begin(), values.end());
    data_ = copy_.data();
  }
  Numbers(Numbers&&) = default;

  int64_t size() const { return size_; }
  const int64_t* data() const { return data_; }
  int64_t operator[](int64_t i) const { return data_[i]; }

  // Whether no number is less than the previous one.
  bool IsAscending() const {
    bool ascending = true;
    for (int64_t i = 1; i < size_; ++i) ascending = ascending & (data_[i - 1] <= data_[i]);
    return ascending;
  }

 private:
  int64_t size_;
  std::vector<int64_t> copy_;
  const int64_t* data_;
};

// For this number of bytes a plain copy is faster than a call of the move routines.
inline constexpr int64_t kFewBytes = 1024;
// Copies few bytes, 16 to 64 of them without a call.
inline void CopyFew(const char* from, char* to, int64_t bytes) {
  constexpr int64_t kPart = 16;
  if (bytes >= kPart && bytes <= 4 * kPart) {
    // From both ends: the parts overlap.
    char first[kPart], second[kPart], third[kPart], last[kPart];
    const int64_t inner = bytes > 2 * kPart ? kPart : 0;
    std::memcpy(first, from, kPart);
    std::memcpy(second, from + inner, kPart);
    std::memcpy(third, from + bytes - kPart - inner, kPart);
    std::memcpy(last, from + bytes - kPart, kPart);
    std::memcpy(to, first, kPart);
    std::memcpy(to + inner, second, kPart);
    std::memcpy(to + bytes - kPart - inner, third, kPart);
    std::memcpy(to + bytes - kPart, last, kPart);
    return;
  }
  std::memcpy(to, from, static_cast<size_t>(bytes));
}

inline Status TooLong(int64_t value) {
  return errors::InvalidArgument("A split of ", value, " does not fit into int32");
}

}  // namespace millrace::ragged
