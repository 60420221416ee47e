// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "kernels/cpu/kernel_util.h"

namespace millrace {

// Output 0 has the shape of input 0, and element i is fn(string i).
template <typename Out, typename Fn>
Status MapStrings(KernelContext& context, int64_t cost_ns, Fn fn) {
  const Tensor& in = context.input(0);
  MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, in.shape()));
  const std::string* const from = in.data<std::string>();
  Out* const to = out->data<Out>();
  context.ParallelFor(in.num_elements(), cost_ns, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = fn(from[i]);
  });
  return Status();
}

}  // namespace millrace
