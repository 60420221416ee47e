// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Logarithm and square root of matrices: small ones by sums and iterations where these reach an accurate
// end (small.h), others by the triangular factor of their complex Schur decomposition. Real
// matrices are converted to complex ones, too: the solver for quasi-triangular factors alone takes half a
// minute to compile.
#define EIGEN_NO_DEBUG  // cases that its assertions check result in NaN here
#include <Eigen/Eigenvalues>
#include <cmath>
#include <limits>
#include <unsupported/Eigen/MatrixFunctions>
#include <utility>

#include "kernels/cpu/contract/scratch.h"
#include "kernels/cpu/linalg/dense.h"
#include "kernels/cpu/linalg/matrix_function.h"

namespace millrace {
namespace {

// Gauss-Legendre nodes and weights on [0, 1]: the logarithm of 1 + x as the integral of x / (1 + t x) is
// exact to double precision with them for |x| < 1/4.
constexpr double kNodes[] = {0.019855071751231884, 0.10166676129318664, 0.2372337950418355,
                             0.40828267875217511,  0.59171732124782489, 0.7627662049581645,
                             0.89833323870681336,  0.98014492824876812};
constexpr double kWeights[] = {0.050614268145188130, 0.11119051722668724, 0.15685332293894364,
                               0.18134189168918099,  0.18134189168918099, 0.15685332293894364,
                               0.11119051722668724,  0.050614268145188130};

// The logarithm of an upper triangular matrix. False if a diagonal element is zero, or if roots do not
// converge to 1.
bool LogOfTriangle(const Eigen::MatrixXcd& triangle, Eigen::MatrixXcd* log) {
  constexpr int kMostRoots = 200;  // less than 20 to approach 1 in double, the rest for large norms
  const Eigen::Index n = triangle.rows();
  const Eigen::MatrixXcd one = Eigen::MatrixXcd::Identity(n, n);
  Eigen::MatrixXcd root = triangle;
  int roots = 0;
  for (; !((root - one).cwiseAbs().colwise().sum().maxCoeff() < 0.25); ++roots) {
    if (roots == kMostRoots || !root.allFinite()) return false;
    Eigen::MatrixXcd next = Eigen::MatrixXcd::Zero(n, n);
    Eigen::matrix_sqrt_triangular(root, next);
    root = next.template triangularView<Eigen::Upper>();
  }
  const Eigen::MatrixXcd x = root - one;
  log->setZero(n, n);
  for (size_t i = 0; i < std::size(kNodes); ++i) {
    const Eigen::MatrixXcd shifted = one + kNodes[i] * x;
    *log += kWeights[i] * shifted.triangularView<Eigen::Upper>().solve(x);
  }
  *log *= std::ldexp(1.0, roots);
  // The diagonal is exact.
  for (Eigen::Index i = 0; i < n; ++i) (*log)(i, i) = std::log(triangle(i, i));
  return log->allFinite();
}

struct Logarithm {
  static bool Apply(const Eigen::MatrixXcd& in, Eigen::MatrixXcd* out) {
    if (in.rows() > 1 && cpu::IsSmallMatrix(in.rows(), in.cols())) {
      const cpu::Scratch room = cpu::Scratch::Of<double>(cpu::SmallComplexRoom(in.rows()));
      out->resize(in.rows(), in.cols());
      if (room.ok() &&
          cpu::SmallComplexMatrices().logarithm(reinterpret_cast<const double*>(in.data()), in.rows(),
                                                reinterpret_cast<double*>(out->data()), room.data<double>()))
        return true;
    }
    const Eigen::ComplexSchur<Eigen::MatrixXcd> schur(in);
    if (schur.info() != Eigen::Success) return false;
    if ((schur.matrixT().diagonal().array() == std::complex<double>(0)).any()) return false;
    Eigen::MatrixXcd log;
    if (!LogOfTriangle(schur.matrixT().triangularView<Eigen::Upper>(), &log)) return false;
    *out = schur.matrixU() * log * schur.matrixU().adjoint();
    return true;
  }
  // There are no kernels for real numbers.
  static bool Apply(const Eigen::MatrixXd&, Eigen::MatrixXd*) { return false; }
};

// The root of a real matrix by the iteration of Denman and Beavers, scaled by determinants. False if it does
// not converge accurately in a few steps, for example with eigenvalues near the negative axis.
bool RootByIteration(const dense::Rows& a, dense::Rows* root) {
  constexpr int kMostSteps = 14;
  const int64_t n = a.rows();
  const auto norm = [n](const dense::Rows& m) {
    double sum = 0;
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t c = 0; c < n; ++c) sum += m[r][c] * m[r][c];
    }
    return std::sqrt(sum);
  };
  dense::Rows x = a, y(n, n);
  for (int64_t i = 0; i < n; ++i) y[i][i] = 1;
  double change = 1;
  for (int step = 0; change > 1e-8; ++step) {
    const dense::Lu of_x = dense::FactorLu(x), of_y = dense::FactorLu(y);
    if (step == kMostSteps || dense::IsSingular(of_x.factors) || dense::IsSingular(of_y.factors))
      return false;
    double log = 0;
    for (int64_t i = 0; i < n; ++i) log += std::log(std::abs(of_x.factors[i][i] * of_y.factors[i][i]));
    const double scale = change < 0.01 ? 1 : std::exp(-log / static_cast<double>(2 * n));
    if (!std::isfinite(scale) || scale == 0) return false;
    const dense::Rows inverse_x = dense::Inverse(of_x), inverse_y = dense::Inverse(of_y), last = x;
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t c = 0; c < n; ++c) {
        x[r][c] = 0.5 * (scale * x[r][c] + inverse_y[r][c] / scale);
        y[r][c] = 0.5 * (scale * y[r][c] + inverse_x[r][c] / scale);
      }
    }
    dense::Rows difference = x;
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t c = 0; c < n; ++c) difference[r][c] -= last[r][c];
    }
    change = norm(difference) / norm(x);
    if (!std::isfinite(change)) return false;
  }
  // Requires the accuracy of the root of a triangular factor.
  dense::Rows rest = dense::Product(x, x);
  for (int64_t r = 0; r < n; ++r) {
    for (int64_t c = 0; c < n; ++c) rest[r][c] -= a[r][c];
  }
  const double size = norm(x);
  if (!(norm(rest) <= 4 * static_cast<double>(n) * std::numeric_limits<double>::epsilon() * size * size))
    return false;
  *root = std::move(x);
  return true;
}

