// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// RaggedGather: rows of a ragged tensor by index.
#include <cstring>
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
    MR_RETURN_IF_ERROR(CheckSplits(context, values.dim(0)));
    const int64_t limit = context.input(0).num_elements() - 1;
    for (int64_t i = 0; i < indices.num_elements(); ++i) {
      const int64_t index = IntValue(indices, i);
      if (index < 0 || index >= limit) {
        return errors::InvalidArgument("indices", IndexText(indices.shape(), i), " = ", index,
                                       " is not in [0, ", limit, ")");
      }
    }
    MR_ASSIGN_OR_RETURN(const Totals totals, Count(context, indices));
    MR_RETURN_IF_ERROR(PutSplitsOfIndices(context, indices.shape()));
    MR_RETURN_IF_ERROR(PutSplitsOfParams(context, indices, totals));
    return PutValues(context, indices, totals);
  }

 private:
  using Totals = std::vector<int64_t>;  // at each depth: rows taken; at last, values

  Status CheckSplits(const KernelContext& context, int64_t num_values) const {
    for (int d = 0; d < depth_; ++d) {
      const Tensor& splits = context.input(d);
      if (splits.rank() != 1)
        return errors::InvalidArgument("Ragged splits must be vectors, got shape ", splits.shape());
      if (splits.num_elements() == 0) return errors::InvalidArgument("Ragged splits may not be empty");
      const int64_t limit = d + 1 < depth_ ? context.input(d + 1).num_elements() - 1 : num_values;
      for (int64_t i = 0; i < splits.num_elements(); ++i) {
        const int64_t split = IntValue(splits, i);
        if (split < 0) return errors::InvalidArgument("Ragged splits may not be negative");
        if (split > limit) return errors::InvalidArgument("Ragged splits must not point past values");
        if (i > 0 && split < IntValue(splits, i - 1))
          return errors::InvalidArgument("Ragged splits must be sorted in ascending order");
      }
    }
    return Status();
  }

  StatusOr<Totals> Count(const KernelContext& context, const Tensor& indices) const {
    Totals totals(static_cast<size_t>(depth_ + 1));
    for (int64_t i = 0; i < indices.num_elements(); ++i) {
      int64_t begin = IntValue(indices, i), end = begin + 1;
      for (int d = 0; d <= depth_; ++d) {
        if (__builtin_add_overflow(totals[static_cast<size_t>(d)], end - begin,
                                   &totals[static_cast<size_t>(d)])) {
          return errors::InvalidArgument("The rows have more than 2^63 elements");
        }
        if (d == depth_) break;
        begin = IntValue(context.input(d), begin);
        end = IntValue(context.input(d), end);
      }
    }
    return totals;
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

  Status PutSplitsOfParams(KernelContext& context, const Tensor& indices, const Totals& totals) const {
    const int before = output_depth_ - depth_;  // -1 for a scalar index: its row is the whole output
    std::vector<Tensor*> splits(static_cast<size_t>(depth_), nullptr);
    std::vector<int64_t> next(splits.size()), end_of(splits.size());
    for (int d = before < 0 ? 1 : 0; d < depth_; ++d) {
      const auto at = static_cast<size_t>(d);
      MR_ASSIGN_OR_RETURN(splits[at], context.AllocateOutput(before + d, TensorShape({totals[at] + 1})));
      ragged::PutIndex(splits[at], 0, 0);
    }
    for (int64_t i = 0; i < indices.num_elements(); ++i) {
      int64_t begin = IntValue(indices, i), end = begin + 1;
      for (int d = 0; d < depth_; ++d) {
        const Tensor& from = context.input(d);
        const auto at = static_cast<size_t>(d);
        for (int64_t row = begin; splits[at] != nullptr && row < end; ++row) {
          end_of[at] += IntValue(from, row + 1) - IntValue(from, row);
          if (!ragged::PutIndex(splits[at], ++next[at], end_of[at])) return ragged::TooLong(end_of[at]);
        }
        begin = IntValue(from, begin);
        end = IntValue(from, end);
      }
    }
    return Status();
  }

  Status PutValues(KernelContext& context, const Tensor& indices, const Totals& totals) const {
    const Tensor& values = context.input(depth_);
    TensorShape shape = values.shape();
    Dims dims{totals.back()};
    for (int i = 1; i < values.rank(); ++i) dims.push_back(values.dim(i));
    MR_ASSIGN_OR_RETURN(shape, ShapeFromValues(dims));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(output_depth_, shape));
    const int64_t row = ProductOf(values.shape().dims(), 1, values.rank());
    ContextParallel parallel(context);
    int64_t to = 0;
    for (int64_t i = 0; out->num_elements() > 0 && i < indices.num_elements(); ++i) {
      int64_t begin = IntValue(indices, i), end = begin + 1;
      for (int d = 0; d < depth_; ++d) {
        begin = IntValue(context.input(d), begin);
        end = IntValue(context.input(d), end);
      }
      const int64_t n = (end - begin) * row;
      const void* const source = ElementAt(values.raw_data(), values.dtype(), begin * row);
      void* const target = ElementAt(out->raw_data(), values.dtype(), to);
      if (n < kFew && !OwnsMemory(values.dtype())) {
        std::memcpy(target, source, static_cast<size_t>(n) * ElementSize(values.dtype()));
      } else {
        MoveElements(values.dtype(), source, target, n, parallel);
      }
      to += n;
    }
    return Status();
  }

  static constexpr int64_t kFew = 256;  // elements that are moved faster than a move is prepared

  const int depth_, output_depth_;
};

}  // namespace

void RegisterRaggedGatherKernels(KernelRegistry& registry) {
  registry.Register<RaggedGatherKernel>(
      KernelDef("RaggedGather").Types("Tindices", IndexTypes()).Types("Tsplits", IndexTypes()));
}

}  // namespace millrace
