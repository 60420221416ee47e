// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/nn/packed_weights.h"

#include <algorithm>
#include <utility>

namespace millrace {

Tensor PackedWeights::Find(const Tensor& weights, const cpu::PackedShape& shape, int64_t ldb,
                           bool transposed) {
  return FindOrMake(weights, DataType::kFloat, shape, cpu::PackedElements<float>(shape), [&](Tensor& packed) {
    cpu::PackMatrix(shape, weights.data<float>(), ldb, transposed, packed.data<float>());
  });
}

Tensor PackedWeights::FindBf16(const Tensor& weights, int64_t k, int64_t n, bool transposed,
                               cpu::Parallel& parallel) {
  return FindOrMake(weights, DataType::kBfloat16, {k, 1, n}, cpu::PackedBf16Elements(k, n),
                    [&](Tensor& packed) {
                      cpu::PackBf16(k, n, weights.data<float>(), transposed ? k : n, transposed,
                                    static_cast<uint16_t*>(packed.raw_data()), parallel);
                    });
}

template <typename Make>
Tensor PackedWeights::FindOrMake(const Tensor& weights, DataType type, const cpu::PackedShape& shape,
                                 int64_t elements, const Make& make) {
  const auto is_held = [&]() MR_REQUIRES(mu_) {
    return held_.SharesBufferWith(weights) && held_.raw_data() == weights.raw_data() &&
           held_.shape() == weights.shape();
  };
  Tensor none(type, TensorShape({0}));
  Tensor dropped, dropped_packed;  // released after the lock
  {
    MutexLock lock(mu_);
    if (is_held() && packed_.num_elements() > 0 && shape_ == shape) return packed_;
    if (packing_) return none;
    if (!is_held() || packed_.num_elements() > 0) {
      // Other weights, or a packed form for other sizes of images.
      std::swap(dropped, held_);
      std::swap(dropped_packed, packed_);
      if (--left_ > 0) return none;
      wait_ = left_ = std::min(4 * wait_, kMaxWait);
      held_ = weights;
      return none;
    }
    packing_ = true;
  }
  // This is the second call with these weights. Concurrent steps use unpacked weights.
  auto made = Tensor::Allocate(type, TensorShape({elements}), allocator_);
  if (made.ok()) make(*made);
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
