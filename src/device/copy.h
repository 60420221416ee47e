// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/function.h"
#include "device/device.h"
#include "millrace/status.h"
#include "millrace/tensor.h"
#include "tensor/buffer.h"

namespace millrace {

// In whose memory the elements are; null: in host memory, or there are none.
inline Device* DeviceOf(const Tensor& tensor) {
  const Buffer* const buffer = tensor.buffer();
  MemorySpace* const space = buffer == nullptr ? nullptr : buffer->memory_space();
  return static_cast<Device*>(space);
}

using TensorDone = UniqueFunction<void(StatusOr<Tensor>)>;

// Brings a tensor into the memory of `to` (null: into host memory), allocated by `allocator`, whose memory
// that must be: as it is when it is there already, else as a copy. Directly from device to device where the
// devices can, else through host memory. `done` is called once, from this thread or a device's, and must not
// block: when the host may read the tensor, or work that is put into the stream of `to` from then on may.
void BringTensor(const Tensor& tensor, Device* to, Allocator& allocator, TensorDone done);

// The same into host memory, for callers that may block.
StatusOr<Tensor> BringToHost(const Tensor& tensor);

}  // namespace millrace
