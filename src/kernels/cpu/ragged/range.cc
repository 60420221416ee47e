// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// RaggedRange: a sequence of numbers for each row.
#include <cmath>
#include <vector>

#include "kernels/cpu/ragged/splits.h"
#include "op/range_size.h"

namespace millrace {
namespace {

class RaggedRangeKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    static constexpr const char* kNames[] = {"starts", "limits", "deltas"};
    int64_t rows = 1;
    bool vectors = false;
    for (int i = 0; i < 3; ++i) {
      const Tensor& t = context.input(i);
      if (t.rank() > 1) return errors::InvalidArgument(kNames[i], " must be a scalar or vector");
      if (t.rank() == 0) continue;
      if (vectors && t.dim(0) != rows)
        return errors::InvalidArgument("starts, limits, and deltas must have the same shape");
      rows = t.dim(0);
      vectors = true;
    }
    const DataType dtype = context.input(0).dtype();
    return VisitReal(dtype, NoSuchType(context, dtype), [&]<typename T>() { return Run<T>(context, rows); });
  }

 private:
  template <typename T>
  static T ValueAt(const Tensor& t, int64_t i) {
    return t.data<T>()[t.rank() == 0 ? 0 : i];
  }

  template <typename T>
  static StatusOr<int64_t> Size(T start, T limit, T delta) {
    if (delta == T(0)) return errors::InvalidArgument("Requires delta != 0");
    // The end lies behind the start.
    if (delta > T(0) ? limit < start : limit > start) return 0;
    if constexpr (std::is_integral_v<T>) {
      int64_t size = 0;  // without a division, which takes longer than a short range
      if (delta == 1 && !__builtin_sub_overflow(limit, start, &size)) return size;
    }
    return RangeSize(start, limit, delta);
  }

  template <typename T>
  static Status Run(KernelContext& context, int64_t rows) {
    using Wide = std::conditional_t<kIsSmallFloat<T>, float, T>;
    if constexpr (std::is_same_v<Wide, float> || std::is_same_v<Wide, double> ||
                  std::is_same_v<Wide, int32_t> || std::is_same_v<Wide, int64_t>) {
      const auto value = [&](int input, int64_t row) {
        return static_cast<Wide>(ValueAt<T>(context.input(input), row));
      };
      MR_ASSIGN_OR_RETURN(Tensor * splits, context.AllocateOutput(0, TensorShape({rows + 1})));
      ragged::PutIndex(splits, 0, 0);
      int64_t total = 0;
      for (int64_t row = 0; row < rows; ++row) {
        MR_ASSIGN_OR_RETURN(const int64_t size, Size(value(0, row), value(1, row), value(2, row)));
        if (__builtin_add_overflow(total, size, &total))
          return errors::InvalidArgument("The ranges have more than 2^63 elements");
        if (!ragged::PutIndex(splits, row + 1, total)) return ragged::TooLong(total);
      }
      MR_ASSIGN_OR_RETURN(Tensor * values, context.AllocateOutput(1, TensorShape({total})));
      T* to = values->data<T>();
      int64_t begin = 0;
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t end = IntValue(*splits, row + 1), size = end - begin;
        begin = end;
        Wide x = value(0, row);
        const Wide delta = value(2, row);
        for (int64_t i = 0; i < size; ++i) {
          *to++ = static_cast<T>(x);
          x = Plus(x, delta);
        }
      }
      return Status();
    } else {
      return NoSuchType(context, context.input(0).dtype());
    }
  }
};

}  // namespace

void RegisterRaggedRangeKernels(KernelRegistry& registry) {
  registry.Register<RaggedRangeKernel>(
      KernelDef("RaggedRange")
          .Types("T", {DataType::kBfloat16, DataType::kFloat, DataType::kDouble, DataType::kInt32,
                       DataType::kInt64})
          .Types("Tsplits", IndexTypes()));
}

}  // namespace millrace
