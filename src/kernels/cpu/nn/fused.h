// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The epilogues of fused products and convolutions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/cpu/contract/gemm.h"
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/vector/unary.h"

namespace millrace {

// The attributes fused_ops, num_args and epsilon. Immutable.
class FusedEpilogue {
 public:
  // `own_args`: arguments after those of the epilogue, which the kernel uses itself.
  explicit FusedEpilogue(KernelConstruction& c, int own_args = 0);
  // Whether adding a residual is the only operation.
  bool only_adds() const {
    return add_ && !bias_ && !batch_norm_ && rectify_ == cpu::Rectify::kNone && rows_ == nullptr;
  }

  // The epilogue for one call. Refers to the context's inputs.
  struct Bound {
    cpu::GemmEpilogue<float> epilogue;
    Tensor scale_and_bias;                 // [2, channels] of a folded batch norm
    std::optional<Tensor> wider_residual;  // one that isn't of the output's shape: not in the epilogue
  };
  // `first_arg` is the index of the first argument's input.
  StatusOr<Bound> Bind(KernelContext& context, int first_arg, int64_t channels,
                       const TensorShape& output) const;

  // To be called after the product: sets output 0, after adding a residual of another shape.
  Status Finish(KernelContext& context, const Bound& bound, Tensor product) const;

 private:
  StatusOr<Tensor> FoldBatchNorm(KernelContext& context, int first_arg, int64_t channels) const;

  const std::string name_;  // of the node
  const bool nchw_;
  bool bias_ = false, batch_norm_ = false, add_ = false;
  bool same_shape_ = false;  // of the residual: AddN
  cpu::Rectify rectify_ = cpu::Rectify::kNone;
  cpu::UnaryFn rows_ = nullptr;
  const float epsilon_;
};

}  // namespace millrace
