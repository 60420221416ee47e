// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "rpc/grpc_buffer.h"

#include <memory>
#include <string>
#include <vector>

#include "rpc/event_order.h"

namespace millrace {
namespace {

// Up to this size gRPC's copying is faster than its reference counting.
constexpr size_t kSmall = 1024;
constexpr size_t kMostText = 3072;

// Keeps the memory of a slice until gRPC has no more use for it.
struct Owner {
  std::shared_ptr<const void> memory;
  EventOrder order;
};

void Release(void* owned) {
  auto* const owner = static_cast<Owner*>(owned);
  owner->order.AtEvent();
  delete owner;
}

grpc::Slice SliceOf(const MessageBytes::Piece& piece) {
  if (piece.bytes.size() <= kSmall) return grpc::Slice(piece.bytes.data(), piece.bytes.size());
  auto* const owner = new Owner{piece.owner, {}};
  owner->order.BeforeStart();
  return grpc::Slice(const_cast<char*>(piece.bytes.data()), piece.bytes.size(), Release, owner);
}

}  // namespace

grpc::ByteBuffer ToGrpc(const MessageBytes& bytes) {
  std::vector<grpc::Slice> slices;
  for (const MessageBytes::Piece& piece : bytes.pieces()) slices.push_back(SliceOf(piece));
  if (slices.empty()) slices.emplace_back();
  return grpc::ByteBuffer(slices.data(), slices.size());
}

StatusOr<MessageBytes> FromGrpc(const grpc::ByteBuffer& buffer) {
  MessageBytes bytes;
  if (!buffer.Valid()) return bytes;
  const auto slices = std::make_shared<std::vector<grpc::Slice>>();
  if (!buffer.Dump(slices.get()).ok()) return errors::Internal("A message could not be decompressed");
  for (const grpc::Slice& slice : *slices)
    bytes.Append({reinterpret_cast<const char*>(slice.begin()), slice.size()}, slices);
  return bytes;
}

grpc::Status ToGrpc(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  std::string text = status.message();
  if (text.size() > kMostText) text = text.substr(0, kMostText) + " ... [truncated]";
  return {static_cast<grpc::StatusCode>(status.code()), text};
}

Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return Status();
  return Status(static_cast<ErrorCode>(status.error_code()), status.error_message());
}

}  // namespace millrace
