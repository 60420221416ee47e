// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Eigenvalues and eigenvectors of self-adjoint matrices.
#define EIGEN_NO_DEBUG  // cases that its assertions check result in a Status or in NaN here
#include <Eigen/Eigenvalues>

#include "kernels/cpu/linalg/eigen_matrices.h"

namespace millrace {
namespace {

// The first version outputs one tensor with the values above the vectors.
class SelfAdjointEigKernel final : public OpKernel {
 public:
  explicit SelfAdjointEigKernel(KernelConstruction& c)
      : OpKernel(c), one_output_(num_outputs() == 1), vectors_(one_output_ || c.Attr<bool>("compute_v")) {}
  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(CheckBatches(context, 1));
    const Tensor& in = context.input(0);
    const int64_t n = RowsOf(in);
    if (ColumnsOf(in) != n) return errors::InvalidArgument("Input matrix must be square.");
    Tensor *values = nullptr, *vectors = nullptr;
    if (one_output_) {
      MR_ASSIGN_OR_RETURN(values, AllocateMatrices(context, 0, n + 1, n));
    } else {
      MR_ASSIGN_OR_RETURN(values, AllocateMatrices(context, 0, n));
      MR_ASSIGN_OR_RETURN(vectors,
                          vectors_ ? AllocateMatrices(context, 1, n, n) : AllocateMatrices(context, 1, 0));
    }
    if (values->num_elements() == 0) return Status();
    return VisitScalar(in.dtype(), [&]<typename S>() {
      return ForBatch(
          context, in.num_elements() / (n * n), (IsSmallReal(in) ? 1 : 10) * Cube(n),
          [&](int64_t i) -> Status {
            if (IsSmallReal(in) && Small(in, i, values, vectors)) return Status();
            const Eigen::SelfAdjointEigenSolver<ColumnMatrix<S>> solver(
                Load<S>(in, i), vectors_ ? Eigen::ComputeEigenvectors : Eigen::EigenvaluesOnly);
            if (solver.info() != Eigen::Success) {
              return errors::InvalidArgument(
                  "Self-adjoint eigen decomposition was not successful. The input might not be valid.");
            }
            const Eigen::VectorXd& found = solver.eigenvalues();
            StoreAs(found.data(), one_output_ ? i * (n + 1) * n : i * n, n, values);
            if (!vectors_) return Status();
            const Matrix<S> v = solver.eigenvectors();
            StoreAs(v.data(), one_output_ ? (i * (n + 1) + 1) * n : i * n * n, n * n,
                    one_output_ ? values : vectors);
            return Status();
          });
    });
  }

 private:
  bool Small(const Tensor& in, int64_t i, Tensor* values, Tensor* vectors) const {
    const int64_t n = RowsOf(in);
    return VisitReal(in, [&]<typename T>() {
      T* const to = values->data<T>() + (one_output_ ? i * (n + 1) * n : i * n);
      T* const vectors_to = one_output_ ? to + n : vectors_ ? vectors->data<T>() + i * n * n : nullptr;
      return cpu::SmallMatrices<T>().self_adjoint_eig(in.data<T>() + i * n * n, n, to, vectors_to);
    });
  }

  const bool one_output_, vectors_;
};

}  // namespace

void RegisterSelfAdjointKernels(KernelRegistry& registry) {
  registry.Register<SelfAdjointEigKernel>(KernelDef("SelfAdjointEig").Types("T", RealMatrixTypes()));
  registry.Register<SelfAdjointEigKernel>(KernelDef("BatchSelfAdjointEig").Types("T", RealMatrixTypes()));
  registry.Register<SelfAdjointEigKernel>(KernelDef("SelfAdjointEigV2").Types("T", MatrixTypes()));
  registry.Register<SelfAdjointEigKernel>(KernelDef("BatchSelfAdjointEigV2").Types("T", RealMatrixTypes()));
}

}  // namespace millrace
