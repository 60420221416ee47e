// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/cancellation.h"
#include "base/function.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

namespace millrace {

// The elements of a tensor that its sender holds for a receiver.
struct TensorFetch {
  std::string task;                     // "/job:…/replica:…/task:…", the sender
  std::string address;                  // the result of AddressFor there
  uint64_t ticket = 0;                  // its number among the sender's HeldTensors
  DataType dtype = DataType::kInvalid;  // of a fixed size
  TensorShape shape;
  int64_t num_bytes = 0;  // of all elements; more than none
  // When not null, cancelling it ends the transfer. It lives until `done`.
  CancellationManager* cancellation = nullptr;
  // Called once, on any thread, with no lock held.
  UniqueFunction<void(StatusOr<Tensor> tensor)> done;
};

// A way to move the elements of large tensors between tasks outside of the messages that announce them:
// shared memory, a connection of its own, or another network. Both ends have one object of the class.
// Thread-safe.
class TensorChannel {
 public:
  virtual ~TensorChannel() = default;
  // The same at both ends: "shared_memory".
  virtual std::string_view name() const = 0;
  // Sent by the receiver with each request, for AddressFor; may be empty.
  virtual std::string Introduction() const { return ""; }
  // At the sender: the address at which this receiver fetches such a tensor; none if it can't, or should not.
  virtual std::optional<std::string> AddressFor(std::string_view introduction, int64_t num_bytes) = 0;
  // At the receiver. Unavailable, naming the task, when the sender is gone or silent, Aborted when it has
  // dropped the tensor with its step.
  virtual void Fetch(TensorFetch fetch) = 0;
  // Ends present and future fetches with Cancelled. Waits until none of them runs any more.
  virtual void Stop() {}
};

}  // namespace millrace