struct SquareRoot {
  static bool Apply(const Eigen::MatrixXcd& in, Eigen::MatrixXcd* out) {
    const Eigen::ComplexSchur<Eigen::MatrixXcd> schur(in);
    return schur.info() == Eigen::Success && Apply(schur, out);
  }
  static bool Apply(const Eigen::MatrixXd& in, Eigen::MatrixXd* out) {
    if (in.rows() >= kLeastForIteration && cpu::IsSmallMatrix(in.rows(), in.cols())) {
      // The root of the transposed matrix is the transposed root: the order of elements does not matter.
      out->resize(in.rows(), in.cols());
      if (cpu::SmallMatrices<double>().square_root(in.data(), in.rows(), out->data())) return true;
    } else if (in.rows() > cpu::kMostSmall && dense::IsSmall(in.rows())) {
      dense::Rows root(0, 0);
      if (RootByIteration(dense::Rows::FromColumns(in.data(), in.rows(), in.cols()), &root)) {
        out->resize(in.rows(), in.cols());
        root.ToColumns(out->data());
        return true;
      }
    }
    const Eigen::ComplexSchur<Eigen::MatrixXcd> schur(in.cast<std::complex<double>>());
    if (schur.info() != Eigen::Success) return false;
    // The principal root of an eigenvalue below zero is not real.
    const auto eigenvalues = schur.matrixT().diagonal().array();
    const double error = 16 * std::numeric_limits<double>::epsilon() * in.norm();
    if ((eigenvalues.real() < -error && eigenvalues.imag().abs() <= error).any()) return false;
    Eigen::MatrixXcd root;
    if (!Apply(schur, &root)) return false;
    *out = root.real();
    return true;
  }

 private:
  static constexpr Eigen::Index kLeastForIteration = 8;  // smaller ones are as fast with their factors

  static bool Apply(const Eigen::ComplexSchur<Eigen::MatrixXcd>& schur, Eigen::MatrixXcd* out) {
    const Eigen::MatrixXcd triangle = schur.matrixT().triangularView<Eigen::Upper>();
    Eigen::MatrixXcd root = Eigen::MatrixXcd::Zero(triangle.rows(), triangle.cols());
    Eigen::matrix_sqrt_triangular(triangle, root);
    *out = schur.matrixU() * root.triangularView<Eigen::Upper>() * schur.matrixU().adjoint();
    return true;
  }
};

}  // namespace

void RegisterMatrixFunctionKernels(KernelRegistry& registry) {
  registry.Register<MatrixFunctionKernel<Logarithm>>(KernelDef("MatrixLogarithm").Types("T", ComplexTypes()));
  registry.Register<MatrixFunctionKernel<SquareRoot>>(
      KernelDef("MatrixSquareRoot").Types("T", MatrixTypes()));
}

}  // namespace millrace
