// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/message_channel.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "tensorflow/core/protobuf/transport_options.pb.h"

namespace millrace {
namespace {

// The most chunks of one tensor that are requested at the same time.
constexpr int kWindow = 4;

}  // namespace

struct MessageChannel::Transfer : RefCounted {
  Transfer(Transport& t, int64_t chunk, TensorFetch f)
      : transport(t), chunk_bytes(chunk), fetch(std::move(f)) {}

  // Requests chunks until the window is full, and ends the transfer if none is outstanding. One thread
  // requests at a time; answers that arrive meanwhile leave the next requests to it, so that calls answered
  // at once do not nest.
  void Advance() MR_EXCLUDES(mu) {
    {
      MutexLock lock(mu);
      if (requesting) return;
      requesting = true;
    }
    bool ended = false;
    while (const std::optional<tensorflow::RecvChunkRequest> request = NextRequest(&ended)) Request(*request);
    if (!ended) return;
    Status result;
    {
      MutexLock lock(mu);
      result = status;
    }
    auto done = std::move(fetch.done);
    if (!result.ok()) return done(std::move(result));
    done(std::move(tensor));
  }

  // nullopt: the window is full or the transfer has `ended`, and no thread is requesting any more.
  std::optional<tensorflow::RecvChunkRequest> NextRequest(bool* ended) MR_EXCLUDES(mu) {
    MutexLock lock(mu);
    const bool more = status.ok() && next < fetch.num_bytes;
    if (!more || in_flight == kWindow) {
      requesting = false;
      *ended = !more && in_flight == 0 && !std::exchange(finished, true);
      return std::nullopt;
    }
    tensorflow::RecvChunkRequest request;
    request.set_offset(next);
    request.set_num_bytes(std::min(chunk_bytes, fetch.num_bytes - next));
    request.set_ticket(fetch.ticket);
    next += request.num_bytes();
    ++in_flight;
    return request;
  }

  void Request(const tensorflow::RecvChunkRequest& request) {
    RemoteCall call{fetch.task, Method::kRecvChunk, MessageBytes::Of(request)};
    call.cancellation = fetch.cancellation;
    transport.Start(std::move(call), [self = ShareRef(this), offset = request.offset(),
                                      size = request.num_bytes()](Status s, const MessageBytes& bytes) {
      if (s.ok() && static_cast<int64_t>(bytes.size()) != size) {
        s = errors::Internal("A chunk of ", size, " bytes of ", self->fetch.task, " has ", bytes.size());
      }
      if (s.ok()) {
        auto* out = static_cast<char*>(self->tensor.raw_data()) + offset;
        for (const MessageBytes::Piece& piece : bytes.pieces()) {
          std::memcpy(out, piece.bytes.data(), piece.bytes.size());
          out += piece.bytes.size();
        }
      }
      {
        MutexLock lock(self->mu);
        self->status.Update(s);
        --self->in_flight;
      }
      self->Advance();
    });
  }

  Transport& transport;
  const int64_t chunk_bytes;
  TensorFetch fetch;
  Tensor tensor;
  Mutex mu;
  Status status MR_GUARDED_BY(mu);
  int64_t next MR_GUARDED_BY(mu) = 0;
  int in_flight MR_GUARDED_BY(mu) = 0;
  bool requesting MR_GUARDED_BY(mu) = false;
  bool finished MR_GUARDED_BY(mu) = false;
};

std::optional<std::string> MessageChannel::AddressFor(std::string_view /*introduction*/, int64_t num_bytes) {
  if (num_bytes < options_.min_bytes) return std::nullopt;
  return "";
}

void MessageChannel::Fetch(TensorFetch fetch) {
  StatusOr<Tensor> tensor = Tensor::Allocate(fetch.dtype, fetch.shape);
  if (!tensor.ok()) return fetch.done(std::move(tensor).status());
  const RefPtr<Transfer> transfer = MakeRef<Transfer>(transport_, options_.chunk_bytes, std::move(fetch));
  transfer->tensor = *std::move(tensor);
  transfer->Advance();
}

StatusOr<MessageBytes> ChunkOf(HeldTensors& held, const MessageBytes& request) {
  tensorflow::RecvChunkRequest chunk;
  if (!request.ParseInto(&chunk)) return errors::InvalidArgument("The request of RecvChunk is not a message");
  MR_ASSIGN_OR_RETURN(const Tensor tensor, held.Find(chunk.ticket()));
  const auto size = static_cast<int64_t>(tensor.num_bytes());
  if (chunk.offset() < 0 || chunk.num_bytes() <= 0 || chunk.offset() >= size ||
      chunk.num_bytes() > std::min<int64_t>(size - chunk.offset(), INT_MAX)) {
    return errors::InvalidArgument("RecvChunk of ", chunk.num_bytes(), " bytes at ", chunk.offset(),
                                   " of a tensor of ", size, " bytes");
  }
  held.Sent(chunk.ticket(), chunk.num_bytes());
  MessageBytes bytes;
  bytes.Append(
      {static_cast<const char*>(tensor.raw_data()) + chunk.offset(), static_cast<size_t>(chunk.num_bytes())},
      std::make_shared<const Tensor>(tensor));
  return bytes;
}

}  // namespace millrace
