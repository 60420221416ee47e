// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Range and LinSpace.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/loop.h"

namespace millrace {
namespace {

class RangeKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    static constexpr const char* kNames[] = {"start", "limit", "delta"};
    for (int i = 0; i < 3; ++i) {
      if (!context.input(i).shape().IsScalar()) {
        return errors::InvalidArgument(kNames[i], " must be a scalar, not shape ", context.input(i).shape());
      }
    }
    const DataType dtype = context.input(0).dtype();
    return VisitReal(dtype, NoSuchType(context, dtype), [&]<typename T>() { return Run<T>(context); });
  }

 private:
  template <typename T>
  static Status Run(KernelContext& context) {
    const T start = context.input(0).scalar<T>();
    const T limit = context.input(1).scalar<T>();
    const T delta = context.input(2).scalar<T>();
    if constexpr (std::is_integral_v<T> || std::is_floating_point_v<T>) {
      if (delta == 0) return errors::InvalidArgument("Requires delta != 0: ", delta);
      if (delta > 0 && start > limit) {
        return errors::InvalidArgument("Requires start <= limit when delta > 0: ", start, "/", limit);
      }
      if (delta < 0 && start < limit) {
        return errors::InvalidArgument("Requires start >= limit when delta < 0: ", start, "/", limit);
      }
      MR_ASSIGN_OR_RETURN(const int64_t size, Size(start, limit, delta));
      MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape({size})));
      T value = start;
      for (T& x : out->flat<T>()) {
        x = value;
        value = Plus(value, delta);  // the rounded sum, not a multiple: TensorFlow's values
      }
      return Status();
    } else {
      return NoSuchType(context, context.input(0).dtype());
    }
  }

  template <typename T>
  static StatusOr<int64_t> Size(T start, T limit, T delta) {
    if constexpr (std::is_integral_v<T>) {
      __extension__ using Wide = __int128;
      const Wide distance = delta > 0 ? Wide{limit} - start : Wide{start} - limit;
      const Wide step = delta > 0 ? Wide{delta} : -Wide{delta};
      const Wide size = (distance + step - 1) / step;
      if (size > INT64_MAX) return errors::InvalidArgument("Requires a range of at most 2^63 - 1 elements");
      return static_cast<int64_t>(size);
    } else {
      const double size = std::ceil(std::abs(static_cast<double>((limit - start) / delta)));
      if (!(size < 9.2e18)) {
        return errors::InvalidArgument(
            "Requires ((limit - start) / delta) <= 9223372036854775807, got start ", start, ", limit ", limit,
            ", delta ", delta);
      }
      return static_cast<int64_t>(size);
    }
  }
};

class LinSpaceKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    static constexpr const char* kNames[] = {"start", "stop", "num"};
    for (int i = 0; i < 3; ++i) {
      if (!context.input(i).shape().IsScalar()) {
        return errors::InvalidArgument(kNames[i], " must be a scalar, not shape ", context.input(i).shape());
      }
    }
    const int64_t num = IntValue(context.input(2));
    if (num <= 0) return errors::InvalidArgument("Requires num > 0: ", num);
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape({num})));
    return out->dtype() == DataType::kFloat ? Run<float>(context, num, *out)
                                            : Run<double>(context, num, *out);
  }

 private:
  template <typename T>
  static Status Run(const KernelContext& context, int64_t num, Tensor& out) {
    const T start = context.input(0).scalar<T>();
    const T stop = context.input(1).scalar<T>();
    T* to = out.data<T>();
    to[0] = start;
    if (num == 1) return Status();
    const T step = (stop - start) / static_cast<T>(num - 1);
    context.ParallelFor(num, 1, [&](int64_t begin, int64_t end) {
      constexpr int32_t kBlock =
          1 << 20;  // within it numbers are of 32 bits, which every vector unit converts
      for (; begin < end; begin += kBlock) {
        const auto n = static_cast<int32_t>(std::min<int64_t>(kBlock, end - begin));
        RunLoop([=, block = to + begin]() MR_INLINE_LAMBDA {
          if (begin + n <= INT32_MAX) {
            const auto first = static_cast<int32_t>(begin);
            for (int32_t i = 0; i < n; ++i) block[i] = start + step * static_cast<T>(first + i);
          } else {
            for (int32_t i = 0; i < n; ++i) block[i] = start + step * static_cast<T>(begin + i);
          }
        });
      }
    });
    to[0] = start;
    to[num - 1] = stop;
    return Status();
  }
};

}  // namespace

void RegisterRangeKernels(KernelRegistry& registry) {
  registry.Register<RangeKernel>(
      KernelDef("Range").Types("Tidx", Concat(IntegerTypes(), {DataType::kFloat, DataType::kDouble})));
  registry.Register<LinSpaceKernel>(KernelDef("LinSpace").Types("T", {DataType::kFloat, DataType::kDouble}));
}

}  // namespace millrace
