// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Triangular factors, determinants, inverses and systems of equations.
#define EIGEN_NO_DEBUG  // cases that its assertions check result in a Status or in NaN here
#include <Eigen/Cholesky>
#include <Eigen/LU>
#include <bit>
#include <cstring>

#include "kernels/cpu/linalg/dense.h"
#include "kernels/cpu/linalg/eigen_products.h"
#include "kernels/cpu/linalg/matrices.h"
#include "kernels/cpu/loop.h"

namespace millrace {
namespace {

template <typename S>
using Matrix = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

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

Status RequireSquare(const Tensor& t, const char* message) {
  if (RowsOf(t) == ColumnsOf(t)) return Status();
  return errors::InvalidArgument(message, ".");
}

// Whether a factor has a zero or NaN on its diagonal.
template <typename M>
bool IsSingular(const M& factor) {
  for (Eigen::Index i = 0; i < factor.rows(); ++i) {
    if (!(std::abs(factor(i, i)) > 0)) return true;
  }
  return false;
}

// Whether dense.h has functions for the matrices of t, those of small.h being faster.
bool IsDenseReal(const Tensor& t) { return dense::IsSmall(t) && !IsComplexType(t.dtype()); }

// Whether the functions of small.h may multiply by the inverses of the pivots of n x n numbers: a pivot is at
// most 2^63 times the largest, and its inverse must not be flushed to zero. False with NaN.
template <typename T>
bool HasInverses(const T* a, int64_t n) {
  using Int = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  using Lanes [[gnu::vector_size(64)]] = Int;
  constexpr int64_t kLanes = sizeof(Lanes) / sizeof(Int);
  // Magnitudes are compared as integers: NaN lies above all numbers.
  constexpr Int kMagnitude = ~Int{0} >> 1,
                kMost = std::bit_cast<Int>(sizeof(T) == 4 ? T(0x1p60) : T(0x1p950));
  Int outside = 0;
  RunLoop([&outside, a, size = n * n]() MR_INLINE_LAMBDA {
    Lanes found = {};
    int64_t i = 0;
    for (; i + kLanes <= size; i += kLanes) {
      Lanes bits;
      std::memcpy(&bits, a + i, sizeof(bits));
      found |= reinterpret_cast<Lanes>((bits & kMagnitude) > kMost);
    }
    Int any = 0;
    for (; i < size; ++i) any |= Int{(std::bit_cast<Int>(a[i]) & kMagnitude) > kMost};
    for (int l = 0; l < kLanes; ++l) any |= found[l];
    outside = any;
  });
  return outside == 0;
}

Status NotInvertible(const char* what) { return errors::InvalidArgument(what, " is not invertible."); }

class CholeskyKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(CheckBatches(context, 1));
    const Tensor& in = context.input(0);
    MR_RETURN_IF_ERROR(RequireSquare(in, "Input matrix must be square"));
    const int64_t n = RowsOf(in);
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, in.shape()));
    if (out->num_elements() == 0) return Status();
    if (IsSmallReal(in)) {
      return VisitReal(in, [&]<typename T>() {
        return ForBatch(context, in.num_elements() / (n * n), Cube(n) / 30, [&](int64_t i) -> Status {
          const int64_t at = i * n * n;
          if (!HasInverses(in.data<T>() + at, n)) return Dense(in, i, out);
          if (!cpu::SmallMatrices<T>().cholesky(in.data<T>() + at, n, out->data<T>() + at))
            return NotPositive();
          return Status();
        });
      });
    }
    if (IsDenseReal(in)) {
      return ForBatch(context, in.num_elements() / (n * n), Cube(n) / 10,
                      [&](int64_t i) { return Dense(in, i, out); });
    }
    return VisitScalar(in.dtype(), [&]<typename S>() {
      return ForBatch(context, in.num_elements() / (n * n), Cube(n) / 3, [&](int64_t i) -> Status {
        const Eigen::LLT<Matrix<S>> llt(Load<S>(in, i));
        if (llt.info() != Eigen::Success) return NotPositive();
        const Matrix<S> lower = llt.matrixL();
        Store(lower, i, out);
        return Status();
      });
    });
  }

 private:
  static Status Dense(const Tensor& in, int64_t i, Tensor* out) {
    dense::Rows m = dense::Rows(in, i).Transposed();  // the lower half is used
    if (!dense::FactorCholesky(&m)) return NotPositive();
    m.Transposed().StoreTo(i, out);
    return Status();
  }
  static Status NotPositive() {
    return errors::InvalidArgument(
        "Cholesky decomposition was not successful. The input might not be valid.");
  }
};

// Inputs: the factor and its gradient. Output: the symmetric gradient of the factorized matrix.
class CholeskyGradKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(CheckBatches(context, 2));
    const Tensor &factor = context.input(0), &grad = context.input(1);
    MR_RETURN_IF_ERROR(RequireSquare(factor, "Inputs must be square matrices"));
    if (grad.shape() != factor.shape())
      return errors::InvalidArgument("Inputs must have the same shape, got ", factor.shape(), " and ",
                                     grad.shape());
    const int64_t n = RowsOf(factor);
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, factor.shape()));
    if (out->num_elements() == 0) return Status();
    if (IsSmallReal(factor)) {
      return VisitReal(factor, [&]<typename T>() {
        return ForBatch(context, factor.num_elements() / (n * n), Cube(n) / 10, [&](int64_t i) {
          const int64_t at = i * n * n;
          if (HasInverses(factor.data<T>() + at, n)) {
            cpu::SmallMatrices<T>().cholesky_grad(factor.data<T>() + at, grad.data<T>() + at, n,
                                                  out->data<T>() + at);
          } else {
            Small(factor, grad, i, out);
          }
          return Status();
        });
      });
    }
    if (IsDenseReal(factor)) {
      return ForBatch(context, factor.num_elements() / (n * n), Cube(n), [&](int64_t i) {
        Small(factor, grad, i, out);
        return Status();
      });
    }
    return ForBatch(context, factor.num_elements() / (n * n), 2 * Cube(n), [&](int64_t i) {
      const Matrix<double> l = Load<double>(factor, i).triangularView<Eigen::Lower>();
      const Matrix<double> dl = Load<double>(grad, i).triangularView<Eigen::Lower>();
      const Matrix<double> product = l.transpose() * dl;
      Matrix<double> middle = product.triangularView<Eigen::Lower>();
      middle.diagonal() *= 0.5;
      // Multiplies by the inverses of L transposed and of L on both sides.
      const Matrix<double> left = l.transpose().triangularView<Eigen::Upper>().solve(middle);
      const Matrix<double> both =
          l.transpose().triangularView<Eigen::Upper>().solve(Matrix<double>(left.transpose())).transpose();
      Store(Matrix<double>(0.5 * (both + both.transpose())), i, out);
      return Status();
    });
  }

 private:
  static void Small(const Tensor& factor, const Tensor& grad, int64_t i, Tensor* out) {
    dense::Rows l(factor, i), dl(grad, i);
    const int64_t n = l.rows();
    for (int64_t r = 0; r < n; ++r) {
      std::fill(l[r] + r + 1, l[r] + n, 0.0);
      std::fill(dl[r] + r + 1, dl[r] + n, 0.0);
    }
    const dense::Rows upper = l.Transposed();
    dense::Rows left = dense::Product(upper, dl);
    for (int64_t r = 0; r < n; ++r) {
      left[r][r] *= 0.5;
      std::fill(left[r] + r + 1, left[r] + n, 0.0);
    }
    dense::SolveUpper(upper, &left);
    dense::Rows both = left.Transposed();
    dense::SolveUpper(upper, &both);
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t c = 0; c <= r; ++c) both[r][c] = both[c][r] = 0.5 * (both[r][c] + both[c][r]);
    }
    both.StoreTo(i, out);
  }
};

class DeterminantKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(CheckBatches(context, 1));
    const Tensor& in = context.input(0);
    MR_RETURN_IF_ERROR(RequireSquare(in, "Input matrix must be square"));
    const int64_t n = RowsOf(in);
    Tensor* out[2];
    for (int i = 0; i < num_outputs(); ++i) {
      MR_ASSIGN_OR_RETURN(out[i], context.AllocateOutput(i, BatchShapeOf(in)));
    }
    return VisitScalar(in.dtype(), [&]<typename S>() {
      const bool small = IsDenseReal(in);
      return ForBatch(context, out[0]->num_elements(), Cube(n), [&](int64_t i) {
        S sign(1);
        std::vector<S> pivots(static_cast<size_t>(n));
        if (n > 0) {
          if (IsSmallReal(in)) {
            bool odd = false;
            VisitReal(in, [&]<typename T>() {
              T found[cpu::kMostSmall];
              odd = cpu::SmallMatrices<T>().pivots(in.data<T>() + i * n * n, n, found);
              for (int64_t k = 0; k < n; ++k)
                pivots[static_cast<size_t>(k)] = S(static_cast<double>(found[k]));
            });
            sign = S(odd ? -1 : 1);
          } else if (small) {
            const dense::Lu lu = dense::FactorLu(dense::Rows(in, i));
            sign = S(lu.sign);
            for (int64_t k = 0; k < n; ++k) pivots[static_cast<size_t>(k)] = S(lu.factors[k][k]);
          } else {
            const Eigen::PartialPivLU<Matrix<S>> lu(Load<S>(in, i));
            sign = S(static_cast<double>(lu.permutationP().determinant()));
            for (int64_t k = 0; k < n; ++k) pivots[static_cast<size_t>(k)] = lu.matrixLU()(k, k);
          }
        }
        if (num_outputs() == 1) {
          for (const S pivot : pivots) sign *= pivot;
          StoreAs(&sign, i, 1, out[0]);
        } else {
          S log(0);
          LogOf(pivots, &sign, &log);
          StoreAs(&sign, i, 1, out[0]);
          StoreAs(&log, i, 1, out[1]);
        }
        return Status();
      });
    });
  }

 private:
  // `sign` is that of the permutation.
  template <typename S>
  static void LogOf(const std::vector<S>& pivots, S* sign, S* log) {
    if (pivots.empty()) return;
    double sum = 0, product = 1;
    for (const S pivot : pivots) {
      const double size = std::abs(pivot);
      *sign *= pivot / S(size);
      // A logarithm of many pivots, as long as their product keeps its precision.
      const double longer = product * size;
      if (longer > 1e-280 && longer < 1e280) {
        product = longer;
      } else {
        sum += std::log(product) + std::log(size);
        product = 1;
      }
    }
    sum += std::log(product);
    if (!std::isfinite(sum)) {
      *sign = S(0);
      if (sum > 0) sum = -sum;
    }
    *log = S(sum);
  }
};

class InverseKernel final : public OpKernel {
 public:
  explicit InverseKernel(KernelConstruction& c) : OpKernel(c), adjoint_(c.Attr<bool>("adjoint")) {}
  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(CheckBatches(context, 1));
    const Tensor& in = context.input(0);
    MR_RETURN_IF_ERROR(RequireSquare(in, "Input matrix must be square"));
    const int64_t n = RowsOf(in);
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, in.shape()));
    if (out->num_elements() == 0) return Status();
    if (IsSmallReal(in)) {
      return VisitReal(in, [&]<typename T>() {
        return ForBatch(context, in.num_elements() / (n * n), Cube(n) / 10, [&](int64_t i) -> Status {
          const int64_t at = i * n * n;
          if (!HasInverses(in.data<T>() + at, n)) return Dense(in, i, out);
          if (!cpu::SmallMatrices<T>().inverse(in.data<T>() + at, n, adjoint_, out->data<T>() + at))
            return NotInvertible("Input");
          return Status();
        });
      });
    }
    if (IsDenseReal(in)) {
      return ForBatch(context, in.num_elements() / (n * n), Cube(n),
                      [&](int64_t i) { return Dense(in, i, out); });
    }
    return VisitScalar(in.dtype(), [&]<typename S>() {
      return ForBatch(context, in.num_elements() / (n * n), 2 * Cube(n), [&](int64_t i) -> Status {
        const Eigen::PartialPivLU<Matrix<S>> lu(Load<S>(in, i));
        if (IsSingular(lu.matrixLU())) return NotInvertible("Input");
        Matrix<S> inverse = lu.inverse();
        if (adjoint_) inverse = inverse.adjoint().eval();
        Store(inverse, i, out);
        return Status();
      });
    });
  }

 private:
  Status Dense(const Tensor& in, int64_t i, Tensor* out) const {
    const dense::Lu lu = dense::FactorLu(dense::Rows(in, i));
    if (dense::IsSingular(lu.factors)) return NotInvertible("Input");
    const dense::Rows inverse = dense::Inverse(lu);
    (adjoint_ ? inverse.Transposed() : inverse).StoreTo(i, out);
    return Status();
  }

  const bool adjoint_;
};

// MatrixSolve and MatrixTriangularSolve.
template <bool kTriangular>
class SolveKernel final : public OpKernel {
 public:
  explicit SolveKernel(KernelConstruction& c)
      : OpKernel(c), adjoint_(c.Attr<bool>("adjoint")), lower_(kTriangular ? c.Attr<bool>("lower") : false) {}
  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(CheckBatches(context, 2));
    const Tensor &matrix = context.input(0), &rhs = context.input(1);
    MR_RETURN_IF_ERROR(RequireSquare(matrix, "First input (lhs) must be a square matrix"));
    const int64_t n = RowsOf(matrix), k = ColumnsOf(rhs);
    if (RowsOf(rhs) != n) {
      return errors::InvalidArgument("Input matrix and rhs are incompatible.");
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, rhs.shape()));
    if (out->num_elements() == 0) return Status();
    const double cost = static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(k);
    if (IsSmallReal(matrix)) {
      return VisitReal(matrix, [&]<typename T>() {
        return ForBatch(context, rhs.num_elements() / (n * k), (kTriangular ? cost : cost + Cube(n)) / 10,
                        [&](int64_t i) { return SolveSmall<T>(matrix, rhs, i, out); });
      });
    }
    if (IsDenseReal(matrix) && dense::IsSmall(k)) {
      return ForBatch(context, rhs.num_elements() / (n * k), kTriangular ? cost / 2 : cost + Cube(n) / 2,
                      [&](int64_t i) { return SolveDense(matrix, rhs, i, out); });
    }
    return VisitScalar(matrix.dtype(), [&]<typename S>() {
      return ForBatch(context, rhs.num_elements() / (n * k), kTriangular ? cost : cost + Cube(n),
                      [&](int64_t i) { return SolveGeneral<S>(matrix, rhs, i, out); });
    });
  }

 private:
  template <typename T>
  Status SolveSmall(const Tensor& matrix, const Tensor& rhs, int64_t i, Tensor* out) const {
    const int64_t n = RowsOf(matrix), k = ColumnsOf(rhs);
    const T *const a = matrix.data<T>() + i * n * n, *const b = rhs.data<T>() + i * n * k;
    T* const x = out->data<T>() + i * n * k;
    if (!HasInverses(a, n)) return SolveGeneral<double>(matrix, rhs, i, out);
    const cpu::SmallMatrixTable<T>& small = cpu::SmallMatrices<T>();
    const bool regular = kTriangular ? small.solve_triangular(a, n, lower_, adjoint_, b, k, x)
                                     : small.solve(a, n, adjoint_, b, k, x);
    return regular ? Status() : NotInvertible("Input matrix");
  }
  Status SolveDense(const Tensor& matrix, const Tensor& rhs, int64_t i, Tensor* out) const {
    dense::Rows m(matrix, i), b(rhs, i);
    if (adjoint_) m = m.Transposed();
    if (!kTriangular) {
      const dense::Lu lu = dense::FactorLu(std::move(m));
      if (dense::IsSingular(lu.factors)) return NotInvertible("Input matrix");
      dense::Solve(lu, b).StoreTo(i, out);
      return Status();
    }
    if (dense::IsSingular(m)) return NotInvertible("Input matrix");
    if (lower_ != adjoint_) {
      dense::SolveLower(m, /*unit=*/false, &b);
    } else {
      dense::SolveUpper(m, &b);
    }
    b.StoreTo(i, out);
    return Status();
  }
  template <typename S>
  Status SolveGeneral(const Tensor& matrix, const Tensor& rhs, int64_t i, Tensor* out) const {
    const Matrix<S> m = Load<S>(matrix, i);
    Matrix<S> b = Load<S>(rhs, i);
    if (!(kTriangular ? SolveTriangle(m, &b) : SolveSystem(m, &b))) return NotInvertible("Input matrix");
    Store(b, i, out);
    return Status();
  }
  template <typename S>
  bool SolveSystem(const Matrix<S>& m, Matrix<S>* b) const {
    const Eigen::PartialPivLU<Matrix<S>> lu(adjoint_ ? Matrix<S>(m.adjoint()) : m);
    if (IsSingular(lu.matrixLU())) return false;
    *b = lu.solve(*b).eval();
    return true;
  }
  template <typename S>
  bool SolveTriangle(const Matrix<S>& m, Matrix<S>* b) const {
    if (IsSingular(m)) return false;
    if (adjoint_) {
      const Matrix<S> adjoint = m.adjoint();
      return SolveSide(adjoint, !lower_, b);
    }
    return SolveSide(m, lower_, b);
  }
  template <typename S>
  static bool SolveSide(const Matrix<S>& m, bool lower, Matrix<S>* b) {
    if (lower) {
      m.template triangularView<Eigen::Lower>().solveInPlace(*b);
    } else {
      m.template triangularView<Eigen::Upper>().solveInPlace(*b);
    }
    return true;
  }

  const bool adjoint_, lower_;
};

