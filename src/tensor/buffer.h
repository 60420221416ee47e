// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

#include "millrace/dtype.h"
#include "millrace/ref.h"
#include "tensor/allocator.h"

namespace millrace {

// The memory of tensors. In host memory the usual buffer is one allocation: this header, padded to 64
// bytes, then the elements. A buffer in device memory has only its elements there; the header is on the
// host.
class Buffer : public RefCounted {
 public:
  // One allocation for header and elements; elements with constructors are constructed. nullptr when memory
  // is short, or for elements with constructors in device memory. REQUIRES: count * element size does not
  // overflow (see Tensor::Allocate).
  static RefPtr<Buffer> Allocate(Allocator& allocator, DataType dtype, int64_t count);
  // Wraps foreign memory; `release` is called once, when the last reference is dropped.
  static RefPtr<Buffer> Wrap(void* data, size_t bytes, std::function<void()> release);

  void* data() const { return data_; }
  size_t size() const { return size_; }
  // The device that accesses the elements; null: the host does.
  MemorySpace* memory_space() const { return allocator_ == nullptr ? nullptr : allocator_->memory_space(); }

 protected:
  Buffer(void* data, size_t size, Allocator* allocator, DataType dtype, int64_t count)
      : data_(data), size_(size), allocator_(allocator), count_(count), dtype_(dtype) {}
  void Destroy() override;

 private:
  void* const data_;
  const size_t size_;  // bytes of the elements

 protected:
  Allocator* const allocator_;  // null for wrapped memory

 private:
  const int64_t count_;
  const DataType dtype_;
};

}  // namespace millrace
