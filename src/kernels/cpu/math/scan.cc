// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Cumsum and Cumprod.
#include "kernels/cpu/kernel_util.h"

namespace millrace {
namespace {

template <bool kProduct>
class ScanKernel final : public OpKernel {
 public:
  explicit ScanKernel(KernelConstruction& c)
      : OpKernel(c), exclusive_(c.Attr<bool>("exclusive")), reverse_(c.Attr<bool>("reverse")) {}
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const Tensor& axis_tensor = context.input(1);
    if (!axis_tensor.shape().IsScalar()) {
      return errors::InvalidArgument("ScanOp: axis must be a scalar, not ", axis_tensor.shape());
    }
    const int rank = in.rank();
    const int64_t given = IntValue(axis_tensor);
    // The message has the axis as counted from the front.
    const auto axis = static_cast<int>(given < 0 ? given + rank : given);
    if (given < -rank || given >= rank) {
      return errors::InvalidArgument("ScanOp: Expected scan axis in the range [", -rank, ", ", rank,
                                     "), but got ", axis);
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, in.shape()));
    if (in.num_elements() == 0) return Status();
    const auto dims = in.shape().dims();
    const int64_t outer = ProductOf(dims, 0, axis), length = dims[axis],
                  inner = ProductOf(dims, axis + 1, rank);
    return VisitNumber(in.dtype(), NoSuchType(context, in.dtype()), [&]<typename T>() {
      const T* from = in.data<T>();
      T* to = out->data<T>();
      context.ParallelFor(outer, 2 * length * inner, [&](int64_t begin, int64_t end) {
        for (int64_t o = begin; o < end; ++o)
          Scan(from + o * length * inner, to + o * length * inner, length, inner);
      });
      return Status();
    });
  }

 private:
  // A [length, inner] block along its first axis: each row is the previous one combined with an input row.
  template <typename T>
  void Scan(const T* from, T* to, int64_t length, int64_t inner) const {
    const int64_t step = reverse_ ? -inner : inner;
    if (reverse_) {
      from += (length - 1) * inner;
      to += (length - 1) * inner;
    }
    for (int64_t i = 0; i < inner; ++i) to[i] = exclusive_ ? T(kProduct ? 1.0f : 0.0f) : from[i];
    const T* add = exclusive_ ? from : from + step;
    for (int64_t k = 1; k < length; ++k, add += step) {
      const T* before = to;
      to += step;
      for (int64_t i = 0; i < inner; ++i)
        to[i] = kProduct ? Times(before[i], add[i]) : Plus(before[i], add[i]);
    }
  }

  const bool exclusive_, reverse_;
};

}  // namespace

void RegisterScanKernels(KernelRegistry& registry) {
  registry.Register<ScanKernel<false>>(KernelDef("Cumsum").Types("T", NumberTypes()));
  registry.Register<ScanKernel<true>>(KernelDef("Cumprod").Types("T", NumberTypes()));
}

}  // namespace millrace
