// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// LowerBound, UpperBound, NthElement and HistogramFixedWidth.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/array/count_before.h"
#include "kernels/cpu/kernel_util.h"

namespace millrace {
namespace {

// The position at which each value of a row would be inserted into the sorted row, before (or after) equal
// values.
template <bool kUpper>
class BoundKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& sorted = context.input(0);
    const Tensor& values = context.input(1);
    if (sorted.rank() != 2 || values.rank() != 2) {
      return errors::InvalidArgument("sorted_inputs and values must be matrices, got shapes ", sorted.shape(),
                                     " and ", values.shape());
    }
    if (sorted.dim(0) != values.dim(0)) {
      return errors::InvalidArgument("Leading dim_size of both tensors must match.");
    }
    if (output_type(0) == DataType::kInt32 && sorted.dim(1) >= INT32_MAX) {
      return errors::InvalidArgument("values tensor size must less than INT_MAX");
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, values.shape()));
    return VisitReal(sorted.dtype(), NoSuchType(context, sorted.dtype()), [&]<typename T>() {
      const int64_t length = sorted.dim(1), columns = values.dim(1);
      context.ParallelFor(values.num_elements(), 30, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const T* row = sorted.data<T>() + i / columns * length;
          const T value = values.data<T>()[i];
          const int64_t place = CountBefore(
              row, length, [value](T x) { return kUpper ? !LessThan(value, x) : LessThan(x, value); });
          if (out->dtype() == DataType::kInt32) {
            out->data<int32_t>()[i] = static_cast<int32_t>(place);
          } else {
            out->data<int64_t>()[i] = place;
          }
        }
      });
      return Status();
    });
  }
};

// NaN is less than every number, so that every row has an order.
template <typename T>
bool Below(T a, T b) {
  if constexpr (kIsSmallFloat<T>) {
    return Below(float(a), float(b));
  } else if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(a) ? !std::isnan(b) : a < b;
  } else {
    return a < b;
  }
}

// The n-th smallest (or largest) of each row.
class NthElementKernel final : public OpKernel {
 public:
  explicit NthElementKernel(KernelConstruction& c) : OpKernel(c), reverse_(c.Attr<bool>("reverse")) {}
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    if (!context.input(1).shape().IsScalar()) {
      return errors::InvalidArgument("N must be scalar, got shape ", context.input(1).shape());
    }
    const int64_t given = IntValue(context.input(1));
    if (given < 0) return errors::InvalidArgument("Need n >= 0, got ", given);
    if (in.rank() < 1) return errors::InvalidArgument("Input must be >= 1-D, got shape ", in.shape());
    const int64_t columns = in.dim(in.rank() - 1);
    if (columns <= given) return errors::InvalidArgument("Input must have at least n+1 columns");
    const int64_t n = reverse_ ? columns - given - 1 : given;
    TensorShape shape = in.shape();
    shape.RemoveDim(in.rank() - 1);
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    return VisitReal(in.dtype(), NoSuchType(context, in.dtype()), [&]<typename T>() {
      context.ParallelFor(shape.num_elements(), 10 * columns, [&](int64_t begin, int64_t end) {
        std::vector<T> row(static_cast<size_t>(columns));
        for (int64_t r = begin; r < end; ++r) {
          std::copy_n(in.data<T>() + r * columns, columns, row.begin());
          std::nth_element(row.begin(), row.begin() + n, row.end(), Below<T>);
          out->data<T>()[r] = row[static_cast<size_t>(n)];
        }
      });
      return Status();
    });
  }

 private:
  const bool reverse_;
};

// Counts the values in each of nbins equal parts of a range; values outside belong to the first or last part.
class HistogramKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& values = context.input(0);
    const Tensor& range = context.input(1);
    const Tensor& bins = context.input(2);
    if (!range.shape().IsVector() || range.num_elements() != 2) {
      return errors::InvalidArgument("value_range should be a vector of 2 elements.");
    }
    if (!bins.shape().IsScalar()) return errors::InvalidArgument("nbins should be a scalar.");
    const int64_t count = IntValue(bins);
    if (count <= 0)
      return errors::InvalidArgument("nbins should be a positive number, but got '", count, "'");
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape({count})));
    return VisitReal(values.dtype(), NoSuchType(context, values.dtype()), [&]<typename T>() -> Status {
      if constexpr (kIsSmallFloat<T>) {
        return NoSuchType(context, values.dtype());
      } else {
        const T low = range.data<T>()[0], high = range.data<T>()[1];
        if (!(low < high)) {
          return errors::InvalidArgument(
              "value_range should satisfy value_range[0] < value_range[1], but got '[", low, ", ", high,
              "]'");
        }
        const double step =
            (static_cast<double>(high) - static_cast<double>(low)) / static_cast<double>(count);
        const auto bin_of = [&](T value) {
          const double above = static_cast<double>(value) - static_cast<double>(low);
          const double bin = above / step;  // NaN for an infinite range
          if (!(above > 0)) return int64_t{0};
          return bin < static_cast<double>(count - 1) ? static_cast<int64_t>(bin) : count - 1;
        };
        const auto fill = [&](auto* counts) {
          std::fill_n(counts, count, 0);
          for (int64_t i = 0; i < values.num_elements(); ++i) ++counts[bin_of(values.data<T>()[i])];
        };
        if (out->dtype() == DataType::kInt32) {
          fill(out->data<int32_t>());
        } else {
          fill(out->data<int64_t>());
        }
        return Status();
      }
    });
  }
};

}  // namespace

void RegisterSearchKernels(KernelRegistry& registry) {
  registry.Register<BoundKernel<false>>(
      KernelDef("LowerBound").Types("T", RealTypes()).Types("out_type", IndexTypes()));
  registry.Register<BoundKernel<true>>(
      KernelDef("UpperBound").Types("T", RealTypes()).Types("out_type", IndexTypes()));
  registry.Register<NthElementKernel>(KernelDef("NthElement").Types("T", RealTypes()));
  registry.Register<HistogramKernel>(
      KernelDef("HistogramFixedWidth")
          .Types("dtype", IndexTypes())
          .Types("T", Concat(IndexTypes(), {DataType::kFloat, DataType::kDouble})));
}

}  // namespace millrace
