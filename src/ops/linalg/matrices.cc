// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Factors, inverses, eigenvalues and functions of matrices.
#include "ops/family.h"

namespace millrace::ops {
namespace {

// Matrices, square ones.
StatusOr<ShapeHandle> Matrices(InferenceContext& c, int i) { return c.WithRankAtLeast(c.input(i), 2); }
StatusOr<ShapeHandle> SquareMatrices(InferenceContext& c, int i) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle in, Matrices(c, i));
  if (!c.RankKnown(in)) return in;
  MR_ASSIGN_OR_RETURN(const DimHandle side, c.Merge(c.Dim(in, -2), c.Dim(in, -1)));
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.ReplaceDim(in, -2, side));
  return c.ReplaceDim(out, -1, side);
}
StatusOr<ShapeHandle> WithBatch(InferenceContext& c, ShapeHandle matrices,
                                const std::vector<DimHandle>& dims) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle batch, c.Subshape(matrices, 0, -2));
  return c.Concatenate(batch, c.MakeShape(dims));
}
// The smaller of two sizes; unknown unless both are known.
DimHandle Smaller(InferenceContext& c, DimHandle a, DimHandle b) {
  if (!c.ValueKnown(a) || !c.ValueKnown(b)) return c.UnknownDim();
  return c.Value(a) <= c.Value(b) ? a : b;
}

Status SquareShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, SquareMatrices(c, 0));
  c.set_output(0, out);
  return Status();
}

Status CholeskyGradShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle l, SquareMatrices(c, 0));
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.Merge(l, c.input(1)));
  c.set_output(0, out);
  return Status();
}

// One number for each matrix, in all outputs.
Status DeterminantShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle in, SquareMatrices(c, 0));
  if (!c.RankKnown(in)) return shape_fns::Unknown(c);
  MR_ASSIGN_OR_RETURN(const ShapeHandle batch, c.Subshape(in, 0, -2));
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, batch);
  return Status();
}

// The shape of X in A X = B, which is a least-squares problem where A is not square.
Status SolveShape(InferenceContext& c, bool square) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle a, square ? SquareMatrices(c, 0) : Matrices(c, 0));
  MR_ASSIGN_OR_RETURN(const ShapeHandle b, Matrices(c, 1));
  if (!c.RankKnown(a) || !c.RankKnown(b)) return shape_fns::Unknown(c);
  MR_ASSIGN_OR_RETURN(const ShapeHandle batch_a, c.Subshape(a, 0, -2));
  MR_ASSIGN_OR_RETURN(const ShapeHandle batch_b, c.Subshape(b, 0, -2));
  MR_ASSIGN_OR_RETURN(const ShapeHandle batch, c.Merge(batch_a, batch_b));
  MR_ASSIGN_OR_RETURN(const DimHandle rows, c.Merge(c.Dim(a, -2), c.Dim(b, -2)));
  const DimHandle unknowns = square ? rows : c.Dim(a, -1);
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.Concatenate(batch, c.Matrix(unknowns, c.Dim(b, -1))));
  c.set_output(0, out);
  return Status();
}
Status MatrixSolveShape(InferenceContext& c) { return SolveShape(c, true); }
Status MatrixSolveLsShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(2), 0).status());
  return SolveShape(c, false);
}

Status QrShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle in, Matrices(c, 0));
  MR_ASSIGN_OR_RETURN(const bool full, c.Attr<bool>("full_matrices"));
  if (!c.RankKnown(in)) return shape_fns::Unknown(c);
  const DimHandle m = c.Dim(in, -2), n = c.Dim(in, -1), p = full ? m : Smaller(c, m, n);
  MR_ASSIGN_OR_RETURN(const ShapeHandle q, WithBatch(c, in, {m, p}));
  MR_ASSIGN_OR_RETURN(const ShapeHandle r, WithBatch(c, in, {p, n}));
  c.set_output(0, q);
  c.set_output(1, r);
  return Status();
}

Status LuShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle in, SquareMatrices(c, 0));
  if (!c.RankKnown(in)) return shape_fns::Unknown(c);
  MR_ASSIGN_OR_RETURN(const ShapeHandle rows, WithBatch(c, in, {c.Dim(in, -1)}));
  c.set_output(0, in);
  c.set_output(1, rows);
  return Status();
}

