// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "millrace/tensor.h"

namespace millrace {

// The elements of a queue in the order of dequeuing. An element is an array of `components` tensors. Not
// thread-safe.
class QueueStore {
 public:
  virtual ~QueueStore() = default;
  virtual int64_t size() const = 0;
  // Moves the tensors of one element in.
  virtual void Push(Tensor* element) = 0;
  // Moves the next element out. REQUIRES: size() > 0.
  virtual void Pop(Tensor* element) = 0;
  // Returns elements that were taken one after the other, as if they hadn't been taken (a random order stays
  // random).
  virtual void GiveBack(Tensor* elements, int64_t count) = 0;
};

std::unique_ptr<QueueStore> MakeFifoStore(int components);
// The order of TensorFlow's RandomShuffleQueue for the same seeds and the same calls.
std::unique_ptr<QueueStore> MakeRandomStore(int components, int64_t seed, int64_t seed2);
// Ordered by the int64 scalar in the first component, the smallest first; equal ones first in, first out.
std::unique_ptr<QueueStore> MakePriorityStore(int components);

}  // namespace millrace
