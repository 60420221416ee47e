// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "millrace/ref.h"
#include "millrace/tensor.h"
#include "tensor/buffer.h"

namespace millrace {

// Buffers that are kept for the copies which changes of variables make while there are references to their
// values: a saver that writes in the background adds buffers that it has written, and the steps after its
// next save take them. So they do not wait until the system has cleared as much new memory. One object for
// each owner, which frees the remaining buffers. Thread-safe.
class SpareBuffers {
 public:
  SpareBuffers() = default;
  SpareBuffers(const SpareBuffers&) = delete;
  SpareBuffers& operator=(const SpareBuffers&) = delete;
  ~SpareBuffers();

  // Smaller ones are not worth it.
  static constexpr size_t kMinBytes = 64 << 10;

  // Keeps the tensor's buffer if it has no other references, is host memory of fixed-size elements, and this
  // object then keeps at most `max_bytes`.
  void Give(Tensor tensor, int64_t max_bytes);
  int64_t bytes() const;

  // One of `bytes` bytes from any owner; null: there is none. Its contents are undefined.
  static RefPtr<Buffer> Take(size_t bytes);
};

}  // namespace millrace
