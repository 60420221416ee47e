// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "base/mutex.h"
#include "millrace/status.h"
#include "millrace/tensor.h"
#include "step/task_steps.h"

namespace millrace {

// Tensors that a task has offered to others, by random numbers that only the receivers know. They are held
// until they have been fetched or their step is cleaned up. Thread-safe.
class HeldTensors : public std::enable_shared_from_this<HeldTensors> {
 public:
  static std::shared_ptr<HeldTensors> Make() { return std::shared_ptr<HeldTensors>(new HeldTensors); }
  // Its number.
  StatusOr<uint64_t> Hold(TaskSteps::Step& step, const Tensor& tensor) MR_EXCLUDES(mu_);
  // Aborted when it no longer exists.
  StatusOr<Tensor> Find(uint64_t number) const MR_EXCLUDES(mu_);
  // So many of its bytes have been sent. When all have, it is dropped.
  void Sent(uint64_t number, int64_t num_bytes) MR_EXCLUDES(mu_);
  size_t size() const MR_EXCLUDES(mu_);

 private:
  class OfStep;
  struct Held {
    Tensor tensor;
    int64_t left = 0;
  };
  HeldTensors() = default;
  void Drop(uint64_t number) MR_EXCLUDES(mu_);

  mutable Mutex mu_;
  std::unordered_map<uint64_t, Held> held_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace
