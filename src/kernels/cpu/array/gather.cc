// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Gather, GatherV2 and GatherNd.
#include "kernels/cpu/array/gather.h"

#include "kernel/kernel_registry.h"
#include "kernels/cpu/move.h"

namespace millrace {

Status GatherInto(KernelContext& context, const Tensor& params, const Tensor& indices, int axis,
                  int batch_dims) {
  Dims dims;
  for (int i = 0; i < axis; ++i) dims.push_back(params.dim(i));
  for (int i = batch_dims; i < indices.rank(); ++i) dims.push_back(indices.dim(i));
  for (int i = axis + 1; i < params.rank(); ++i) dims.push_back(params.dim(i));
  for (int i = 0; i < batch_dims; ++i) {
    if (params.dim(i) != indices.dim(i)) {
      return errors::InvalidArgument("params.shape[", i, "]: ", params.dim(i),
                                     " should be equal to indices.shape[", i, "]: ", indices.dim(i));
    }
  }
  if (dims.size() > TensorShape::kMaxRank)
    return errors::InvalidArgument("Too many dimensions: ", dims.size());
  MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromValues(dims));
  MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
  const auto from = params.shape().dims();
  const int64_t batches = ProductOf(from, 0, batch_dims), outer = ProductOf(from, batch_dims, axis);
  const int64_t limit = from[axis], row = ProductOf(from, axis + 1, params.rank());
  const int64_t n = ProductOf(indices.shape().dims(), batch_dims, indices.rank());
  if (n == 0) return Status();  // there may be very many batches without indices
  ContextParallel parallel(context);
  for (int64_t b = 0; b < batches; ++b) {
    int64_t bad = -1;
    if (outer * row > 0) {
      bad = GatherElementRows(
          params.dtype(), ElementAt(params.raw_data(), params.dtype(), b * outer * limit * row), outer, limit,
          row, indices, b * n, n, ElementAt(out->raw_data(), params.dtype(), b * outer * n * row), parallel);
    } else {  // there are no elements to copy, but the indices are checked nevertheless
      for (int64_t i = 0; i < n && bad < 0; ++i) {
        const int64_t index = IntValue(indices, b * n + i);
        if (index < 0 || index >= limit) bad = i;
      }
    }
    if (bad >= 0) {
      return errors::InvalidArgument("indices", IndexText(indices.shape(), b * n + bad), " = ",
                                     IntValue(indices, b * n + bad), " is not in [0, ", limit, ")");
    }
  }
  return Status();
}

namespace {

class GatherKernel final : public OpKernel {
 public:
  explicit GatherKernel(KernelConstruction& c)
      : OpKernel(c), batch_dims_(c.HasAttr("batch_dims") ? c.Attr<int64_t>("batch_dims") : 0) {}
  Status Compute(KernelContext& context) override {
    const Tensor& params = context.input(0);
    const Tensor& indices = context.input(1);
    if (params.rank() < 1) return errors::InvalidArgument("params must be at least 1 dimensional");
    int64_t axis = 0;
    if (context.num_inputs() > 2) {
      if (!context.input(2).shape().IsScalar()) return errors::InvalidArgument("axis must be scalar");
      axis = IntValue(context.input(2));
    }
    if (axis < -params.rank() || axis >= params.rank()) {
      return errors::InvalidArgument("Expected axis in the range [", -params.rank(), ", ", params.rank(),
                                     "), but got ", axis);
    }
    if (axis < 0) axis += params.rank();
    if (batch_dims_ < -indices.rank() || batch_dims_ > indices.rank()) {
      return errors::InvalidArgument("Expected batch_dims in the range [", -indices.rank(), ", ",
                                     indices.rank(), "], but got ", batch_dims_);
    }
    const int64_t batch_dims = batch_dims_ < 0 ? batch_dims_ + indices.rank() : batch_dims_;
    if (batch_dims > axis) {
      return errors::InvalidArgument("batch_dims (", batch_dims, ") must be less than or equal to axis (",
                                     axis, ").");
    }
    return GatherInto(context, params, indices, static_cast<int>(axis), static_cast<int>(batch_dims));
  }

 private:
  const int64_t batch_dims_;
};

Status OutOfRange(const Tensor& params, const Tensor& indices, int64_t i, int64_t depth) {
  Dims values;
  for (int64_t d = 0; d < depth; ++d) values.push_back(IntValue(indices, i * depth + d));
  TensorShape outer = indices.shape();
  outer.RemoveDim(outer.rank() - 1);
  return errors::InvalidArgument("indices", IndexText(outer, i), " = [", JoinInts(values, ", "),
                                 "] does not index into param shape ", params.shape());
}

}  // namespace

Status GatherNdInto(KernelContext& context, const Tensor& params, const Tensor& indices) {
  if (params.rank() < 1) return errors::InvalidArgument("params must be at least a vector");
  if (indices.rank() < 1) return errors::InvalidArgument("indices must be at least a vector");
  const int64_t depth = indices.dim(indices.rank() - 1);
  if (depth > params.rank()) {
    return errors::InvalidArgument("index innermost dimension length must be <= params rank; saw: ", depth,
                                   " vs. ", params.rank());
  }
  Dims dims;
  for (int i = 0; i + 1 < indices.rank(); ++i) dims.push_back(indices.dim(i));
  for (auto i = static_cast<int>(depth); i < params.rank(); ++i) dims.push_back(params.dim(i));
  if (dims.size() > TensorShape::kMaxRank)
    return errors::InvalidArgument("Too many dimensions: ", dims.size());
  MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromValues(dims));
  const int64_t count = ProductOf(indices.shape().dims(), 0, indices.rank() - 1);
  if (params.num_elements() == 0 && count > 0) {
    return errors::InvalidArgument("Requested more than 0 entries, but params is empty.  Params shape: ",
                                   params.shape());
  }
  MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
  if (depth == 0 && shape.num_elements() == 0) return Status();  // there may be very many empty rows
  const int64_t row = ProductOf(params.shape().dims(), static_cast<int>(depth), params.rank());
  const Dims strides = RowMajorStrides(params.shape().dims());
  if (depth == 0 && row == 0) return Status();  // there may be very many empty indices of empty rows
  cpu::SerialParallel serial;
  for (int64_t i = 0; i < count; ++i) {
    int64_t offset = 0;
    for (int64_t d = 0; d < depth; ++d) {
      const int64_t index = IntValue(indices, i * depth + d);
      if (index < 0 || index >= params.dim(static_cast<int>(d))) return OutOfRange(params, indices, i, depth);
      offset += index * strides[d];
    }
    MoveElements(params.dtype(), ElementAt(params.raw_data(), params.dtype(), offset),
                 ElementAt(out->raw_data(), params.dtype(), i * row), row, serial);
  }
  return Status();
}

namespace {

class GatherNdKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    return GatherNdInto(context, context.input(0), context.input(1));
  }
};

}  // namespace

void RegisterGatherKernels(KernelRegistry& registry) {
  registry.Register<GatherKernel>(KernelDef("Gather").Types("Tindices", IndexTypes()));
  registry.Register<GatherKernel>(KernelDef("GatherV2").Types("Tindices", IndexTypes()));
  registry.Register<GatherNdKernel>(KernelDef("GatherNd").Types("Tindices", IndexTypes()));
}

}  // namespace millrace
