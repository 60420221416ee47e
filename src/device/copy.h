// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/function.h"
#include "device/device.h"
#include "millrace/status.h"
#include "millrace/tensor.h"
#include "tensor/buffer.h"

namespace millrace {

// The device whose memory has the elements; null: host memory, or no elements.
inline Device* DeviceOf(const Tensor& tensor) {
  const Buffer* const buffer = tensor.buffer();
  MemorySpace* const space = buffer == nullptr ? nullptr : buffer->memory_space();
  return static_cast<Device*>(space);
}

using TensorDone = UniqueFunction<void(StatusOr<Tensor>)>;

// Copies a tensor to the memory of `to` (null: host memory), allocated by `allocator`, which must be of that
// memory; a tensor that is already in that memory is not copied. Copies directly from device to device if the
// devices can, else through host memory. `done` is called once, from this thread or a device's, and must not
// block: when the host may read the tensor, or when later work in the stream of `to` may.
void BringTensor(const Tensor& tensor, Device* to, Allocator& allocator, TensorDone done);

// The same to host memory, for callers that may block.
StatusOr<Tensor> BringToHost(const Tensor& tensor);

}  // namespace millrace
