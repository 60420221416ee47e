// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// RaggedGather: rows of a ragged tensor by index.
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/cpu/move.h"
#include "kernels/cpu/ragged/splits.h"

namespace millrace {
namespace {

class RaggedGatherKernel final : public OpKernel {
 public:
  explicit RaggedGatherKernel(KernelConstruction& c)
      : OpKernel(c), depth_(num_inputs() - 2), output_depth_(num_outputs() - 1) {}
  Status Compute(KernelContext& context) override {
    const Tensor& values = context.input(depth_);
    const Tensor& indices = context.input(depth_ + 1);
    if (indices.rank() != output_depth_ - depth_ + 1) {
      return errors::InvalidArgument("indices must have rank ", output_depth_ - depth_ + 1, ", got shape ",
                                     indices.shape());
    }
    if (values.rank() == 0) return errors::InvalidArgument("params.rank must be nonzero");
    Splits splits;
    MR_RETURN_IF_ERROR(ReadSplits(context, values.dim(0), &splits));
    const int64_t limit = splits[0].size() - 1;
    const ragged::Numbers rows(indices);
    for (int64_t i = 0; i < rows.size(); ++i) {
      if (rows[i] < 0 || rows[i] >= limit) {
        return errors::InvalidArgument("indices", IndexText(indices.shape(), i), " = ", rows[i],
                                       " is not in [0, ", limit, ")");
      }
    }
    MR_RETURN_IF_ERROR(PutSplitsOfIndices(context, indices.shape()));
    MR_ASSIGN_OR_RETURN(const int64_t total, PutSplitsOfParams(context, splits, rows));
    return PutValues(context, splits, rows, total);
  }

 private:
  using Splits = std::vector<ragged::Numbers>;  // of each depth

  Status ReadSplits(const KernelContext& context, int64_t num_values, Splits* read) const {
    for (int d = 0; d < depth_; ++d) {
      const Tensor& splits = context.input(d);
      if (splits.rank() != 1)
        return errors::InvalidArgument("Ragged splits must be vectors, got shape ", splits.shape());
      if (splits.num_elements() == 0) return errors::InvalidArgument("Ragged splits may not be empty");
      const int64_t limit = d + 1 < depth_ ? context.input(d + 1).num_elements() - 1 : num_values;
      const ragged::Numbers& numbers = read->emplace_back(splits);
      const bool good = numbers.IsAscending() && numbers[0] >= 0 && numbers[numbers.size() - 1] <= limit;
      for (int64_t i = 0; !good && i < numbers.size(); ++i) {
        const int64_t split = numbers[i];
        if (split < 0) return errors::InvalidArgument("Ragged splits may not be negative");
        if (split > limit) return errors::InvalidArgument("Ragged splits must not point past values");
        if (i > 0 && split < numbers[i - 1])
          return errors::InvalidArgument("Ragged splits must be sorted in ascending order");
      }
    }
    return Status();
  }

  // All dimensions of the indices but the last one become rows of equal length.
  static Status PutSplitsOfIndices(KernelContext& context, const TensorShape& shape) {
    int64_t rows = 1;
    for (int d = 0; d + 1 < shape.rank(); ++d) {
      if (!MultiplyFits(rows, shape.dim(d), &rows) || rows == INT64_MAX)
        return errors::InvalidArgument("indices of shape ", shape, " have too many rows");
      MR_ASSIGN_OR_RETURN(Tensor * splits, context.AllocateOutput(d, TensorShape({rows + 1})));
      for (int64_t i = 0; i <= rows; ++i) {
        if (!ragged::PutIndex(splits, i, i * shape.dim(d + 1))) return ragged::TooLong(i * shape.dim(d + 1));
      }
    }
    return Status();
  }