// Eigenvalues above the eigenvectors.
Status SelfAdjointEigShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle in, SquareMatrices(c, 0));
  if (!c.RankKnown(in)) return shape_fns::Unknown(c);
  MR_ASSIGN_OR_RETURN(const DimHandle rows, c.Add(c.Dim(in, -1), c.MakeDim(1)));
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, WithBatch(c, in, {rows, c.Dim(in, -1)}));
  c.set_output(0, out);
  return Status();
}

Status SelfAdjointEigV2Shape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle in, SquareMatrices(c, 0));
  MR_ASSIGN_OR_RETURN(const bool vectors, c.Attr<bool>("compute_v"));
  if (!c.RankKnown(in)) return shape_fns::Unknown(c);
  MR_ASSIGN_OR_RETURN(const ShapeHandle values, WithBatch(c, in, {c.Dim(in, -1)}));
  MR_ASSIGN_OR_RETURN(const ShapeHandle none, WithBatch(c, in, {c.MakeDim(0)}));
  c.set_output(0, values);
  c.set_output(1, vectors ? in : none);
  return Status();
}

Status SvdShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle in, Matrices(c, 0));
  MR_ASSIGN_OR_RETURN(const bool vectors, c.Attr<bool>("compute_uv"));
  MR_ASSIGN_OR_RETURN(const bool full, c.Attr<bool>("full_matrices"));
  if (!c.RankKnown(in)) return shape_fns::Unknown(c);
  const DimHandle m = c.Dim(in, -2), n = c.Dim(in, -1), p = Smaller(c, m, n);
  MR_ASSIGN_OR_RETURN(const ShapeHandle values, WithBatch(c, in, {p}));
  MR_ASSIGN_OR_RETURN(ShapeHandle u, WithBatch(c, in, {c.MakeDim(0)}));
  ShapeHandle v = u;
  if (vectors) {
    MR_ASSIGN_OR_RETURN(u, WithBatch(c, in, {m, full ? m : p}));
    MR_ASSIGN_OR_RETURN(v, WithBatch(c, in, {n, full ? n : p}));
  }
  c.set_output(0, values);
  c.set_output(1, u);
  c.set_output(2, v);
  return Status();
}

// Inputs: three diagonals, and the right-hand side of the product.
Status TridiagonalMatMulShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle rhs, Matrices(c, 3));
  for (int i = 0; i < 3; ++i) {
    MR_ASSIGN_OR_RETURN(const ShapeHandle row, Matrices(c, i));
    if (!c.RankKnown(row) || !c.RankKnown(rhs)) continue;
    MR_RETURN_IF_ERROR(c.WithValue(c.Dim(row, -2), 1).status());
    MR_RETURN_IF_ERROR(c.Merge(c.Dim(row, -1), c.Dim(rhs, -2)).status());
  }
  c.set_output(0, rhs);
  return Status();
}

Status TridiagonalSolveShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle diagonals, Matrices(c, 0));
  MR_ASSIGN_OR_RETURN(ShapeHandle rhs, Matrices(c, 1));
  if (c.RankKnown(diagonals) && c.RankKnown(rhs)) {
    MR_RETURN_IF_ERROR(c.WithValue(c.Dim(diagonals, -2), 3).status());
    MR_ASSIGN_OR_RETURN(const DimHandle rows, c.Merge(c.Dim(diagonals, -1), c.Dim(rhs, -2)));
    MR_ASSIGN_OR_RETURN(rhs, c.ReplaceDim(rhs, -2, rows));
  }
  c.set_output(0, rhs);
  return Status();
}

