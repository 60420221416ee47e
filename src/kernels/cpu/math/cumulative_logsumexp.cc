// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// log(e^x0 + e^x1 + ...) along an axis, of what has come so far.
#include <cmath>
#include <limits>

#include "kernels/cpu/kernel_util.h"

namespace millrace {
namespace {

template <typename C>
C LogAddExp(C a, C b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;
  const C low = a < b ? a : b, high = a < b ? b : a;
  if (std::isinf(high)) return high;  // of equal infinities, too
  return high + std::log1p(std::exp(low - high));
}

class CumulativeLogsumexpKernel final : public OpKernel {
 public:
  explicit CumulativeLogsumexpKernel(KernelConstruction& c)
      : OpKernel(c), exclusive_(c.Attr<bool>("exclusive")), reverse_(c.Attr<bool>("reverse")) {}
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    if (!context.input(1).shape().IsScalar()) {
      return errors::InvalidArgument("ScanOp: axis must be a scalar, not ", context.input(1).shape());
    }
    const int64_t rank = in.rank(), given = IntValue(context.input(1));
    if (given < -rank || given >= rank) {
      return errors::InvalidArgument("ScanOp: Expected scan axis in the range [", -rank, ", ", rank,
                                     "), but got ", given);
    }
    const int axis = static_cast<int>(given < 0 ? given + rank : given);
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, in.shape()));
    if (in.num_elements() == 0) return Status();
    const int64_t length = in.dim(axis), inner = ProductOf(in.shape().dims(), axis + 1, in.rank());
    return VisitReal(in.dtype(), NoSuchType(context, in.dtype()), [&]<typename T>() {
      if constexpr (!std::is_integral_v<T>) {
        context.ParallelFor(in.num_elements() / length, 20 * length, [&](int64_t begin, int64_t end) {
          for (int64_t line = begin; line < end; ++line) {
            const int64_t first = line / inner * length * inner + line % inner;
            Scan(in.data<T>() + first, out->data<T>() + first, length, inner);
          }
        });
      }
      return Status();
    });
  }

 private:
  template <typename T>
  void Scan(const T* from, T* to, int64_t length, int64_t step) const {
    using C = ComputeType<T>;
    C sum = -std::numeric_limits<C>::infinity();
    for (int64_t k = 0; k < length; ++k) {
      const int64_t at = (reverse_ ? length - 1 - k : k) * step;
      const C next = LogAddExp(sum, static_cast<C>(from[at]));
      // Nothing so far is the lowest number, as in TensorFlow.
      to[at] = static_cast<T>(!exclusive_ ? next : k == 0 ? Lowest<T>() : sum);
      sum = next;
    }
  }
  template <typename T>
  static ComputeType<T> Lowest() {
    return std::is_same_v<T, half> ? -65504 : std::numeric_limits<ComputeType<T>>::lowest();
  }

  const bool exclusive_, reverse_;
};

}  // namespace

void RegisterCumulativeLogsumexpKernels(KernelRegistry& registry) {
  registry.Register<CumulativeLogsumexpKernel>(
      KernelDef("CumulativeLogsumexp").Types("T", {DataType::kHalf, DataType::kFloat, DataType::kDouble}));
}

}  // namespace millrace
