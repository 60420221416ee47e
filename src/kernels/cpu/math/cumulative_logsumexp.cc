// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// log(e^x0 + e^x1 + ...) along an axis, of what has come so far.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/loop.h"
#include "kernels/cpu/loop_math.h"

namespace millrace {
namespace {

inline MR_INLINE_LAMBDA double LogAddExp(double a, double b) {
  const double high = LoopSelect(a < b, b, a), low = LoopSelect(a < b, a, b);
  const double sum = high + LoopLog1p(LoopExp(low - high));
  // Of equal infinities, too; NaN comes from either.
  const double infinity = std::numeric_limits<double>::infinity();
  const double result = LoopSelect((high == infinity) | (high == -infinity), high, sum);
  return LoopSelect((a != a) | (b != b), a + b, result);
}

// The same of one number, which is faster alone.
template <typename C>
C AddOne(C a, C b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;
  const C low = a < b ? a : b, high = a < b ? b : a;
  if (std::isinf(high)) return high;
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
        const int64_t lines = in.num_elements() / length;
        const auto first = [=](int64_t line) { return line / inner * length * inner + line % inner; };
        const T* const from = in.data<T>();
        T* const to = out->data<T>();
        if (lines < kFew) {
          context.ParallelFor(lines, 20 * length, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) ScanOne(from + first(i), to + first(i), length, inner);
          });
          return Status();
        }
        context.ParallelFor((lines + kLanes - 1) / kLanes, 60 * length, [&](int64_t begin, int64_t end) {
          for (int64_t group = begin; group < end; ++group) {
            int64_t places[kLanes];  // what is behind the last line repeats it
            for (int64_t l = 0; l < kLanes; ++l) places[l] = first(std::min(group * kLanes + l, lines - 1));
            Scan(from, to, places, length, inner);
          }
        });
      }
      return Status();
    });
  }

 private:
  static constexpr int kLanes = 16;  // lines side by side, since each number waits for the one before
  static constexpr int kFew = 4;

  template <typename T>
  void ScanOne(const T* from, T* to, int64_t length, int64_t step) const {
    using C = ComputeType<T>;
    C sum = -std::numeric_limits<C>::infinity();
    for (int64_t k = 0; k < length; ++k) {
      const int64_t at = (reverse_ ? length - 1 - k : k) * step;
      const C next = AddOne(sum, static_cast<C>(from[at]));
      // Nothing so far is the lowest number, as in TensorFlow.
      to[at] = static_cast<T>(!exclusive_ ? next : k == 0 ? Lowest<T>() : sum);
      sum = next;
    }
  }

  template <typename T>
  void Scan(const T* from, T* to, const int64_t* first, int64_t length, int64_t step) const {
    using C = ComputeType<T>;
    RunLoop([=, this]() MR_INLINE_LAMBDA {
      double sums[kLanes], values[kLanes];
      for (double& sum : sums) sum = -std::numeric_limits<double>::infinity();
      for (int64_t k = 0; k < length; ++k) {
        const int64_t at = (reverse_ ? length - 1 - k : k) * step;
        for (int l = 0; l < kLanes; ++l) values[l] = static_cast<double>(static_cast<C>(from[first[l] + at]));
        if (exclusive_) {
          for (int l = 0; l < kLanes; ++l)
            to[first[l] + at] =
                k == 0 ? static_cast<T>(Lowest<T>()) : static_cast<T>(static_cast<C>(sums[l]));
        }
        MR_LANES
        for (int l = 0; l < kLanes; ++l) sums[l] = LogAddExp(sums[l], values[l]);
        if (!exclusive_) {
          for (int l = 0; l < kLanes; ++l) to[first[l] + at] = static_cast<T>(static_cast<C>(sums[l]));
        }
      }
    });
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
