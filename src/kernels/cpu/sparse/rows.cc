// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// SparseFillEmptyRows: rows of a sparse tensor that are empty get a value.
#include <vector>

#include "kernels/cpu/move.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/sparse/util.h"

namespace millrace {
namespace {

class SparseFillEmptyRowsKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& values = context.input(1);
    const Tensor& fallback = context.input(3);
    MR_ASSIGN_OR_RETURN(const SparseParts sparse, ReadSparse(context.input(0), values, context.input(2)));
    if (!fallback.shape().IsScalar()) {
      return errors::InvalidArgument("default_value must be a scalar, saw: ", fallback.shape());
    }
    if (sparse.rank() == 0) return errors::InvalidArgument("Dense shape cannot be empty.");
    const int64_t rows = sparse.shape[0], n = sparse.size();
    if (rows == 0 && n != 0) {
      return errors::InvalidArgument("Received SparseTensor with dense_shape[0] = 0 but indices.shape[0] = ",
                                     n);
    }
    // The start of each row's values in the output, with one value for each empty row.
    MR_ASSIGN_OR_RETURN(Tensor begins, context.AllocateTemp(DataType::kInt64, TensorShape({rows})));
    int64_t* const begin = begins.data<int64_t>();
    std::fill_n(begin, rows, 0);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t row = sparse.index(i)[0];
      if (row < 0 || row >= rows) {
        return errors::InvalidArgument("indices(", i, ", 0) is invalid: ", row, " >= ", rows);
      }
      ++begin[row];
    }
    MR_ASSIGN_OR_RETURN(Tensor* const empty, context.AllocateOutput(2, TensorShape({rows})));
    int64_t total = 0;
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t count = begin[row];
      empty->data<bool>()[row] = count == 0;
      begin[row] = total;
      total += count == 0 ? 1 : count;
    }
    MR_ASSIGN_OR_RETURN(Tensor* const map, context.AllocateOutput(3, TensorShape({n})));
    MR_ASSIGN_OR_RETURN(Tensor* const out_indices,
                        context.AllocateOutput(0, TensorShape({total, sparse.rank()})));
    MR_ASSIGN_OR_RETURN(Tensor* const out_values, context.AllocateOutput(1, TensorShape({total})));
    const std::span<int64_t> places = map->flat<int64_t>();
    int64_t* const to = out_indices->data<int64_t>();
    for (int64_t row = 0; row < rows; ++row) {
      if (!empty->data<bool>()[row]) continue;
      std::fill_n(to + begin[row] * sparse.rank(), sparse.rank(), 0);
      to[begin[row] * sparse.rank()] = row;
      PutRows(values.dtype(), fallback.raw_data(), {&begin[row], 1}, 1, out_values->raw_data());
    }
    for (int64_t i = 0; i < n; ++i) places[i] = begin[sparse.index(i)[0]]++;
    PutRows(DataType::kInt64, context.input(0).raw_data(), places, sparse.rank(), to);
    PutRows(values.dtype(), values.raw_data(), places, 1, out_values->raw_data());
    return Status();
  }
};

class SparseFillEmptyRowsGradKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& map = context.input(0);
    const Tensor& grad = context.input(1);
    if (!map.shape().IsVector()) {
      return errors::InvalidArgument("reverse_index_map must be a vector, saw: ", map.shape());
    }
    if (!grad.shape().IsVector()) {
      return errors::InvalidArgument("grad_values must be a vector, saw: ", grad.shape());
    }
    const int64_t full = grad.dim(0);
    std::vector<bool> visited(static_cast<size_t>(full), false);
    for (const int64_t place : map.flat<int64_t>()) {
      if (place < 0 || place >= full) {
        return errors::InvalidArgument("Elements in reverse index must be in [0, ", full, ") but got ",
                                       place);
      }
      visited[static_cast<size_t>(place)] = true;
    }
    MR_ASSIGN_OR_RETURN(Tensor* const values, context.AllocateOutput(0, map.shape()));
    MR_ASSIGN_OR_RETURN(Tensor* const fallback, context.AllocateOutput(1, TensorShape()));
    TakeRows(grad.dtype(), grad.raw_data(), map.flat<int64_t>(), 1, values->raw_data());
    return VisitNumber(grad.dtype(), NoSuchType(context, grad.dtype()), [&]<typename T>() {
      T sum(0.0f);
      for (int64_t i = 0; i < full; ++i) {
        if (!visited[static_cast<size_t>(i)]) sum = Plus(sum, grad.data<T>()[i]);
      }
      fallback->scalar<T>() = sum;
      return Status();
    });
  }
};

}  // namespace

void RegisterSparseRowsKernels(KernelRegistry& registry) {
  registry.Register<SparseFillEmptyRowsKernel>(KernelDef("SparseFillEmptyRows"));
  registry.Register<SparseFillEmptyRowsGradKernel>(
      KernelDef("SparseFillEmptyRowsGrad").Types("T", NumberTypes()));
}

}  // namespace millrace
