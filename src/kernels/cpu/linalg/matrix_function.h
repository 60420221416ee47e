// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The kernel of functions of square matrices.
#pragma once

#include <limits>

#include "kernels/cpu/linalg/eigen_matrices.h"

namespace millrace {

// Function::Apply(const ColumnMatrix<S>& in, ColumnMatrix<S>* out) returns false if there is no value of type
// S; the elements are NaN then.
template <typename Function>
class MatrixFunctionKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(CheckBatches(context, 1));
    const Tensor& in = context.input(0);
    const int64_t n = RowsOf(in);
    if (ColumnsOf(in) != n) return errors::InvalidArgument("Input matrix must be square.");
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, in.shape()));
    if (out->num_elements() == 0) return Status();
    return VisitScalar(in.dtype(), [&]<typename S>() { return Run<S>(context, in, out); });
  }

 private:
  template <typename S>
  static Status Run(const KernelContext& context, const Tensor& in, Tensor* out) {
    const int64_t n = RowsOf(in);
    return ForBatch(context, in.num_elements() / (n * n), 30 * Cube(n), [&](int64_t i) {
      Matrix<S> m(n, n);
      LoadAs(in, i * n * n, n * n, m.data());
      ColumnMatrix<S> result;
      if (m.allFinite() && Function::Apply(ColumnMatrix<S>(m), &result)) {
        m = result;
      } else {
        m.setConstant(S(std::numeric_limits<double>::quiet_NaN()));
      }
      StoreAs(m.data(), i * n * n, n * n, out);
      return Status();
    });
  }
};

}  // namespace millrace
