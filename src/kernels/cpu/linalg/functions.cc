// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Exponential, logarithm and square root of matrices.
#define EIGEN_NO_DEBUG  // what its assertions are about ends in NaN here
#include <Eigen/Eigenvalues>
#include <limits>
#include <unsupported/Eigen/MatrixFunctions>

#include "kernels/cpu/linalg/matrices.h"

namespace millrace {
namespace {

template <typename S>
using Matrix = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic>;
using Complex = std::complex<double>;

// Nodes and weights of Gauss and Legendre on [0, 1]: with them, the logarithm of 1 + x as the integral of
// x / (1 + t x) is exact to double precision for |x| < 1/4.
constexpr double kNodes[] = {0.019855071751231884, 0.10166676129318664, 0.2372337950418355,
                             0.40828267875217511,  0.59171732124782489, 0.7627662049581645,
                             0.89833323870681336,  0.98014492824876812};
constexpr double kWeights[] = {0.050614268145188130, 0.11119051722668724, 0.15685332293894364,
                               0.18134189168918099,  0.18134189168918099, 0.15685332293894364,
                               0.11119051722668724,  0.050614268145188130};

// Of an upper triangular matrix. False where a diagonal element vanishes, or where roots do not get near 1.
bool LogOfTriangle(const Matrix<Complex>& triangle, Matrix<Complex>* log) {
  constexpr int kMostRoots = 200;  // a double needs less than 20 to come near 1 and the rest for large norms
  const Eigen::Index n = triangle.rows();
  const Matrix<Complex> one = Matrix<Complex>::Identity(n, n);
  Matrix<Complex> root = triangle;
  int roots = 0;
  for (; !((root - one).cwiseAbs().colwise().sum().maxCoeff() < 0.25); ++roots) {
    if (roots == kMostRoots || !root.allFinite()) return false;
    Matrix<Complex> next = Matrix<Complex>::Zero(n, n);
    Eigen::matrix_sqrt_triangular(root, next);
    root = next.template triangularView<Eigen::Upper>();
  }
  const Matrix<Complex> x = root - one;
  log->setZero(n, n);
  for (size_t i = 0; i < std::size(kNodes); ++i) {
    const Matrix<Complex> shifted = one + kNodes[i] * x;
    *log += kWeights[i] * shifted.triangularView<Eigen::Upper>().solve(x);
  }
  *log *= std::ldexp(1.0, roots);
  // Exact where the eigenvalues are.
  for (Eigen::Index i = 0; i < n; ++i) (*log)(i, i) = std::log(triangle(i, i));
  return log->allFinite();
}

enum class Function { kExponential, kLogarithm, kSquareRoot };

template <Function kFunction, typename S>
bool Apply(const Matrix<S>& in, Matrix<S>* out) {
  if (!in.allFinite()) return false;
  if constexpr (kFunction == Function::kExponential) {
    *out = in.exp();
  } else if constexpr (kFunction == Function::kSquareRoot) {
    *out = in.sqrt();
  } else {
    const Eigen::ComplexSchur<Matrix<S>> schur(in);
    if (schur.info() != Eigen::Success) return false;
    for (Eigen::Index i = 0; i < in.rows(); ++i) {
      if (schur.matrixT()(i, i) == S(0)) return false;
    }
    const Matrix<S> triangle = schur.matrixT().template triangularView<Eigen::Upper>();
    Matrix<S> log;
    if (!LogOfTriangle(triangle, &log)) return false;
    *out = schur.matrixU() * log * schur.matrixU().adjoint();
  }
  return true;
}

// What has no value in numbers is NaN.
template <Function kFunction>
class FunctionKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(CheckBatches(context, 1));
    const Tensor& in = context.input(0);
    const int64_t n = RowsOf(in);
    if (ColumnsOf(in) != n)
      return errors::InvalidArgument("Input matrix must be square, got shape ", in.shape());
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, in.shape()));
    if (out->num_elements() == 0) return Status();
    if constexpr (kFunction == Function::kLogarithm) {
      return Run<Complex>(context, in, out);
    } else {
      return VisitScalar(in.dtype(), [&]<typename S>() { return Run<S>(context, in, out); });
    }
  }

 private:
  template <typename S>
  static Status Run(const KernelContext& context, const Tensor& in, Tensor* out) {
    using Rows = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    const int64_t n = RowsOf(in);
    return ForBatch(context, in.num_elements() / (n * n), 30 * Cube(n), [&](int64_t i) {
      Rows m(n, n);
      LoadAs(in, i * n * n, n * n, m.data());
      Matrix<S> result;
      if (Apply<kFunction, S>(m, &result)) {
        m = result;
      } else {
        m.setConstant(S(std::numeric_limits<double>::quiet_NaN()));
      }
      StoreAs(m.data(), i * n * n, n * n, out);
      return Status();
    });
  }
};

}  // namespace

void RegisterMatrixFunctionKernels(KernelRegistry& registry) {
  registry.Register<FunctionKernel<Function::kExponential>>(
      KernelDef("MatrixExponential").Types("T", MatrixTypes()));
  registry.Register<FunctionKernel<Function::kLogarithm>>(
      KernelDef("MatrixLogarithm").Types("T", ComplexTypes()));
  registry.Register<FunctionKernel<Function::kSquareRoot>>(
      KernelDef("MatrixSquareRoot").Types("T", MatrixTypes()));
}

}  // namespace millrace
