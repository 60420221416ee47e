// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// QR decomposition.
#define EIGEN_NO_DEBUG  // cases that its assertions check result in a Status or in NaN here
#include <Eigen/QR>

#include "kernels/cpu/linalg/dense.h"
#include "kernels/cpu/linalg/eigen_matrices.h"

namespace millrace {
namespace {

class QrKernel final : public OpKernel {
 public:
  explicit QrKernel(KernelConstruction& c) : OpKernel(c), full_(c.Attr<bool>("full_matrices")) {}
  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(CheckBatches(context, 1));
    const Tensor& in = context.input(0);
    const int64_t m = RowsOf(in), n = ColumnsOf(in), p = full_ ? m : std::min(m, n);
    MR_ASSIGN_OR_RETURN(Tensor * q, AllocateMatrices(context, 0, m, p));
    MR_ASSIGN_OR_RETURN(Tensor * r, AllocateMatrices(context, 1, p, n));
    if (q->num_elements() == 0) return Status();
    const int64_t batch = q->num_elements() / (m * p);
    if (IsSmallReal(in)) {
      return VisitReal(in, [&]<typename T>() {
        return ForBatch(context, batch, Cost(m, n) / 5, [&](int64_t i) {
          if (!cpu::SmallMatrices<T>().qr(in.data<T>() + i * m * n, m, n, p, q->data<T>() + i * m * p,
                                          r->data<T>() + i * p * n)) {
            StoreDense(in, i, p, q, r);
          }
          return Status();
        });
      });
    }
    if (n > 0 && dense::IsSmall(in) && !IsComplexType(in.dtype())) {
      return ForBatch(context, batch, Cost(m, n), [&](int64_t i) {
        StoreDense(in, i, p, q, r);
        return Status();
      });
    }
    return VisitScalar(in.dtype(), [&]<typename S>() {
      return ForBatch(context, batch, 2 * Cost(m, std::max<int64_t>(n, 1)), [&](int64_t i) {
        if (n == 0) {
          Store(Matrix<S>(Matrix<S>::Identity(m, p)), i, q);
          return Status();
        }
        const Eigen::HouseholderQR<ColumnMatrix<S>> qr(Load<S>(in, i));
        ColumnMatrix<S> columns = ColumnMatrix<S>::Identity(m, p);
        columns.applyOnTheLeft(qr.householderQ());
        Store(Matrix<S>(columns), i, q);
        const ColumnMatrix<S> top = qr.matrixQR().topRows(p);
        Store(Matrix<S>(top.template triangularView<Eigen::Upper>()), i, r);
        return Status();
      });
    });
  }

 private:
  static void StoreDense(const Tensor& in, int64_t i, int64_t p, Tensor* q, Tensor* r) {
    const dense::Qr qr = dense::FactorQr(dense::Rows(in, i), p);
    qr.q.StoreTo(i, q);
    qr.r.StoreTo(i, r, p);
  }

  const bool full_;
};

}  // namespace

void RegisterQrKernels(KernelRegistry& registry) {
  registry.Register<QrKernel>(KernelDef("Qr").Types("T", MatrixTypes()));
}

}  // namespace millrace
