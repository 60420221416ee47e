// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#define EIGEN_NO_DEBUG  // cases that its assertions check result in NaN here
#include <unsupported/Eigen/MatrixFunctions>

#include "kernels/cpu/linalg/matrix_function.h"

namespace millrace {
namespace {

struct Exponential {
  template <typename S>
  static bool Apply(const ColumnMatrix<S>& in, ColumnMatrix<S>* out) {
    *out = in.exp();
    return true;
  }
};

}  // namespace

void RegisterExponentialKernels(KernelRegistry& registry) {
  registry.Register<MatrixFunctionKernel<Exponential>>(
      KernelDef("MatrixExponential").Types("T", MatrixTypes()));
}

}  // namespace millrace
