// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// CompareAndBitpack: eight comparisons in a byte, the first in the highest bit.
#include "kernels/cpu/kernel_util.h"

namespace millrace {
namespace {

class BitpackKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const Tensor& threshold = context.input(1);
    if (!threshold.shape().IsScalar())
      return errors::InvalidArgument("Compare must be a scalar, but saw shape: ", threshold.shape());
    if (in.rank() == 0)
      return errors::InvalidArgument("Input should be at least a vector, but saw a scalar.");
    const int64_t last = in.dim(in.rank() - 1);
    if (last % 8 != 0) {
      return errors::InvalidArgument("Inner dimension of input should be divisible by 8, but saw shape: ",
                                     in.shape());
    }
    TensorShape shape = in.shape();
    shape.SetDim(in.rank() - 1, last / 8);
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    if (in.dtype() == DataType::kBool) {
      // Booleans are packed as they are, whatever the threshold, as in TensorFlow.
      Pack(context, in.data<bool>(), false, out);
      return Status();
    }
    return VisitReal(in.dtype(), NoSuchType(context, in.dtype()), [&]<typename T>() {
      Pack(context, in.data<T>(), threshold.scalar<T>(), out);
      return Status();
    });
  }

 private:
  template <typename T>
  static void Pack(const KernelContext& context, const T* in, T threshold, Tensor* out) {
    context.ParallelFor(out->num_elements(), 8, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        unsigned byte = 0;
        for (int64_t k = 0; k < 8; ++k) byte = byte << 1 | (LessThan(threshold, in[i * 8 + k]) ? 1u : 0u);
        out->data<uint8_t>()[i] = static_cast<uint8_t>(byte);
      }
    });
  }
};

}  // namespace

void RegisterBitpackKernels(KernelRegistry& registry) {
  registry.Register<BitpackKernel>(KernelDef("CompareAndBitpack"));
}

}  // namespace millrace
