// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernel/kernel_context.h"

#include <utility>

#include "tensor/buffer.h"

namespace millrace {

bool KernelContext::CanForward(int input, DataType dtype, const TensorShape& shape) const {
  const TensorValue& in = inputs_[input];
  return in.kind == TensorValue::Kind::kValue && in.value.dtype() == dtype &&
         in.value.num_elements() == shape.num_elements() && in.value.OwnsBufferAlone();
}

StatusOr<Tensor> KernelContext::ForwardInputOrAllocateTemp(std::initializer_list<int> candidates,
                                                           DataType dtype, const TensorShape& shape) {
  for (const int i : candidates) {
    const bool there = step_->host_allocator == nullptr || !kernel_->input_on_host(i);
    if (there && CanForward(i, dtype, shape)) return inputs_[i].value.WithShape(shape);
  }
  return AllocateTemp(dtype, shape);
}

}  // namespace millrace
