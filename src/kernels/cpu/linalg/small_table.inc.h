// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The functions of small.h, compiled for the instruction set MR_ISA.
#pragma once

#include "kernels/cpu/linalg/small_complex.inc.h"
#include "kernels/cpu/linalg/small_ops.inc.h"
#include "kernels/cpu/linalg/small_spectra.inc.h"

namespace millrace::cpu::MR_ISA {

template <typename T>
inline constexpr SmallMatrixTable<T> kSmallTable = {
    .lu = LuOf<T>,
    .pivots = PivotsOf<T>,
    .inverse = InverseOf<T>,
    .solve = SolveSystem<T>,
    .solve_triangular = SolveTriangle<T>,
    .cholesky = CholeskyOf<T>,
    .cholesky_grad = CholeskyGradOf<T>,
    .qr = QrOf<T>,
    .least_squares = LeastSquaresOf<T>,
    .svd = SvdOf<T>,
    .self_adjoint_eig = SelfAdjointEigOf<T>,
    .square_root = SquareRootOf<T>,
};

const SmallMatrixTable<float> kSmallFloat = kSmallTable<float>;
const SmallMatrixTable<double> kSmallDouble = kSmallTable<double>;

}  // namespace millrace::cpu::MR_ISA
