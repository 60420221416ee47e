// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// DynamicPartition, DynamicStitch and Bucketize.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/array/count_before.h"
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/loop.h"
#include "kernels/cpu/move.h"
#include "kernels/cpu/rows.h"

namespace millrace {
namespace {

bool StartsWith(const TensorShape& shape, const TensorShape& prefix) {
  if (shape.rank() < prefix.rank()) return false;
  for (int i = 0; i < prefix.rank(); ++i) {
    if (shape.dim(i) != prefix.dim(i)) return false;
  }
  return true;
}

// [rows] followed by the dimensions of the shape after `prefix`.
StatusOr<TensorShape> ShapeOfRows(int64_t rows, const TensorShape& shape, int prefix) {
  Dims dims;
  dims.push_back(rows);
  for (int i = prefix; i < shape.rank(); ++i) dims.push_back(shape.dim(i));
  return ShapeFromValues(dims);
}

class DynamicPartitionKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& data = context.input(0);
    const Tensor& partitions = context.input(1);
    if (!StartsWith(data.shape(), partitions.shape())) {
      return errors::InvalidArgument("data.shape must start with partitions.shape, got data.shape = ",
                                     data.shape(), ", partitions.shape = ", partitions.shape());
    }
    std::vector<std::vector<int64_t>> rows(static_cast<size_t>(num_outputs()));
    for (int64_t i = 0; i < partitions.num_elements(); ++i) {
      const int32_t p = partitions.data<int32_t>()[i];
      if (p < 0 || p >= num_outputs()) {
        return errors::InvalidArgument("partitions", IndexText(partitions.shape(), i), " = ", p,
                                       " is not in [0, ", num_outputs(), ")");
      }
      rows[static_cast<size_t>(p)].push_back(i);
    }
    const int64_t row = ProductOf(data.shape().dims(), partitions.rank(), data.rank());
    for (int p = 0; p < num_outputs(); ++p) {
      const auto& taken = rows[static_cast<size_t>(p)];
      MR_ASSIGN_OR_RETURN(const TensorShape shape,
                          ShapeOfRows(static_cast<int64_t>(taken.size()), data.shape(), partitions.rank()));
      MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(p, shape));
      TakeRows(data.dtype(), data.raw_data(), taken, row, out->raw_data());
    }
    return Status();
  }
};

// The last row with an index wins; indices without a row give zeros.
class DynamicStitchKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const int64_t rows, CountRows(context));
    const int n = num_inputs() / 2;
    const Tensor& first = context.input(n);
    const int prefix = context.input(0).rank();
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeOfRows(rows, first.shape(), prefix));
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, shape));
    ContextParallel parallel(context);
    ZeroElements(out->dtype(), out->raw_data(), out->num_elements(), parallel);
    const int64_t row = ProductOf(first.shape().dims(), prefix, first.rank());
    for (int i = 0; i < n; ++i) {
      const std::span<const int32_t> indices = context.input(i).flat<int32_t>();
      const std::vector<int64_t> places(indices.begin(), indices.end());
      PutRows(out->dtype(), context.input(n + i).raw_data(), places, row, out->raw_data());
    }
    return Status();
  }

 private:
  // One more than the largest index, after all have been checked.
  StatusOr<int64_t> CountRows(const KernelContext& context) const {
    const int n = num_inputs() / 2;
    const TensorShape& first = context.input(n).shape();
    const int first_prefix = context.input(0).rank();
    int64_t rows = 0;
    for (int i = 0; i < n; ++i) {
      const Tensor& indices = context.input(i);
      const TensorShape& data = context.input(n + i).shape();
      if (!StartsWith(data, indices.shape())) {
        return errors::InvalidArgument("data[", i, "].shape = ", data, " does not start with indices[", i,
                                       "].shape = ", indices.shape());
      }
      if (!std::ranges::equal(data.dims().subspan(static_cast<size_t>(indices.rank())),
                              first.dims().subspan(static_cast<size_t>(first_prefix)))) {
        return errors::InvalidArgument("Need data[0].shape[", first_prefix, ":] = data[", i, "].shape[",
                                       indices.rank(), ":], got data[0].shape = ", first, ", data[", i,
                                       "].shape = ", data, ", indices[0].shape = ", context.input(0).shape(),
                                       ", indices[", i, "].shape = ", indices.shape());
      }
      for (const int32_t index : indices.flat<int32_t>()) {
        if (index < 0) return errors::InvalidArgument("indices[", i, "] has ", index, ", which is negative");
        rows = std::max<int64_t>(rows, int64_t{index} + 1);
      }
    }
    return rows;
  }
};