// Outputs: both factors in one matrix, and for each of its rows the row of the input that it comes from.
class LuKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(CheckBatches(context, 1));
    const Tensor& in = context.input(0);
    MR_RETURN_IF_ERROR(RequireSquare(in, "Input matrix must be square"));
    const int64_t n = RowsOf(in);
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, in.shape()));
    MR_ASSIGN_OR_RETURN(Tensor * rows, AllocateMatrices(context, 1, n));
    if (out->num_elements() == 0) return Status();
    if (IsSmallReal(in)) {
      return VisitReal(in, [&]<typename T>() {
        return ForBatch(context, in.num_elements() / (n * n), Cube(n) / 20, [&](int64_t i) -> Status {
          const int64_t at = i * n * n;
          int32_t from[cpu::kMostSmall];
          if (!cpu::SmallMatrices<T>().lu(in.data<T>() + at, n, out->data<T>() + at, from))
            return NotInvertible("Input");
          for (int64_t r = 0; r < n; ++r) SetRow(i * n + r, from[r], rows);
          return Status();
        });
      });
    }
    if (IsDenseReal(in)) {
      return ForBatch(context, in.num_elements() / (n * n), Cube(n) / 2, [&](int64_t i) -> Status {
        const dense::Lu lu = dense::FactorLu(dense::Rows(in, i));
        if (dense::IsSingular(lu.factors)) return NotInvertible("Input");
        lu.factors.StoreTo(i, out);
        for (int64_t r = 0; r < n; ++r) SetRow(i * n + r, lu.from[static_cast<size_t>(r)], rows);
        return Status();
      });
    }
    return VisitScalar(in.dtype(), [&]<typename S>() {
      return ForBatch(context, in.num_elements() / (n * n), Cube(n), [&](int64_t i) -> Status {
        const Eigen::PartialPivLU<Matrix<S>> lu(Load<S>(in, i));
        if (IsSingular(lu.matrixLU())) return NotInvertible("Input");
        Store(Matrix<S>(lu.matrixLU()), i, out);
        const auto& to = lu.permutationP().indices();
        for (int64_t r = 0; r < n; ++r) SetRow(i * n + to(r), r, rows);
        return Status();
      });
    });
  }

 private:
  static void SetRow(int64_t at, int64_t row, Tensor* rows) {
    if (rows->dtype() == DataType::kInt32) {
      rows->data<int32_t>()[at] = static_cast<int32_t>(row);
    } else {
      rows->data<int64_t>()[at] = row;
    }
  }
};

}  // namespace

void RegisterSolveKernels(KernelRegistry& registry) {
  for (const std::string batch : {"", "Batch"}) {
    const TypeList types = batch.empty() ? MatrixTypes() : RealMatrixTypes();
    registry.Register<CholeskyKernel>(KernelDef(batch + "Cholesky").Types("T", types));
    registry.Register<CholeskyGradKernel>(KernelDef(batch + "CholeskyGrad").Types("T", RealMatrixTypes()));
    registry.Register<DeterminantKernel>(KernelDef(batch + "MatrixDeterminant").Types("T", MatrixTypes()));
    registry.Register<InverseKernel>(KernelDef(batch + "MatrixInverse").Types("T", types));
    registry.Register<SolveKernel<false>>(KernelDef(batch + "MatrixSolve").Types("T", types));
    registry.Register<SolveKernel<true>>(KernelDef(batch + "MatrixTriangularSolve").Types("T", types));
  }
  registry.Register<DeterminantKernel>(KernelDef("LogMatrixDeterminant").Types("T", MatrixTypes()));
  registry.Register<LuKernel>(KernelDef("Lu").Types("T", MatrixTypes()));
}

}  // namespace millrace
