// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Cross.
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/loop.h"

namespace millrace {
namespace {

// w = u x v for n vectors.
template <typename T>
void CrossVectors(const T* u, const T* v, T* w, int64_t n) {
  RunLoop([=]() MR_INLINE_LAMBDA {
    for (int64_t i = 0; i < 3 * n; i += 3) {
      const T u0 = u[i], u1 = u[i + 1], u2 = u[i + 2], v0 = v[i], v1 = v[i + 1], v2 = v[i + 2];
      w[i] = Minus(Times(u1, v2), Times(u2, v1));
      w[i + 1] = Minus(Times(u2, v0), Times(u0, v2));
      w[i + 2] = Minus(Times(u0, v1), Times(u1, v0));
    }
  });
}

// The cross product of vectors in three dimensions.
class CrossKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& a = context.input(0);
    const Tensor& b = context.input(1);
    if (a.shape() != b.shape()) {
      return errors::InvalidArgument("Both inputs must be of same shape: ", a.shape(), " vs. ", b.shape());
    }
    if (a.rank() < 1) return errors::InvalidArgument("Input must be at least 1D", a.shape());
    if (a.dim(a.rank() - 1) != 3)
      return errors::FailedPrecondition("Cross-products are only defined for 3-element vectors.");
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, a.shape()));
    return VisitReal(a.dtype(), NoSuchType(context, a.dtype()), [&]<typename T>() {
      context.ParallelFor(a.num_elements() / 3, 4, [&](int64_t begin, int64_t end) {
        CrossVectors(a.data<T>() + 3 * begin, b.data<T>() + 3 * begin, out->data<T>() + 3 * begin,
                     end - begin);
      });
      return Status();
    });
  }
};

}  // namespace

void RegisterCrossKernels(KernelRegistry& registry) {
  registry.Register<CrossKernel>(KernelDef("Cross").Types("T", RealTypes()));
}

}  // namespace millrace
