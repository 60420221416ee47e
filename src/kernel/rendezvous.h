// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/function.h"
#include "millrace/ref.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

namespace millrace {

class Device;

// Where Send nodes leave tensors and Recv nodes fetch them, within one step. Send never waits; a receiver's
// callback runs when the tensor arrives or the step is aborted. Thread-safe.
class Rendezvous : public RefCounted {
 public:
  // "src_device;incarnation in hex;dst_device;tensor name;frame:iteration", hashed once.
  struct Key {
    std::string text;
    uint64_t hash = 0;
    static Key Make(std::string_view src_device, uint64_t src_incarnation, std::string_view dst_device,
                    std::string_view tensor_name, uint64_t frame = 0, int64_t iteration = 0);
    // Parses a key from outside: InvalidArgument "Invalid rendezvous key: …".
    struct Parts {
      std::string src_device, dst_device, tensor_name;
      uint64_t src_incarnation = 0;
      uint64_t frame = 0;
      int64_t iteration = 0;
    };
    static StatusOr<Parts> Parse(std::string_view text);
  };
  using RecvDone = UniqueFunction<void(Status status, Tensor tensor, bool is_dead)>;

  // Aborted when the same key was sent before and not yet received.
  virtual Status Send(const Key& key, Tensor tensor, bool is_dead) = 0;
  // Calls `done` once, from this thread or a sender's, with no lock held.
  virtual void RecvAsync(const Key& key, RecvDone done) = 0;
  // Every waiting and later call fails with `status`, which is not OK. The first abort wins.
  virtual void StartAbort(const Status& status) = 0;
};

}  // namespace millrace
