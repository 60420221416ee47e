// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/mutex.h"
#include "kernels/cpu/contract/bf16.h"
#include "kernels/cpu/contract/gemm.h"
#include "kernels/cpu/kernel_util.h"

namespace millrace {

// The weights of one node in the order of the inner loops, kept from step to step while they stay the same.
//
// How that is known: every op that changes a variable copies it first when its buffer has another reference
// (variable_util.h). So a buffer that is held here keeps its values, and weights in the same buffer are the
// same weights: the buffer is the variable's version. That is true of constants and of variables only, so the
// kernel must know that its weights come from one (attribute `keep_weights`). Holding a buffer costs a change
// of the variable a copy; after each change that is seen, four times as many calls pass before the next
// attempt. Thread-safe: steps may run at the same time, with different values of a variable, too.
class PackedWeights {
 public:
  // The packed weights are allocated by `allocator`, not by that of a step, which reuses its memory.
  explicit PackedWeights(Allocator& allocator) : allocator_(allocator) {}

  // The packed form of `weights`, a float matrix whose rows (with `transposed`, columns) lie `ldb` elements
  // apart; unset when there is none (yet), and the weights are to be used as they lie.
  Tensor Find(const Tensor& weights, const cpu::PackedShape& shape, int64_t ldb, bool transposed);
  // The same, rounded to bfloat16 and packed by PackBf16 (bf16.h). A kernel asks for one form only.
  Tensor FindBf16(const Tensor& weights, int64_t k, int64_t n, bool transposed, cpu::Parallel& parallel);

 private:
  template <typename Make>
  Tensor FindOrMake(const Tensor& weights, DataType type, const cpu::PackedShape& shape, int64_t elements,
                    const Make& make);
  static constexpr int64_t kMaxWait = int64_t{1} << 20;

  Allocator& allocator_;
  Mutex mu_;
  Tensor held_ MR_GUARDED_BY(mu_);  // unset: nothing is watched
  Tensor packed_ MR_GUARDED_BY(mu_);
  cpu::PackedShape shape_ MR_GUARDED_BY(mu_);
  bool packing_ MR_GUARDED_BY(mu_) = false;  // by one of the steps
  int64_t wait_ MR_GUARDED_BY(mu_) = 1;      // calls from one attempt to the next
  int64_t left_ MR_GUARDED_BY(mu_) = 1;      // of them
};

}  // namespace millrace
