// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Least squares.
#define EIGEN_NO_DEBUG  // cases that its assertions check result in a Status or in NaN here
#include "kernels/cpu/linalg/least_squares.h"

#include "kernels/cpu/linalg/eigen_matrices.h"

namespace millrace {
namespace {

// Minimises |A X - B|^2 + l2 |X|^2.
class SolveLsKernel final : public OpKernel {
 public:
  explicit SolveLsKernel(KernelConstruction& c) : OpKernel(c), fast_(c.Attr<bool>("fast")) {}
  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(CheckBatches(context, 2));
    const Tensor &matrix = context.input(0), &rhs = context.input(1), &l2 = context.input(2);
    const int64_t m = RowsOf(matrix), n = ColumnsOf(matrix), k = ColumnsOf(rhs);
    if (RowsOf(rhs) != m) {
      return errors::InvalidArgument("Input matrix and rhs are incompatible.");
    }
    MR_RETURN_IF_ERROR(RequireScalar(l2, "l2_regularizer"));
    const double weight = l2.scalar<double>();
    if (!(weight >= 0)) return errors::InvalidArgument("l2_regularizer must be >= 0.");
    MR_ASSIGN_OR_RETURN(Tensor * out, AllocateMatrices(context, 0, n, k));
    if (out->num_elements() == 0) return Status();
    const int64_t batch = out->num_elements() / (n * k);
    return VisitScalar(matrix.dtype(), [&]<typename S>() {
      return ForBatch(context, batch, Cost(std::max<int64_t>(m, 1), n) * 2, [&](int64_t i) -> Status {
        if constexpr (!kIsComplex<S>) {
          // In double, as the squares of the normal equations lose half of the digits.
          if (fast_ && cpu::IsSmallMatrix(m, n)) {
            Matrix<S> small(n, k);
            const Matrix<S> a = Load<S>(matrix, i), b = Load<S>(rhs, i);
            if (!cpu::SmallMatrices<S>().least_squares(a.data(), m, n, weight, b.data(), k, small.data()))
              return IllConditioned();
            Store(small, i, out);
            return Status();
          }
        }
        ColumnMatrix<S> x = ColumnMatrix<S>::Zero(n, k);
        if (m > 0) {
          const ColumnMatrix<S> a = Load<S>(matrix, i), b = Load<S>(rhs, i);
          if (!SolveLeastSquares(a, b, weight, fast_, &x)) return IllConditioned();
        }
        Store(Matrix<S>(x), i, out);
        return Status();
      });
    });
  }

 private:
  static Status IllConditioned() {
    return errors::InvalidArgument(
        "Input matrix was rank deficient or ill-conditioned. Try setting fast=False or provide a "
        "larger l2_regularizer > 0.");
  }

  const bool fast_;
};

}  // namespace

void RegisterLeastSquaresKernels(KernelRegistry& registry) {
  registry.Register<SolveLsKernel>(KernelDef("MatrixSolveLs").Types("T", MatrixTypes()));
  registry.Register<SolveLsKernel>(KernelDef("BatchMatrixSolveLs").Types("T", RealMatrixTypes()));
}

}  // namespace millrace
