// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// RaggedRange: a sequence of numbers for each row.
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/loop.h"
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
  // The number of each row; one number for all rows where the input is a scalar.
  template <typename T>
  struct Column {
    explicit Column(const Tensor& t) : data(t.data<T>()), stride(t.rank() == 0 ? 0 : 1) {}
    T operator[](int64_t row) const { return data[row * stride]; }
    const T* data;
    int64_t stride;
  };

  template <typename T>
  static StatusOr<int64_t> Size(T start, T limit, T delta) {
    if (delta == T(0)) return errors::InvalidArgument("Requires delta != 0");
    // The end is before the start.
    if (delta > T(0) ? limit < start : limit > start) return 0;
    return RangeSize(start, limit, delta);
  }

  // The size of a range by steps of one, without a division, which takes longer than a short range.
  template <typename T>
  static bool ShortSize(T start, T limit, T delta, int64_t* size) {
    if constexpr (std::is_integral_v<T>) {
      return delta == 1 && limit >= start && !__builtin_sub_overflow(limit, start, size);
    } else {
      return false;
    }
  }

  template <typename T>
  static Status Run(KernelContext& context, int64_t rows) {
    using Wide = std::conditional_t<kIsSmallFloat<T>, float, T>;
    if constexpr (std::is_same_v<Wide, float> || std::is_same_v<Wide, double> ||
                  std::is_same_v<Wide, int32_t> || std::is_same_v<Wide, int64_t>) {
      const Column<T> starts(context.input(0)), limits(context.input(1)), deltas(context.input(2));
      MR_ASSIGN_OR_RETURN(Tensor * splits, context.AllocateOutput(0, TensorShape({rows + 1})));
      return splits->dtype() == DataType::kInt64
                 ? Put<T, Wide>(context, rows, starts, limits, deltas, splits->data<int64_t>())
                 : Put<T, Wide>(context, rows, starts, limits, deltas, splits->data<int32_t>());
    } else {
      return NoSuchType(context, context.input(0).dtype());
    }
  }

  template <typename T, typename Wide, typename Split>
  static Status Put(KernelContext& context, int64_t rows, const Column<T>& starts, const Column<T>& limits,
                    const Column<T>& deltas, Split* splits) {
    int64_t total = 0;
    splits[0] = 0;
    for (int64_t row = 0; row < rows; ++row) {
      const auto start = static_cast<Wide>(starts[row]), limit = static_cast<Wide>(limits[row]),
                 delta = static_cast<Wide>(deltas[row]);
      int64_t size = 0;
      if (!ShortSize(start, limit, delta, &size)) {
        MR_ASSIGN_OR_RETURN(size, Size(start, limit, delta));
      }
      if (__builtin_add_overflow(total, size, &total))
        return errors::InvalidArgument("The ranges have more than 2^63 elements");
      if (total > std::numeric_limits<Split>::max()) return ragged::TooLong(total);
      splits[row + 1] = static_cast<Split>(total);
    }
    MR_ASSIGN_OR_RETURN(Tensor * values, context.AllocateOutput(1, TensorShape({total})));
    RunLoop([=, to = values->data<T>()]() MR_INLINE_LAMBDA {
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t begin = splits[row], size = splits[row + 1] - begin;
        PutRow<T, Wide>(static_cast<Wide>(starts[row]), static_cast<Wide>(deltas[row]), size, to + begin,
                        total - begin);
      }
    });
    return Status();
  }

  // A row of `size` numbers, behind which others will be written: there is room for `room`.
  template <typename T, typename Wide>
  static MR_INLINE_LAMBDA void PutRow(Wide start, Wide delta, int64_t size, T* to, int64_t room) {
    if constexpr (std::is_integral_v<T>) {
      // In blocks, the last of which may end in the rows behind it. Without overflow, as unsigned numbers.
      using Bits = std::make_unsigned_t<T>;
      constexpr int64_t kBlock = 32 / sizeof(T);
      const auto first = static_cast<Bits>(start), step = static_cast<Bits>(delta);
      int64_t i = 0;
      for (; i < size && i + kBlock <= room; i += kBlock) {
        const Bits at = first + static_cast<Bits>(i) * step;
        ForLanes<kBlock>(
            [&](int l) MR_INLINE_LAMBDA { to[i + l] = static_cast<T>(at + static_cast<Bits>(l) * step); });
      }
      for (; i < size; ++i) to[i] = static_cast<T>(first + static_cast<Bits>(i) * step);
    } else {
      Wide x = start;  // sums, as those of TensorFlow
      for (int64_t i = 0; i < size; ++i) {
        to[i] = static_cast<T>(x);
        x += delta;
      }
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
