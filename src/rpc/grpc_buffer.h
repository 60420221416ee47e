// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include "distributed/message_bytes.h"
#include "millrace/status.h"

namespace millrace {

// The same bytes; small pieces are copied, others shared.
grpc::ByteBuffer ToGrpc(const MessageBytes& bytes);
// Shares the memory of the buffer.
StatusOr<MessageBytes> FromGrpc(const grpc::ByteBuffer& buffer);

// Codes have the same numbers. Long texts are truncated, since they travel in trailers.
grpc::Status ToGrpc(const Status& status);
Status FromGrpc(const grpc::Status& status);

}  // namespace millrace
