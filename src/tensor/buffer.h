// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

#include "millrace/dtype.h"
#include "millrace/ref.h"
#include "tensor/allocator.h"

namespace millrace {

// The memory behind tensors. The usual buffer is one allocation: this header, padded to 64 bytes, then the
// elements.
class Buffer : public RefCounted {
 public:
  // One allocation for header and elements; elements with constructors are constructed. nullptr when memory
  // is short. REQUIRES: count * element size does not overflow (see Tensor::Allocate).
  static RefPtr<Buffer> Allocate(Allocator& allocator, DataType dtype, int64_t count);
  // Wraps memory that somebody else owns; `release` is called once, when the last reference goes.
  static RefPtr<Buffer> Wrap(void* data, size_t bytes, std::function<void()> release);

  void* data() const { return data_; }
  size_t size() const { return size_; }

 protected:
  Buffer(void* data, size_t size, Allocator* allocator, DataType dtype, int64_t count)
      : data_(data), size_(size), allocator_(allocator), count_(count), dtype_(dtype) {}
  void Destroy() override;

 private:
  void* const data_;
  const size_t size_;           // bytes of the elements
  Allocator* const allocator_;  // null for wrapped memory
  const int64_t count_;
  const DataType dtype_;
};

}  // namespace millrace
