// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/mutex.h"
#include "kernels/cpu/contract/bf16.h"
#include "kernels/cpu/contract/gemm.h"
#include "kernels/cpu/kernel_util.h"

namespace millrace {

// The weights of one node, packed for the inner loops and kept between steps while they stay the same.
//
// Every op that changes a variable copies it first if its buffer has another reference (variable_util.h). So
// a buffer that is held here keeps its values, and weights in the same buffer are the same weights: the
// buffer identifies the variable's version. That is true of constants and of variables only, so the kernel
// must know that its weights come from one (attribute `keep_weights`). Holding a buffer makes the next change
// of the variable copy it; after each observed change, four times as many calls pass before the next attempt.
// Thread-safe: steps may run at the same time, also with different values of a variable.
class PackedWeights {
 public:
  // Packed weights are allocated by `allocator`, not by a step's allocator, which reuses its memory.
  explicit PackedWeights(Allocator& allocator) : allocator_(allocator) {}

  // The packed form of `weights`, a float matrix whose rows (with `transposed`, columns) are `ldb` elements
  // apart; unset if there is none (yet), and the weights are to be used as they are.
  Tensor Find(const Tensor& weights, const cpu::PackedShape& shape, int64_t ldb, bool transposed);
  // The same, rounded to bfloat16 and packed by PackBf16 (bf16.h). A kernel uses only one of the forms.
  Tensor FindBf16(const Tensor& weights, int64_t k, int64_t n, bool transposed, cpu::Parallel& parallel);

 private:
  template <typename Make>
  Tensor FindOrMake(const Tensor& weights, DataType type, const cpu::PackedShape& shape, int64_t elements,
                    const Make& make);
  static constexpr int64_t kMaxWait = int64_t{1} << 20;

  Allocator& allocator_;
  Mutex mu_;
  Tensor held_ MR_GUARDED_BY(mu_);  // unset: no buffer is held
  Tensor packed_ MR_GUARDED_BY(mu_);
  cpu::PackedShape shape_ MR_GUARDED_BY(mu_);
  bool packing_ MR_GUARDED_BY(mu_) = false;  // in one of the steps
  int64_t wait_ MR_GUARDED_BY(mu_) = 1;      // calls from one attempt to the next
  int64_t left_ MR_GUARDED_BY(mu_) = 1;      // calls left until then
};

}  // namespace millrace
