// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/batching/join.h"

#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/move.h"

namespace millrace {

StatusOr<Tensor> JoinRows(KernelContext& context, std::span<const Tensor* const> parts, int64_t padding) {
  const TensorShape& first = parts[0]->shape();
  int64_t rows = padding;
  for (size_t i = 0; i < parts.size(); ++i) {
    const TensorShape& shape = parts[i]->shape();
    if (shape.rank() == 0 || shape.rank() != first.rank()) {
      return errors::InvalidArgument("Ranks of all input tensors should match: shape[0] = ", first,
                                     " vs. shape[", i, "] = ", shape);
    }
    for (int d = 1; d < first.rank(); ++d) {
      if (shape.dim(d) != first.dim(d)) {
        return errors::InvalidArgument("Dimensions of inputs should match: shape[0] = ", first, " vs. shape[",
                                       i, "] = ", shape);
      }
    }
    rows += shape.dim(0);
  }
  if (padding > 0 && first.dim(0) == 0) {
    return errors::InvalidArgument("Cannot use an empty tensor with zero rows as padding when batching.");
  }
  if (parts.size() == 1 && padding == 0) return *parts[0];
  Dims dims;
  for (const int64_t d : first.dims()) dims.push_back(d);
  dims[0] = rows;
  MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromValues(dims));
  const DataType type = parts[0]->dtype();
  MR_ASSIGN_OR_RETURN(Tensor out, context.AllocateHostTemp(type, shape));
  if (shape.num_elements() == 0) return out;
  ContextParallel parallel(context);
  int64_t done = 0;
  for (const Tensor* part : parts) {
    const int64_t n = part->num_elements();
    if (n > 0) MoveElements(type, part->raw_data(), ElementAt(out.raw_data(), type, done), n, parallel);
    done += n;
  }
  const int64_t row = shape.num_elements() / rows;
  for (int64_t i = 0; i < padding; ++i, done += row) {
    MoveElements(type, parts[0]->raw_data(), ElementAt(out.raw_data(), type, done), row, parallel);
  }
  return out;
}

}  // namespace millrace
