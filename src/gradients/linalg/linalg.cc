// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Diagonals and bands of matrices.
#include "gradients/family.h"

namespace millrace {
namespace {

using gradients::Row;

Status DiagGrad(GradientContext& c) {
  c.SetInputGrad(0, Op("DiagPart", c.grad(0)));
  return c.status();
}
Status DiagPartGrad(GradientContext& c) {
  c.SetInputGrad(0, Op("Diag", c.grad(0)));
  return c.status();
}

Expr ZeroLike(const Expr& x) { return ScalarLike(x, 0); }

// Inputs: diagonal, and k, num_rows, num_cols, padding_value in the second version.
Status MatrixDiagGrad(GradientContext& c) {
  const Expr dy = c.grad(0);
  c.SetInputGrad(0, c.num_inputs() == 1 ? Op("MatrixDiagPart", dy)
                                        : Op("MatrixDiagPartV2", {dy, c.input(1), ZeroLike(dy)}));
  return c.status();
}

// Inputs: input, and k, padding_value in the second version.
Status MatrixDiagPartGrad(GradientContext& c) {
  const Expr zeros = ZerosLike(c.input(0)), dy = c.grad(0);
  c.SetInputGrad(0, c.num_inputs() == 1 ? Op("MatrixSetDiag", {zeros, dy})
                                        : Op("MatrixSetDiagV2", {zeros, dy, c.input(1)}));
  return c.status();
}

// Inputs: input, diagonal, and k in the second version.
Status MatrixSetDiagGrad(GradientContext& c) {
  const Expr dy = c.grad(0), zeros = ZerosLike(c.input(1));
  const bool v2 = c.num_inputs() == 3;
  if (c.wants(0)) {
    c.SetInputGrad(0, v2 ? Op("MatrixSetDiagV2", {dy, zeros, c.input(2)}) : Op("MatrixSetDiag", {dy, zeros}));
  }
  if (c.wants(1)) {
    c.SetInputGrad(1, v2 ? Op("MatrixDiagPartV2", {dy, c.input(2), ZeroLike(dy)}) : Op("MatrixDiagPart", dy));
  }
  return c.status();
}

Status BandPartGrad(GradientContext& c) {
  c.SetInputGrad(0, Op("MatrixBandPart", {c.grad(0), c.input(1), c.input(2)}));
  return c.status();
}

Status CrossGrad(GradientContext& c) {
  const Expr u = c.input(0), v = c.input(1), dy = c.grad(0);
  if (c.wants(0)) c.SetInputGrad(0, Op("Cross", {v, dy}));
  if (c.wants(1)) c.SetInputGrad(1, Op("Cross", {dy, u}));
  return c.status();
}

Status ConjugateTransposeGrad(GradientContext& c) {
  c.SetInputGrad(0, Op("ConjugateTranspose", {c.grad(0), Op("InvertPermutation", c.input(1))}));
  return c.status();
}

constexpr Row kRows[] = {
    {"BatchMatrixBandPart", BandPartGrad},
    {"BatchMatrixDiag", MatrixDiagGrad},
    {"BatchMatrixDiagPart", MatrixDiagPartGrad},
    {"BatchMatrixSetDiag", MatrixSetDiagGrad},
    {"ConjugateTranspose", ConjugateTransposeGrad},
    {"Cross", CrossGrad},
    {"Diag", DiagGrad},
    {"DiagPart", DiagPartGrad},
    {"MatrixBandPart", BandPartGrad},
    {"MatrixDiag", MatrixDiagGrad},
    {"MatrixDiagPart", MatrixDiagPartGrad},
    {"MatrixDiagPartV2", MatrixDiagPartGrad},
    {"MatrixDiagV2", MatrixDiagGrad},
    {"MatrixSetDiag", MatrixSetDiagGrad},
    {"MatrixSetDiagV2", MatrixSetDiagGrad},
};

}  // namespace

Status RegisterLinalgGradients(GradientRegistry& registry) {
  return gradients::RegisterEach(registry, kRows);
}

}  // namespace millrace
