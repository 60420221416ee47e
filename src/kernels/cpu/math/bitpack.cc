// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// CompareAndBitpack: eight comparisons in a byte, the first in the highest bit.
#include <algorithm>

#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/loop.h"

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
      // Booleans are packed unchanged, whatever the threshold, as in TensorFlow.
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
    context.ParallelFor(out->num_elements(), 2, [&](int64_t begin, int64_t end) {
      RunLoop([=, to = out->data<uint8_t>()]() MR_INLINE_LAMBDA {
        constexpr int64_t kBlock = 128;
        uint8_t flags[8 * kBlock];
        for (int64_t first = begin; first < end; first += kBlock) {
          const int64_t n = std::min(kBlock, end - first);
          const T* const from = in + 8 * first;
          for (int64_t i = 0; i < 8 * n; ++i) flags[i] = LessThan(threshold, from[i]) ? 1 : 0;
          for (int64_t i = 0; i < n; ++i) {
            // Flag k, where 0 is the first byte of the word, is moved to bit 63 - k; the partial products
            // don't overlap.
            uint64_t eight;
            std::memcpy(&eight, flags + 8 * i, sizeof(eight));
            to[first + i] = static_cast<uint8_t>(eight * 0x8040201008040201 >> 56);
          }
        }
      });
    });
  }
};

}  // namespace

void RegisterBitpackKernels(KernelRegistry& registry) {
  registry.Register<BitpackKernel>(KernelDef("CompareAndBitpack"));
}

}  // namespace millrace