std::vector<OpBuilder> Factors() {
  return {
      OpBuilder("Cholesky: The Cholesky decomposition: the lower triangular L for which A = L L^H.")
          .Input("input: T")
          .Output("output: T")
          .Attr("T: {double, float, half, complex64, complex128}")
          .Shape(SquareShape),
      OpBuilder("CholeskyGrad: The gradient of Cholesky.")
          .Input("l: T")
          .Input("grad: T")
          .Output("output: T")
          .Attr("T: {half, float, double}")
          .Shape(CholeskyGradShape),
      OpBuilder(
          "LogMatrixDeterminant: The logarithms of the absolute values of determinants, and their signs.")
          .Input("input: T")
          .Output("sign: T")
          .Output("log_abs_determinant: T")
          .Attr("T: {half, float, double, complex64, complex128}")
          .Shape(DeterminantShape),
      OpBuilder("Lu: The LU decomposition of matrices, with the permutation of rows.")
          .Input("input: T")
          .Output("lu: T")
          .Output("p: output_idx_type")
          .Attr("T: {double, float, half, complex64, complex128}")
          .Attr("output_idx_type: {int32, int64} = DT_INT32")
          .Shape(LuShape),
      OpBuilder("MatrixDeterminant: The determinants of matrices.")
          .Input("input: T")
          .Output("output: T")
          .Attr("T: {half, float, double, complex64, complex128}")
          .Shape(DeterminantShape),
      OpBuilder("MatrixExponential: The exponentials of matrices.")
          .Input("input: T")
          .Output("output: T")
          .Attr("T: {double, float, half, complex64, complex128}")
          .Deprecated(27, "Use Python implementation tf.linalg.matrix_exponential instead.")
          .Shape(SquareShape),
      OpBuilder("MatrixInverse: The inverses of matrices.")
          .Input("input: T")
          .Output("output: T")
          .Attr("adjoint: bool = false")
          .Attr("T: {double, float, half, complex64, complex128}")
          .Shape(SquareShape),
      OpBuilder("MatrixLogarithm: The logarithms of matrices.")
          .Input("input: T")
          .Output("output: T")
          .Attr("T: {complex64, complex128}")
          .Shape(SquareShape),
      OpBuilder("MatrixSolve: Solves A X = B.")
          .Input("matrix: T")
          .Input("rhs: T")
          .Output("output: T")
          .Attr("adjoint: bool = false")
          .Attr("T: {double, float, half, complex64, complex128}")
          .Shape(MatrixSolveShape),
      OpBuilder("MatrixSolveLs: Solves A X = B in the least-squares sense.")
          .Input("matrix: T")
          .Input("rhs: T")
          .Input("l2_regularizer: double")
          .Output("output: T")
          .Attr("T: {double, float, half, complex64, complex128}")
          .Attr("fast: bool = true")
          .Shape(MatrixSolveLsShape),
  };
}

std::vector<OpBuilder> MoreFactors() {
  return {
      OpBuilder("MatrixSquareRoot: The square roots of matrices.")
          .Input("input: T")
          .Output("output: T")
          .Attr("T: {double, float, half, complex64, complex128}")
          .Shape(SquareShape),
      OpBuilder("MatrixTriangularSolve: Solves A X = B for triangular A.")
          .Input("matrix: T")
          .Input("rhs: T")
          .Output("output: T")
          .Attr("lower: bool = true")
          .Attr("adjoint: bool = false")
          .Attr("T: {double, float, half, complex64, complex128}")
          .Shape(MatrixSolveShape),
      OpBuilder("Qr: The QR decomposition of matrices.")
          .Input("input: T")
          .Output("q: T")
          .Output("r: T")
          .Attr("full_matrices: bool = false")
          .Attr("T: {double, float, half, complex64, complex128}")
          .Shape(QrShape),
      OpBuilder("SelfAdjointEig: Eigenvalues and eigenvectors of symmetric matrices.")
          .Input("input: T")
          .Output("output: T")
          .Attr("T: {double, float, half}")
          .Deprecated(11, "Use SelfAdjointEigV2 instead.")
          .Shape(SelfAdjointEigShape),
      OpBuilder("SelfAdjointEigV2: Eigenvalues and eigenvectors of symmetric matrices.")
          .Input("input: T")
          .Output("e: T")
          .Output("v: T")
          .Attr("compute_v: bool = true")
          .Attr("T: {double, float, half, complex64, complex128}")
          .Shape(SelfAdjointEigV2Shape),
      OpBuilder("Svd: The singular value decomposition of matrices.")
          .Input("input: T")
          .Output("s: T")
          .Output("u: T")
          .Output("v: T")
          .Attr("compute_uv: bool = true")
          .Attr("full_matrices: bool = false")
          .Attr("T: {double, float, half, complex64, complex128}")
          .Shape(SvdShape),
      OpBuilder("TridiagonalMatMul: The product of tridiagonal matrices and dense matrices.")
          .Input("superdiag: T")
          .Input("maindiag: T")
          .Input("subdiag: T")
          .Input("rhs: T")
          .Output("output: T")
          .Attr("T: {double, float, complex64, complex128}")
          .Shape(TridiagonalMatMulShape),
      OpBuilder("TridiagonalSolve: Solves tridiagonal systems A X = B.")
          .Input("diagonals: T")
          .Input("rhs: T")
          .Output("output: T")
          .Attr("partial_pivoting: bool = true")
          .Attr("T: {double, float, complex64, complex128}")
          .Shape(TridiagonalSolveShape),
  };
}

