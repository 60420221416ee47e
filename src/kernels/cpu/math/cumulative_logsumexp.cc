// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// CumulativeLogsumexp: log(e^x0 + e^x1 + ...) of the elements so far along an axis.
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

// log(e^a + e^b)
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
            int64_t places[kLanes];  // lanes after the last line repeat it
            for (int64_t l = 0; l < kLanes; ++l) places[l] = first(std::min(group * kLanes + l, lines - 1));
            Scan(from, to, places, length, inner);
          }
        });
      }
      return Status();
    });
  }

 private:
  static constexpr int kLanes = 16;  // lines side by side, since each number depends on the one before
  static constexpr int kFew = 4;

  template <typename T>
  void ScanOne(const T* from, T* to, int64_t length, int64_t step) const {
    using C = ComputeType<T>;
    C sum = -std::numeric_limits<C>::infinity();
    for (int64_t k = 0; k < length; ++k) {
      const int64_t at = (reverse_ ? length - 1 - k : k) * step;
      const C next = AddOne(sum, static_cast<C>(from[at]));
      // The sum of no elements is the lowest number, as in TensorFlow.
      to[at] = static_cast<T>(!exclusive_ ? next : k == 0 ? Lowest<T>() : sum);
      sum = next;
    }
  }

  // A sum is e^high (1 + rest): an addition takes one exponential, and no later element waits for the
  // logarithm. Functions of floats and halves are computed in single precision, rests in double.
  template <typename T>
  void Scan(const T* from, T* to, const int64_t* first, int64_t length, int64_t step) const {
    using C = ComputeType<T>;
    RunLoop([=, this]() MR_INLINE_LAMBDA {
      constexpr C kInf = std::numeric_limits<C>::infinity();
      C highs[kLanes], values[kLanes], sums[kLanes], powers[kLanes];
      double rests[kLanes];
      for (int l = 0; l < kLanes; ++l) {
        highs[l] = sums[l] = -kInf;
        rests[l] = 0;
      }
      for (int64_t k = 0; k < length; ++k) {
        const int64_t at = (reverse_ ? length - 1 - k : k) * step;
        for (int l = 0; l < kLanes; ++l) values[l] = static_cast<C>(from[first[l] + at]);
        if (exclusive_) {
          for (int l = 0; l < kLanes; ++l)
            to[first[l] + at] = static_cast<T>(k == 0 ? static_cast<C>(Lowest<T>()) : sums[l]);
        }
        MR_LANES
        for (int l = 0; l < kLanes; ++l) {
          const C difference = values[l] - highs[l];
          // Of equal infinities, too.
          const C same = LoopSelect(values[l] == -kInf, C(0), C(1));
          powers[l] = LoopSelect(values[l] == highs[l], same,
                                 LoopExp(LoopSelect(difference > 0, -difference, difference)));
        }
        MR_LANES
        for (int l = 0; l < kLanes; ++l) {
          const auto power = static_cast<double>(powers[l]);
          const double scaled = (1 + rests[l]) * power, added = rests[l] + power;
          rests[l] =
              LoopSelect(static_cast<double>(highs[l]) < static_cast<double>(values[l]), scaled, added);
        }
        MR_LANES
        for (int l = 0; l < kLanes; ++l) highs[l] = LoopSelect(highs[l] < values[l], values[l], highs[l]);
        LogsOfSums(highs, rests, sums);
        if (!exclusive_) {
          for (int l = 0; l < kLanes; ++l) to[first[l] + at] = static_cast<T>(sums[l]);
        }
      }
    });
  }
  static MR_INLINE_LAMBDA void LogsOfSums(const double* highs, const double* rests, double* sums) {
    MR_LANES
    for (int l = 0; l < kLanes; ++l) sums[l] = highs[l] + LoopLog1p(rests[l]);
  }
  static MR_INLINE_LAMBDA void LogsOfSums(const float* highs, const double* rests, float* sums) {
    float totals[kLanes], lost[kLanes];  // what rounding a total to single precision lost
    MR_LANES
    for (int l = 0; l < kLanes; ++l) totals[l] = static_cast<float>(1 + rests[l]);
    MR_LANES
    for (int l = 0; l < kLanes; ++l)
      lost[l] = static_cast<float>(rests[l] - (static_cast<double>(totals[l]) - 1));
    MR_LANES
    for (int l = 0; l < kLanes; ++l) {
      const float sum = highs[l] + (LoopLogOfNormal(totals[l]) + lost[l] / totals[l]);
      sums[l] = LoopSelect(totals[l] == totals[l], sum, totals[l]);  // NaN stays
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