  // Returns the number of values taken.
  StatusOr<int64_t> PutSplitsOfParams(KernelContext& context, const Splits& splits,
                                      const ragged::Numbers& rows) const {
    const int before = output_depth_ - depth_;
    int64_t count = rows.size();
    for (int d = 0; d < depth_; ++d) {
      if (before + d < 0) {  // a scalar index: its row is the whole output
        const ragged::Numbers& ends = splits[static_cast<size_t>(d)];
        count = ends[rows[0] + 1] - ends[rows[0]];
        continue;
      }
      MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(before + d, TensorShape({count + 1})));
      MR_ASSIGN_OR_RETURN(count, out->dtype() == DataType::kInt64
                                     ? PutSplits(splits, d, rows, out->data<int64_t>())
                                     : PutSplits(splits, d, rows, out->data<int32_t>()));
    }
    return count;
  }

  // Those of depth d. Returns the last.
  template <typename T>
  static StatusOr<int64_t> PutSplits(const Splits& splits, int d, const ragged::Numbers& rows, T* to) {
    const int64_t* const from = splits[static_cast<size_t>(d)].data();
    int64_t total = 0;
    *to++ = 0;
    for (int64_t i = 0; i < rows.size(); ++i) {
      int64_t begin = rows[i], end = begin + 1;
      for (int above = 0; above < d; ++above) {
        begin = splits[static_cast<size_t>(above)][begin];
        end = splits[static_cast<size_t>(above)][end];
      }
      for (int64_t row = begin; row < end; ++row) {
        if (__builtin_add_overflow(total, from[row + 1] - from[row], &total))
          return errors::InvalidArgument("The rows have more than 2^63 elements");
        if (total > std::numeric_limits<T>::max()) return ragged::TooLong(total);
        *to++ = static_cast<T>(total);
      }
    }
    return total;
  }

  Status PutValues(KernelContext& context, const Splits& splits, const ragged::Numbers& rows,
                   int64_t total) const {
    const Tensor& values = context.input(depth_);
    TensorShape shape = values.shape();
    Dims dims{total};
    for (int i = 1; i < values.rank(); ++i) dims.push_back(values.dim(i));
    MR_ASSIGN_OR_RETURN(shape, ShapeFromValues(dims));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(output_depth_, shape));
    const int64_t row = ProductOf(values.shape().dims(), 1, values.rank());
    if (out->num_elements() == 0) return Status();
    ContextParallel parallel(context);
    const bool owns = OwnsMemory(values.dtype());
    const auto size = static_cast<int64_t>(ElementSize(values.dtype()));
    const auto* const source = static_cast<const char*>(values.raw_data());
    auto* const target = static_cast<char*>(out->raw_data());
    // Places from which a few bytes more than those of a row may be read and written: what is written behind
    // a row belongs to the rows after it, which come later.
    const int64_t last_from = values.num_elements() * size - kShort,
                  last_to = out->num_elements() * size - kShort;
    int64_t to = 0;
    for (int64_t i = 0; i < rows.size(); ++i) {
      int64_t begin = rows[i], end = begin + 1;
      for (const ragged::Numbers& at : splits) {
        begin = at[begin];
        end = at[end];
      }
      const int64_t n = (end - begin) * row, bytes = n * size;
      const int64_t from = begin * row * size;
      if (bytes <= kShort && from <= last_from && to <= last_to && !owns) {
        std::memcpy(target + to, source + from, kShort / 2);
        if (bytes > kShort / 2) std::memcpy(target + to + kShort / 2, source + from + kShort / 2, kShort / 2);
      } else if (bytes <= ragged::kFewBytes && !owns) {
        ragged::CopyFew(source + from, target + to, bytes);
      } else {
        MoveElements(values.dtype(), source + from, target + to, n, parallel);
      }
      to += bytes;
    }
    return Status();
  }

  static constexpr int64_t kShort = 64;  // bytes, which are copied together

  const int depth_, output_depth_;
};

}  // namespace

void RegisterRaggedGatherKernels(KernelRegistry& registry) {
  registry.Register<RaggedGatherKernel>(
      KernelDef("RaggedGather").Types("Tindices", IndexTypes()).Types("Tsplits", IndexTypes()));
}

}  // namespace millrace
