// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/nn/packed_weights.h"

#include <algorithm>
#include <utility>

namespace millrace {

Tensor PackedWeights::Find(const Tensor& weights, const cpu::PackedShape& shape, int64_t ldb,
                           bool transposed) {
  const auto is_held = [&]() MR_REQUIRES(mu_) {
    return held_.SharesBufferWith(weights) && held_.raw_data() == weights.raw_data() &&
           held_.shape() == weights.shape();
  };
  Tensor none(DataType::kFloat, TensorShape({0}));
  Tensor dropped, dropped_packed;  // released after the lock
  {
    MutexLock lock(mu_);
    if (is_held() && packed_.num_elements() > 0 && shape_ == shape) return packed_;
    if (packing_) return none;
    if (!is_held() || packed_.num_elements() > 0) {
      // Another value, or a packed form that other sizes of image don't want.
      std::swap(dropped, held_);
      std::swap(dropped_packed, packed_);
      if (--left_ > 0) return none;
      wait_ = left_ = std::min(4 * wait_, kMaxWait);
      held_ = weights;
      return none;
    }
    packing_ = true;
  }
  // This is the second call with these weights. Other steps go on without.
  auto made =
      Tensor::Allocate(DataType::kFloat, TensorShape({cpu::PackedElements<float>(shape)}), allocator_);
  if (made.ok()) cpu::PackMatrix(shape, weights.data<float>(), ldb, transposed, made->data<float>());
  MutexLock lock(mu_);
  packing_ = false;
  if (!made.ok()) {
    left_ = wait_ = kMaxWait;
    std::swap(dropped, held_);
    return none;
  }
  shape_ = shape;
  packed_ = *made;
  return *std::move(made);
}

}  // namespace millrace
