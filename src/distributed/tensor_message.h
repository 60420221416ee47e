// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "distributed/message_bytes.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

namespace millrace {

// A tensor whose elements are fetched by a TensorChannel.
struct OfferedTensor {
  DataType dtype = DataType::kInvalid;
  TensorShape shape;
  std::string channel;
  std::string address;
  uint64_t ticket = 0;
  int64_t num_bytes = 0;  // those of the dtype and shape
};

// The contents of a RecvTensorResponse.
struct ReceivedTensor {
  Tensor tensor;
  bool is_dead = false;
  std::optional<OfferedTensor> offer = {};  // instead of the tensor
};

// Whether the elements are sent as in memory.
bool IsSentAsBytes(const Tensor& tensor);

// A RecvTensorResponse. Elements of fixed-size types are not copied: the bytes hold a reference to the
// tensor. ResourceExhausted for a tensor that does not fit in a message.
StatusOr<MessageBytes> TensorToResponse(const Tensor& tensor, bool is_dead, int64_t send_start_us);
MessageBytes OfferToResponse(const OfferedTensor& offer, int64_t send_start_us);
// Decodes. Elements of fixed-size types are copied once, into the tensor. Any bytes are handled.
StatusOr<ReceivedTensor> TensorFromResponse(const MessageBytes& bytes);

}  // namespace millrace
