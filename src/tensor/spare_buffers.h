// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "millrace/ref.h"
#include "millrace/tensor.h"
#include "tensor/buffer.h"

namespace millrace {

// Buffers that are kept for the copies which changes of variables make while others hold their values: a
// saver that writes behind the steps gives what it has written, and the steps behind its next save take it.
// So they do not wait until the system has cleared as much new memory. One object for each owner; what is not
// taken goes with it. Thread-safe.
class SpareBuffers {
 public:
  SpareBuffers() = default;
  SpareBuffers(const SpareBuffers&) = delete;
  SpareBuffers& operator=(const SpareBuffers&) = delete;
  ~SpareBuffers();

  // Smaller ones are not worth it.
  static constexpr size_t kMinBytes = 64 << 10;

  // Keeps the tensor's buffer when nothing else refers to it, when it is host memory of plain elements and
  // when this object keeps at most `max_bytes` with it.
  void Give(Tensor tensor, int64_t max_bytes);
  int64_t bytes() const;

  // One of `bytes` bytes that any owner gave; null: there is none. Its contents are undefined.
  static RefPtr<Buffer> Take(size_t bytes);
};

}  // namespace millrace