// Aliases of old.
std::vector<OpBuilder> BatchFactors() {
  return {
      OpBuilder("BatchCholesky: The Cholesky decomposition: the lower triangular L for which A = L L^H.")
          .Input("input: T")
          .Output("output: T")
          .Attr("T: {double, float}")
          .Deprecated(13, "Use Cholesky instead.")
          .Shape(SquareShape),
      OpBuilder("BatchCholeskyGrad: The gradient of Cholesky.")
          .Input("l: T")
          .Input("grad: T")
          .Output("output: T")
          .Attr("T: {float, double}")
          .Deprecated(13, "Use CholeskyGrad instead.")
          .Shape(CholeskyGradShape),
      OpBuilder("BatchMatrixDeterminant: The determinants of matrices.")
          .Input("input: T")
          .Output("output: T")
          .Attr("T: {float, double, complex64, complex128}")
          .Deprecated(13, "Use MatrixDeterminant instead.")
          .Shape(DeterminantShape),
      OpBuilder("BatchMatrixInverse: The inverses of matrices.")
          .Input("input: T")
          .Output("output: T")
          .Attr("adjoint: bool = false")
          .Attr("T: {double, float}")
          .Deprecated(13, "Use MatrixInverse instead.")
          .Shape(SquareShape),
      OpBuilder("BatchMatrixSolve: Solves A X = B.")
          .Input("matrix: T")
          .Input("rhs: T")
          .Output("output: T")
          .Attr("adjoint: bool = false")
          .Attr("T: {double, float}")
          .Deprecated(13, "Use MatrixSolve instead.")
          .Shape(MatrixSolveShape),
      OpBuilder("BatchMatrixSolveLs: Solves A X = B in the least-squares sense.")
          .Input("matrix: T")
          .Input("rhs: T")
          .Input("l2_regularizer: double")
          .Output("output: T")
          .Attr("T: {double, float}")
          .Attr("fast: bool = true")
          .Deprecated(13, "Use MatrixSolveLs instead.")
          .Shape(MatrixSolveLsShape),
      OpBuilder("BatchMatrixTriangularSolve: Solves A X = B for triangular A.")
          .Input("matrix: T")
          .Input("rhs: T")
          .Output("output: T")
          .Attr("lower: bool = true")
          .Attr("adjoint: bool = false")
          .Attr("T: {double, float}")
          .Deprecated(13, "Use MatrixTriangularSolve instead.")
          .Shape(MatrixSolveShape),
      OpBuilder("BatchSelfAdjointEig: Eigenvalues and eigenvectors of symmetric matrices.")
          .Input("input: T")
          .Output("output: T")
          .Attr("T: {double, float}")
          .Deprecated(11, "Use SelfAdjointEigV2 instead.")
          .Shape(SelfAdjointEigShape),
      OpBuilder("BatchSelfAdjointEigV2: Eigenvalues and eigenvectors of symmetric matrices.")
          .Input("input: T")
          .Output("e: T")
          .Output("v: T")
          .Attr("compute_v: bool = true")
          .Attr("T: {double, float}")
          .Deprecated(13, "Use SelfAdjointEigV2 instead.")
          .Shape(SelfAdjointEigV2Shape),
      OpBuilder("BatchSvd: The singular value decomposition of matrices.")
          .Input("input: T")
          .Output("s: T")
          .Output("u: T")
          .Output("v: T")
          .Attr("compute_uv: bool = true")
          .Attr("full_matrices: bool = false")
          .Attr("T: {double, float, complex64, complex128}")
          .Deprecated(13, "Use Svd instead.")
          .Shape(SvdShape),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterMatrixOps(OpRegistry& registry) {
  for (const auto part : {ops::Factors, ops::MoreFactors, ops::BatchFactors})
    MR_RETURN_IF_ERROR(ops::RegisterEach(registry, part()));
  return Status::Ok();
}

}  // namespace millrace