// The number of boundaries that are not greater than the value.
class BucketizeKernel final : public OpKernel {
 public:
  explicit BucketizeKernel(KernelConstruction& c)
      : OpKernel(c), boundaries_(c.Attr<std::vector<float>>("boundaries")), padded_(boundaries_) {
    if (!std::is_sorted(boundaries_.begin(), boundaries_.end())) {
      c.SetError(errors::InvalidArgument("Expected sorted boundaries"));
    }
    padded_.resize(std::bit_ceil(boundaries_.size() + 1) - 1, std::numeric_limits<float>::infinity());
    plain_ = std::none_of(boundaries_.begin(), boundaries_.end(), [](float b) { return std::isnan(b); });
  }
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, in.shape()));
    return VisitReal(in.dtype(), NoSuchType(context, in.dtype()), [&]<typename T>() {
      if constexpr (sizeof(T) >= 4 && !std::is_unsigned_v<T>) {
        const T* const from = in.data<T>();
        int32_t* const to = out->data<int32_t>();
        context.ParallelFor(in.num_elements(), 2, [&](int64_t begin, int64_t end) {
          // int64 values fit neither a float nor a double exactly.
          if (std::is_same_v<T, int64_t> || !plain_) return CountEach(from, to, begin, end);
          if constexpr (!std::is_same_v<T, int64_t>) {
            RunLoop([=, this]() MR_INLINE_LAMBDA {
              int64_t i = begin;
              for (; i + 16 <= end; i += 16) CountLanes<16>(from + i, to + i);
              for (; i < end; ++i) CountLanes<1>(from + i, to + i);
            });
          }
        });
        return Status();
      }
      return NoSuchType(context, in.dtype());
    });
  }

 private:
  static constexpr size_t kMostCompared = 16;  // compared one by one; more are searched

  template <int kLanes, typename T>
  MR_INLINE_LAMBDA void CountLanes(const T* from, int32_t* to) const {
    using Number = std::conditional_t<std::is_same_v<T, float>, float, double>;
    using Count = std::conditional_t<std::is_same_v<T, float>, int32_t, int64_t>;
    Number values[kLanes];
    Count counts[kLanes];
    ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA { values[l] = static_cast<Number>(from[l]); });
    ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA { counts[l] = 0; });
    const auto size = static_cast<Count>(boundaries_.size());
    if (boundaries_.size() <= kMostCompared) {
      for (Count b = 0; b < size; ++b) {
        const auto boundary = static_cast<Number>(boundaries_[static_cast<size_t>(b)]);
        ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA { counts[l] += values[l] < boundary ? 0 : 1; });
      }
    } else {
      const float* const sorted = padded_.data();
      for (auto half = static_cast<Count>(padded_.size() / 2 + 1); half > 0; half /= 2) {
        ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA {
          const auto boundary = static_cast<Number>(sorted[counts[l] + half - 1]);
          counts[l] += values[l] < boundary ? 0 : half;
        });
      }
    }
    ForLanes<kLanes>(
        [&](int l) MR_INLINE_LAMBDA { to[l] = static_cast<int32_t>(counts[l] < size ? counts[l] : size); });
  }

  template <typename T>
  void CountEach(const T* from, int32_t* to, int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; ++i) {
      to[i] = static_cast<int32_t>(CountBefore(boundaries_.data(), static_cast<int64_t>(boundaries_.size()),
                                               [value = static_cast<long double>(from[i])](float boundary) {
                                                 return !(value < static_cast<long double>(boundary));
                                               }));
    }
  }

  const std::vector<float> boundaries_;
  std::vector<float> padded_;  // with infinities up to a power of two minus one
  bool plain_ = true;          // no boundary is NaN
};

}  // namespace

void RegisterPartitionRowsKernels(KernelRegistry& registry) {
  registry.Register<DynamicPartitionKernel>(KernelDef("DynamicPartition"));
  registry.Register<DynamicStitchKernel>(KernelDef("DynamicStitch"));
  registry.Register<DynamicStitchKernel>(KernelDef("ParallelDynamicStitch"));
  registry.Register<BucketizeKernel>(
      KernelDef("Bucketize")
          .Types("T", {DataType::kInt32, DataType::kInt64, DataType::kFloat, DataType::kDouble}));
}

}  // namespace millrace
