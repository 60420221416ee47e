// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "distributed/held_tensors.h"
#include "distributed/tensor_channel.h"
#include "distributed/transport.h"

namespace millrace {

// Moves tensors in chunks, each the response to a RecvChunk call, several of them at a time. Available
// between any two tasks of Millrace, without a limit of size.
class MessageChannel : public TensorChannel {
 public:
  static constexpr std::string_view kName = "messages";
  struct Options {
    int64_t min_bytes = 0;  // smaller tensors travel in their response
    int64_t chunk_bytes = 0;
  };
  // REQUIRES: `transport` outlives the channel's fetches.
  MessageChannel(Transport& transport, const Options& options) : transport_(transport), options_(options) {}

  std::string_view name() const override { return kName; }
  std::optional<std::string> AddressFor(std::string_view introduction, int64_t num_bytes) override;
  void Fetch(TensorFetch fetch) override;

 private:
  struct Transfer;

  Transport& transport_;
  const Options options_;
};

// Answers RecvChunk: the bytes hold a reference to the tensor.
StatusOr<MessageBytes> ChunkOf(HeldTensors& held, const MessageBytes& request);

}  // namespace millrace
