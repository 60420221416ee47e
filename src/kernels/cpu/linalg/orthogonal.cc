// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Orthogonal factors: QR, eigenvectors, singular vectors, least squares.
#define EIGEN_NO_DEBUG  // what its assertions are about ends in a Status or in NaN here
#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <Eigen/SVD>
#include <limits>

#include "kernels/cpu/linalg/matrices.h"

namespace millrace {
namespace {

template <typename S>
using Matrix = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <typename S>
using ColumnMatrix = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic>;

template <typename S>
Matrix<S> Load(const Tensor& t, int64_t i) {
  Matrix<S> m(RowsOf(t), ColumnsOf(t));
  LoadAs(t, i * m.size(), m.size(), m.data());
  return m;
}
template <typename S>
void Store(const Matrix<S>& m, int64_t i, Tensor* t) {
  StoreAs(m.data(), i * m.size(), m.size(), t);
}

double Cost(int64_t m, int64_t n) {
  return static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(std::min(m, n));
}

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
  const bool full_;
};

// The first version has the values above the vectors, in one output.
class SelfAdjointEigKernel final : public OpKernel {
 public:
  explicit SelfAdjointEigKernel(KernelConstruction& c)
      : OpKernel(c), one_output_(num_outputs() == 1), vectors_(one_output_ || c.Attr<bool>("compute_v")) {}
  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(CheckBatches(context, 1));
    const Tensor& in = context.input(0);
    const int64_t n = RowsOf(in);
    if (ColumnsOf(in) != n)
      return errors::InvalidArgument("Input matrix must be square, got shape ", in.shape());
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
      return ForBatch(context, in.num_elements() / (n * n), 10 * Cube(n), [&](int64_t i) -> Status {
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
  const bool one_output_, vectors_;
};

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
      return ForBatch(context, batch, 20 * Cost(m, n) + 100, [&](int64_t i) {
        Decompose<S>(in, i, s, u, v);
        return Status();
      });
    });
  }

 private:
  StatusOr<Tensor*> Vectors(KernelContext& context, int output, int64_t rows, int64_t columns) const {
    return vectors_ ? AllocateMatrices(context, output, rows, columns) : AllocateMatrices(context, output, 0);
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
    const unsigned options = !vectors_ ? 0U
                             : full_   ? Eigen::ComputeFullU | Eigen::ComputeFullV
                                       : Eigen::ComputeThinU | Eigen::ComputeThinV;
    const Eigen::BDCSVD<ColumnMatrix<S>> svd(matrix, options);
    const Eigen::VectorXd values = svd.singularValues();
    StoreAs(values.data(), i * p, p, s);
    if (!vectors_) return;
    Store(Matrix<S>(svd.matrixU()), i, u);
    Store(Matrix<S>(svd.matrixV()), i, v);
  }

  const bool vectors_, full_;
};

// min |A X - B|^2 + l2 |X|^2.
class SolveLsKernel final : public OpKernel {
 public:
  explicit SolveLsKernel(KernelConstruction& c) : OpKernel(c), fast_(c.Attr<bool>("fast")) {}
  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(CheckBatches(context, 2));
    const Tensor &matrix = context.input(0), &rhs = context.input(1), &l2 = context.input(2);
    const int64_t m = RowsOf(matrix), n = ColumnsOf(matrix), k = ColumnsOf(rhs);
    if (RowsOf(rhs) != m) {
      return errors::InvalidArgument("Input matrix and rhs are incompatible: ", matrix.shape(), " and ",
                                     rhs.shape());
    }
    MR_RETURN_IF_ERROR(RequireScalar(l2, "l2_regularizer"));
    const double weight = l2.scalar<double>();
    if (!(weight >= 0)) return errors::InvalidArgument("l2_regularizer must be >= 0.");
    MR_ASSIGN_OR_RETURN(Tensor * out, AllocateMatrices(context, 0, n, k));
    if (out->num_elements() == 0) return Status();
    const int64_t batch = out->num_elements() / (n * k);
    return VisitScalar(matrix.dtype(), [&]<typename S>() {
      return ForBatch(context, batch, Cost(std::max<int64_t>(m, 1), n) * 2, [&](int64_t i) -> Status {
        Matrix<S> x = Matrix<S>::Zero(n, k);
        if (m > 0) {
          const ColumnMatrix<S> a = Load<S>(matrix, i), b = Load<S>(rhs, i);
          if (!fast_) {
            x = a.completeOrthogonalDecomposition().solve(b);
          } else if (!SolveNormal(a, b, weight, &x)) {
            return errors::InvalidArgument(
                "Input matrix was rank deficient or ill-conditioned. Try setting fast=False or provide a "
                "larger l2_regularizer > 0.");
          }
        }
        Store(x, i, out);
        return Status();
      });
    });
  }

 private:
  // By the normal equations, of the first kind or, where there are fewer equations than unknowns, the second.
  template <typename S>
  static bool SolveNormal(const ColumnMatrix<S>& a, const ColumnMatrix<S>& b, double weight, Matrix<S>* x) {
    const bool tall = a.rows() >= a.cols();
    ColumnMatrix<S> gram = tall ? ColumnMatrix<S>(a.adjoint() * a) : ColumnMatrix<S>(a * a.adjoint());
    gram.diagonal().array() += S(weight);
    const Eigen::LLT<ColumnMatrix<S>> llt(gram);
    if (llt.info() != Eigen::Success) return false;
    if (tall) {
      *x = llt.solve(a.adjoint() * b);
    } else {
      *x = a.adjoint() * llt.solve(b);
    }
    return true;
  }

  const bool fast_;
};

}  // namespace

void RegisterOrthogonalKernels(KernelRegistry& registry) {
  registry.Register<QrKernel>(KernelDef("Qr").Types("T", MatrixTypes()));
  registry.Register<SelfAdjointEigKernel>(KernelDef("SelfAdjointEig").Types("T", RealMatrixTypes()));
  registry.Register<SelfAdjointEigKernel>(KernelDef("BatchSelfAdjointEig").Types("T", RealMatrixTypes()));
  registry.Register<SelfAdjointEigKernel>(KernelDef("SelfAdjointEigV2").Types("T", MatrixTypes()));
  registry.Register<SelfAdjointEigKernel>(KernelDef("BatchSelfAdjointEigV2").Types("T", RealMatrixTypes()));
  registry.Register<SvdKernel>(KernelDef("Svd").Types("T", MatrixTypes()));
  registry.Register<SvdKernel>(KernelDef("BatchSvd").Types("T", MatrixTypes()));
  registry.Register<SolveLsKernel>(KernelDef("MatrixSolveLs").Types("T", MatrixTypes()));
  registry.Register<SolveLsKernel>(KernelDef("BatchMatrixSolveLs").Types("T", RealMatrixTypes()));
}

}  // namespace millrace
