// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/batch_rows.h"

#include <algorithm>

#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/move.h"
#include "tensor/buffer.h"

namespace millrace {
namespace {

StatusOr<TensorShape> BatchShape(int64_t count, const TensorShape& row) {
  TensorShape shape;
  MR_RETURN_IF_ERROR(shape.TryAddDim(count));
  for (const int64_t size : row.dims()) MR_RETURN_IF_ERROR(shape.TryAddDim(size));
  return shape;
}

bool Adjacent(const Tensor* rows, int64_t count, int64_t stride) {
  const auto bytes = static_cast<int64_t>(rows[0].num_bytes());
  const auto* first = static_cast<const char*>(rows[0].raw_data());
  if (rows[0].buffer() == nullptr) return false;
  for (int64_t i = 1; i < count; ++i) {
    const Tensor& row = rows[i * stride];
    if (!row.SharesBufferWith(rows[0]) || row.raw_data() != first + i * bytes) return false;
  }
  return true;
}

}  // namespace

StatusOr<Tensor> StackRows(KernelContext& context, DataType dtype, const Tensor* rows, int64_t count,
                           int64_t stride, const TensorShape& row) {
  MR_ASSIGN_OR_RETURN(const TensorShape shape, BatchShape(count, row));
  if (shape.num_elements() > 0 && Adjacent(rows, count, stride)) {
    // The data of the first row is in its buffer, and that of the following rows, too.
    return Tensor::FromBuffer(dtype, shape, ShareRef(rows[0].buffer()),
                              const_cast<void*>(rows[0].raw_data()));
  }
  MR_ASSIGN_OR_RETURN(Tensor out, context.AllocateTemp(dtype, shape));
  if (shape.num_elements() == 0) return out;
  const int64_t n = row.num_elements();
  ContextParallel parallel(context);
  for (int64_t i = 0; i < count; ++i) {
    MoveElements(dtype, rows[i * stride].raw_data(), ElementAt(out.raw_data(), dtype, i * n), n, parallel);
  }
  return out;
}

StatusOr<Tensor> StackPadded(KernelContext& context, DataType dtype, const Tensor* rows, int64_t count,
                             int64_t stride, const PartialShape& declared) {
  if (declared.IsFullyDefined()) {
    MR_ASSIGN_OR_RETURN(const TensorShape row, declared.ToTensorShape());
    return StackRows(context, dtype, rows, count, stride, row);
  }
  Dims sizes;
  bool equal = true;
  for (int d = 0; d < declared.rank(); ++d) {
    int64_t size = std::max<int64_t>(0, declared.dim(d));
    for (int64_t i = 0; i < count; ++i) size = std::max(size, rows[i * stride].dim(d));
    for (int64_t i = 0; i < count; ++i) equal = equal && rows[i * stride].dim(d) == size;
    sizes.push_back(size);
  }
  MR_ASSIGN_OR_RETURN(const TensorShape row, TensorShape::Make(sizes));
  if (equal) return StackRows(context, dtype, rows, count, stride, row);
  MR_ASSIGN_OR_RETURN(const TensorShape shape, BatchShape(count, row));
  MR_ASSIGN_OR_RETURN(Tensor out, context.AllocateTemp(dtype, shape));
  if (shape.num_elements() == 0) return out;
  ContextParallel parallel(context);
  ZeroElements(dtype, out.raw_data(), shape.num_elements(), parallel);
  const Dims to_strides = RowMajorStrides(sizes);
  for (int64_t i = 0; i < count; ++i) {
    const Tensor& from = rows[i * stride];
    if (from.num_elements() == 0) continue;
    MoveBox(dtype, from.raw_data(), RowMajorStrides(from.shape().dims()),
            ElementAt(out.raw_data(), dtype, i * row.num_elements()), to_strides, from.shape().dims(),
            parallel);
  }
  return out;
}

}  // namespace millrace
