// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Factors, inverses, eigenvalues and functions of matrices. See Giles, "Collected matrix derivative results
// for forward and reverse mode algorithmic differentiation".
#include "gradients/linalg/matrices.h"
#include "gradients/family.h"

namespace millrace {
namespace gradients {

Expr Product(const Expr& a, const Expr& b, bool adj_a, bool adj_b) {
  return Op("BatchMatMul", {a, b}, {{"adj_x", adj_a}, {"adj_y", adj_b}});
}
Expr Transposed(const Expr& x) {
  return Op("Einsum", {Operand(std::vector<Expr>{x})}, {{"equation", "...ij->...ji"}});
}
Expr Adjoint(const Expr& x) { return Conj(Transposed(x)); }
Expr Band(const Expr& x, int64_t lower, int64_t upper) {
  GraphBuilder& b = *x.builder();
  return Op("MatrixBandPart", {x, Scalar(b, DataType::kInt64, static_cast<double>(lower)),
                               Scalar(b, DataType::kInt64, static_cast<double>(upper))});
}
Expr HalfDiagonal(const Expr& x) { return Op("MatrixSetDiag", {x, 0.5 * Op("MatrixDiagPart", x)}); }

}  // namespace gradients

namespace {

using gradients::Adjoint;
using gradients::Band;
using gradients::HalfDiagonal;
using gradients::Product;
using gradients::Row;

Expr Solve(const Expr& a, const Expr& b, bool adjoint = false) {
  return Op("MatrixSolve", {a, b}, {{"adjoint", adjoint}});
}
Expr SolveTriangle(const Expr& a, const Expr& b, bool lower, bool adjoint) {
  return Op("MatrixTriangularSolve", {a, b}, {{"lower", lower}, {"adjoint", adjoint}});
}
// One number for each matrix as a matrix of one element.
Expr AsMatrices(const Expr& x) { return ExpandDims(ExpandDims(x, -1), -1); }

// The middle is L^H dL with its diagonal halved, and nothing above it.
Status CholeskyGrad(GradientContext& c) {
  const Expr l = c.output(0);
  const Expr middle = HalfDiagonal(Band(Product(l, c.grad(0), true, false), -1, 0));
  const Expr left = SolveTriangle(l, middle, true, true);
  const Expr both = Adjoint(SolveTriangle(l, Adjoint(left), true, true));
  c.SetInputGrad(0, 0.5 * (both + Adjoint(both)));
  return c.status();
}

Status DeterminantGrad(GradientContext& c) {
  const Expr inverse = Op("MatrixInverse", {c.input(0)}, {{"adjoint", true}});
  c.SetInputGrad(0, AsMatrices(c.grad(0) * Conj(c.output(0))) * inverse);
  return c.status();
}

// The sign is constant between zeros of the determinant.
Status LogDeterminantGrad(GradientContext& c) {
  if (!c.has_grad(1)) return c.status();
  const Expr inverse = Op("MatrixInverse", {c.input(0)}, {{"adjoint", true}});
  c.SetInputGrad(0, AsMatrices(c.grad(1)) * inverse);
  return c.status();
}

Status InverseGrad(GradientContext& c) {
  const Expr y = c.output(0);
  const Expr dx = -Product(y, Product(c.grad(0), y, false, true), true, false);
  c.SetInputGrad(0, c.Attr<bool>("adjoint") ? Adjoint(dx) : dx);
  return c.status();
}

Status SolveGrad(GradientContext& c) {
  const bool adjoint = c.Attr<bool>("adjoint");
  const Expr a = c.input(0), x = c.output(0), db = Solve(a, c.grad(0), !adjoint);
  if (c.wants(0)) c.SetInputGrad(0, adjoint ? -Product(x, db, false, true) : -Product(db, x, false, true));
  if (c.wants(1)) c.SetInputGrad(1, db);
  return c.status();
}

Status TriangularSolveGrad(GradientContext& c) {
  const bool adjoint = c.Attr<bool>("adjoint"), lower = c.Attr<bool>("lower");
  const Expr a = c.input(0), x = c.output(0), db = SolveTriangle(a, c.grad(0), lower, !adjoint);
  if (c.wants(0)) {
    const Expr da = adjoint ? -Product(x, db, false, true) : -Product(db, x, false, true);
    c.SetInputGrad(0, lower ? Band(da, -1, 0) : Band(da, 0, -1));
  }
  if (c.wants(1)) c.SetInputGrad(1, db);
  return c.status();
}

// By the normal equations, whose matrix depends on which side of A is shorter.
Status SolveLsGrad(GradientContext& c) {
  if (!c.Attr<bool>("fast"))
    return errors::InvalidArgument("Gradient not defined for fast=False of node '", c.node().name(), "'");
  const Expr a = c.input(0), b = c.input(1), x = c.output(0), dx = c.grad(0);
  const PartialShape shape = a.shape();
  const int rank = shape.rank();
  if (rank < 2 || shape.dim(rank - 2) < 0 || shape.dim(rank - 1) < 0) {
    return errors::Unimplemented(
        "The gradient of MatrixSolveLs needs to know the size of its matrices: node '", c.node().name(),
        "' has shape ", shape);
  }
  const bool tall = shape.dim(rank - 2) >= shape.dim(rank - 1);
  const Expr plain = Product(a, a, tall, !tall);
  const Expr weight = CastTo(c.input(2), a.dtype());
  const Expr gram = Op("MatrixSetDiag", {plain, Op("MatrixDiagPart", plain) + weight});
  if (tall) {
    const Expr z = Solve(gram, dx), xz = Product(x, z, false, true);
    if (c.wants(0))
      c.SetInputGrad(0, Product(b, z, false, true) - Product(a, xz + Adjoint(xz), false, false));
    if (c.wants(1)) c.SetInputGrad(1, Product(a, z, false, false));
    return c.status();
  }
  const Expr db = Solve(gram, Product(a, dx, false, false)), y = Solve(gram, b);
  if (c.wants(0)) {
    const Expr rest = dx - Product(a, db, true, false);
    c.SetInputGrad(0, Product(y, rest, false, true) - Product(db, Product(y, a, true, false), false, false));
  }
  if (c.wants(1)) c.SetInputGrad(1, db);
  return c.status();
}

// The gradient of the square root, Y Y = A. The gradient G is the solution of Y^H G + G Y^H = dY, a system in
// the elements of G.
Status SquareRootGrad(GradientContext& c) {
  const Expr y = c.output(0), dy = c.grad(0);
  const Expr eye = Op("MatrixSetDiag", {ZerosLike(y), Op("OnesLike", Op("MatrixDiagPart", y))});
  const auto kronecker = [](const Expr& l, const Expr& r) {
    return Op("Einsum", {Operand(std::vector<Expr>{l, r})}, {{"equation", "...ij,...kl->...ikjl"}});
  };
  const Expr both = kronecker(Adjoint(y), eye) + kronecker(eye, Conj(y));
  const Expr shape = ShapeOf(y), rank = RankOf(y);
  GraphBuilder& b = c.builder();
  const Expr batch = Op("Slice", {shape, Vector(b, DataType::kInt32, {0}), ExpandDims(rank - 2.0, 0)});
  const Expr n = GatherRows(shape, rank - 1.0), nn = n * n;
  const Expr matrix = Reshape(both, JoinVectors({batch, nn, nn}));
  const Expr vector = Reshape(dy, JoinVectors({batch, nn, ScalarLike(n, 1)}));
  c.SetInputGrad(0, Reshape(Solve(matrix, vector), shape));
  return c.status();
}

// X R^-H.
Expr TimesInverse(const Expr& x, const Expr& r) {
  return Adjoint(SolveTriangle(r, Adjoint(x), false, false));
}

Status QrGrad(GradientContext& c) {
  const Expr q = c.output(0), r = c.output(1);
  if (IsComplexType(q.dtype()))
    return errors::Unimplemented("QrGrad not implemented for dtype: ", DataTypeName(q.dtype()));
  const PartialShape shape = r.shape();
  const int rank = shape.rank();
  if (rank >= 2 && shape.dim(rank - 2) >= 0 && shape.dim(rank - 1) >= 0 &&
      shape.dim(rank - 2) != shape.dim(rank - 1)) {
    return errors::Unimplemented(
        "QrGrad not implemented when ncols > nrows or full_matrices is true and ncols != nrows.");
  }
  const Expr dq = c.grad_or_zeros(0), dr = c.grad_or_zeros(1);
  const Expr qdq = Product(q, dq, true, false), rdr = Product(r, dr, false, true);
  const Expr lower = Band((qdq - Adjoint(qdq)) + (rdr - Adjoint(rdr)), -1, 0);
  const Expr inside = Product(q, dr + TimesInverse(lower, r), false, false);
  c.SetInputGrad(0, inside + TimesInverse(dq - Product(q, qdq, false, false), r));
  return c.status();
}

// 1 / (x_i - x_j) off the diagonal, 0 on it: infinite where values coincide.
Expr InverseGaps(const Expr& x) {
  const Expr gaps = Op("MatrixSetDiag", {ExpandDims(x, -2) - ExpandDims(x, -1), Op("OnesLike", x)});
  return Op("MatrixSetDiag", {Op("Reciprocal", gaps), ZerosLike(x)});
}

// Only the lower triangle of the input is read.
Status EigenGrad(GradientContext& c) {
  const bool vectors = c.Attr<bool>("compute_v");
  const Expr decomposed = vectors ? c.output(0) : Op("SelfAdjointEigV2", c.input(0));
  const Expr v = decomposed.Sibling(1);
  Expr middle = Op("MatrixDiag", CastTo(c.grad_or_zeros(0), v.dtype()));
  if (vectors && c.has_grad(1))
    middle = middle + InverseGaps(decomposed) * Product(v, c.grad(1), true, false);
  const Expr whole = Product(v, Product(middle, v, false, true), false, false);
  c.SetInputGrad(0, HalfDiagonal(Band(whole + Adjoint(whole), -1, 0)));
  return c.status();
}

Expr Columns(const Expr& x, int64_t begin, int64_t count) {
  GraphBuilder& b = *x.builder();
  const Expr indices = Op("Range", {Scalar(b, DataType::kInt32, static_cast<double>(begin)),
                                    Scalar(b, DataType::kInt32, static_cast<double>(begin + count)),
                                    Scalar(b, DataType::kInt32, 1)});
  return Op("GatherV2", {x, indices, Scalar(b, DataType::kInt32, -1)});
}

Status SvdGrad(GradientContext& c) {
  const Expr ds = Op("MatrixDiag", c.grad_or_zeros(0));
  if (!c.Attr<bool>("compute_uv")) {
    const Expr s = Op("Svd", c.input(0));
    c.SetInputGrad(0, Product(s.Sibling(1), Product(ds, s.Sibling(2), false, true), false, false));
    return c.status();
  }
  const PartialShape shape = c.input(0).shape();
  const int rank = shape.rank();
  if (rank < 2 || shape.dim(rank - 2) < 0 || shape.dim(rank - 1) < 0)
    return errors::Unimplemented(
        "SVD gradient has not been implemented for input with unknown inner matrix shape.");
  int64_t m = shape.dim(rank - 2), n = shape.dim(rank - 1);
  const bool full = c.Attr<bool>("full_matrices"), adjoint = m > n;
  if (full && std::abs(m - n) > 1) {
    return errors::Unimplemented(
        "svd gradient is not implemented for abs(m - n) > 1 when full_matrices is True");
  }
  const Expr s = c.output(0);
  Expr u = c.output(1), v = c.output(2), du = c.grad_or_zeros(1), dv = c.grad_or_zeros(2);
  if (adjoint) {
    std::swap(m, n);
    std::swap(u, v);
    std::swap(du, dv);
  }
  const Expr gaps = InverseGaps(Op("Square", s)), values = Op("MatrixDiag", s);
  const Expr v1 = full && m != n ? Columns(v, 0, m) : v, dv1 = full && m != n ? Columns(dv, 0, m) : dv;
  const Expr fu = gaps * Product(u, du, true, false), fv = gaps * Product(v1, dv1, true, false);
  const Expr middle =
      ds + Product(fu + Adjoint(fu), values, false, false) + Product(values, fv + Adjoint(fv), false, false);
  Expr da = Product(u, Product(middle, v1, false, true), false, false);
  if (m != n) {
    const Expr dv1t = Adjoint(dv1);
    Expr outside = dv1t - Product(Product(dv1t, v1, false, false), v1, false, true);
    if (full) {
      const Expr v2 = Columns(v, m, n - m), dv2 = Columns(dv, m, n - m);
      outside = outside - Product(Product(v1, dv2, true, false), v2, false, true);
    }
    const Expr scaled = Product(u, Op("MatrixDiag", Op("Reciprocal", s)), false, false);
    da = da + Product(scaled, outside, false, false);
  }
  c.SetInputGrad(0, adjoint ? Adjoint(da) : da);
  return c.status();
}

constexpr Row kRows[] = {
    {"BatchCholesky", CholeskyGrad},
    {"BatchMatrixDeterminant", DeterminantGrad},
    {"BatchMatrixInverse", InverseGrad},
    {"BatchMatrixSolve", SolveGrad},
    {"BatchMatrixTriangularSolve", TriangularSolveGrad},
    {"Cholesky", CholeskyGrad},
    {"LogMatrixDeterminant", LogDeterminantGrad},
    {"MatrixDeterminant", DeterminantGrad},
    {"MatrixInverse", InverseGrad},
    {"MatrixSolve", SolveGrad},
    {"MatrixSolveLs", SolveLsGrad},
    {"MatrixSquareRoot", SquareRootGrad},
    {"MatrixTriangularSolve", TriangularSolveGrad},
    {"Qr", QrGrad},
    {"SelfAdjointEigV2", EigenGrad},
    {"Svd", SvdGrad},
};

}  // namespace

Status RegisterMatrixGradients(GradientRegistry& registry) {
  return gradients::RegisterEach(registry, kRows);
}

}  // namespace millrace
