// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "millrace/tensor.h"

namespace millrace {

// The feeds and fetches of one step, by slot: _Arg nodes read args, _Retval nodes write rets. Each ret is
// written by one node, so there is no lock. The tensors belong to the caller of the step.
struct CallFrame {
  std::span<const Tensor* const> args;
  std::span<Tensor> rets;
  mutable std::atomic<uint64_t> number{0};  // see Number; 0: not requested yet

  int num_args() const { return static_cast<int>(args.size()); }
  int num_rets() const { return static_cast<int>(rets.size()); }
  const Tensor& arg(int i) const { return *args[i]; }
  void set_ret(int i, const Tensor& value) const { rets[i] = value; }
  // Never 0, and unique among the calls of the process. Created at the first request.
  uint64_t Number() const {
    static std::atomic<uint64_t> last{0};
    uint64_t known = number.load(std::memory_order_relaxed);
    if (known != 0) return known;
    // Relaxed: only the number matters.
    const uint64_t mine = last.fetch_add(1, std::memory_order_relaxed) + 1;
    return number.compare_exchange_strong(known, mine, std::memory_order_relaxed) ? mine : known;
  }
};

}  // namespace millrace
