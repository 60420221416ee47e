// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "distributed/message_bytes.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

namespace millrace {

// What a RecvTensorResponse brings.
struct ReceivedTensor {
  Tensor tensor;
  bool is_dead = false;
};

// A RecvTensorResponse. Elements of plain types are not copied: the bytes keep the tensor. ResourceExhausted
// for a tensor that no message can hold.
StatusOr<MessageBytes> TensorToResponse(const Tensor& tensor, bool is_dead, int64_t send_start_us);
// Back. Elements of plain types are copied once, to where the tensor has them. Any bytes get an answer.
StatusOr<ReceivedTensor> TensorFromResponse(const MessageBytes& bytes);

}  // namespace millrace
