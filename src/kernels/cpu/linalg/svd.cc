// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Singular values and vectors.
#define EIGEN_NO_DEBUG  // cases that its assertions check result in a Status or in NaN here
#include <limits>

#include "kernels/cpu/linalg/eigen_matrices.h"
#include "kernels/cpu/linalg/svd.h"

namespace millrace {
namespace {

class SvdKernel final : public OpKernel {
 public:
  explicit SvdKernel(KernelConstruction& c)
      : OpKernel(c), vectors_(c.Attr<bool>("compute_uv")), full_(c.Attr<bool>("full_matrices")) {}
  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(CheckBatches(context, 1));
    const Tensor& in = context.input(0);
    const int64_t m = RowsOf(in), n = ColumnsOf(in), p = std::min(m, n);
    MR_ASSIGN_OR_RETURN(Tensor * s, AllocateMatrices(context, 0, p));
    MR_ASSIGN_OR_RETURN(Tensor * u, Vectors(context, 1, m, full_ ? m : p));
    MR_ASSIGN_OR_RETURN(Tensor * v, Vectors(context, 2, n, full_ ? n : p));
    const int64_t batch = BatchShapeOf(in).num_elements();
    if (s->num_elements() == 0 && u->num_elements() == 0 && v->num_elements() == 0) return Status();
    return VisitScalar(in.dtype(), [&]<typename S>() {
      return ForBatch(context, batch, (IsSmallReal(in) ? 2 : 20) * Cost(m, n) + 100, [&](int64_t i) {
        if (IsSmallReal(in) && Small(in, i, s, u, v)) return Status();
        Decompose<S>(in, i, s, u, v);
        return Status();
      });
    });
  }

 private:
  StatusOr<Tensor*> Vectors(KernelContext& context, int output, int64_t rows, int64_t columns) const {
    return vectors_ ? AllocateMatrices(context, output, rows, columns) : AllocateMatrices(context, output, 0);
  }

  // False if the general code has to decompose the matrix.
  bool Small(const Tensor& in, int64_t i, Tensor* s, Tensor* u, Tensor* v) const {
    const int64_t m = RowsOf(in), n = ColumnsOf(in), p = std::min(m, n);
    if (vectors_ && full_ && m != n) return false;
    return VisitReal(in, [&]<typename T>() {
      return cpu::SmallMatrices<T>().svd(in.data<T>() + i * m * n, m, n, s->data<T>() + i * p,
                                         vectors_ ? u->data<T>() + i * m * p : nullptr,
                                         vectors_ ? v->data<T>() + i * n * p : nullptr);
    });
  }

  template <typename S>
  void Decompose(const Tensor& in, int64_t i, Tensor* s, Tensor* u, Tensor* v) const {
    const int64_t m = RowsOf(in), n = ColumnsOf(in), p = std::min(m, n);
    const int64_t u_columns = full_ ? m : p, v_columns = full_ ? n : p;
    if (p == 0) {
      if (!vectors_) return;
      Store(Matrix<S>(Matrix<S>::Identity(m, u_columns)), i, u);
      Store(Matrix<S>(Matrix<S>::Identity(n, v_columns)), i, v);
      return;
    }
    const ColumnMatrix<S> matrix = Load<S>(in, i);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    if (!matrix.allFinite()) {
      const Eigen::VectorXd values = Eigen::VectorXd::Constant(p, nan);
      StoreAs(values.data(), i * p, p, s);
      if (!vectors_) return;
      Store(Matrix<S>(Matrix<S>::Constant(m, u_columns, S(nan))), i, u);
      Store(Matrix<S>(Matrix<S>::Constant(n, v_columns, S(nan))), i, v);
      return;
    }
    const auto wanted = !vectors_ ? SvdVectors::kNone : full_ ? SvdVectors::kFull : SvdVectors::kThin;
    const SvdResult<S> svd = DecomposeSingular(matrix, wanted);
    StoreAs(svd.values.data(), i * p, p, s);
    if (!vectors_) return;
    Store(Matrix<S>(svd.u), i, u);
    Store(Matrix<S>(svd.v), i, v);
  }

  const bool vectors_, full_;
};

}  // namespace

void RegisterSvdKernels(KernelRegistry& registry) {
  registry.Register<SvdKernel>(KernelDef("Svd").Types("T", MatrixTypes()));
  registry.Register<SvdKernel>(KernelDef("BatchSvd").Types("T", MatrixTypes()));
}

}  // namespace millrace
