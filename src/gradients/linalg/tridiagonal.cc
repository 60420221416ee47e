// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Matrices of three diagonals, each aligned by row: row i of A is below[i], on[i], above[i].
#include "gradients/family.h"
#include "gradients/linalg/matrices.h"

namespace millrace {
namespace {

using gradients::Row;

// Rows of [..., n, k] moved by one: row i becomes row i - 1 (up) or i + 1, and a row of zeros comes in.
Expr Moved(const Expr& x, bool up) {
  GraphBuilder& b = *x.builder();
  const Expr shape = ShapeOf(x), rank = RankOf(x);
  const Expr row = Op("Range", {Scalar(b, DataType::kInt32, 0), rank, Scalar(b, DataType::kInt32, 1)});
  const Expr mark = CastTo(Op("Equal", {row, rank - 2.0}), DataType::kInt32);  // 1 at the axis of rows
  const Expr none = ZerosLike(mark);
  const Expr kept = Op("Slice", {x, up ? mark : none, shape - mark});
  const auto pair = [](const Expr& before, const Expr& after) {
    return Op("Pack", {Operand(std::vector<Expr>{before, after})}, {{"axis", 1}});
  };
  return Op("Pad", {kept, up ? pair(none, mark) : pair(mark, none)});
}

// The sum over the columns, as a row: [..., n, k] to [..., 1, n].
Expr RowSums(const Expr& x) { return ExpandDims(Sum(x, Vector(*x.builder(), DataType::kInt32, {-1})), -2); }

// A row [..., 1, n] as a column.
Expr AsColumn(const Expr& row) { return Conj(gradients::Transposed(row)); }

Status MatMulGrad(GradientContext& c) {
  const Expr x = Conj(c.input(3)), dy = c.grad(0);
  if (c.wants(0)) c.SetInputGrad(0, RowSums(Moved(x, true) * dy));
  if (c.wants(1)) c.SetInputGrad(1, RowSums(x * dy));
  if (c.wants(2)) c.SetInputGrad(2, RowSums(Moved(x, false) * dy));
  if (c.wants(3)) {
    c.SetInputGrad(3, Moved(AsColumn(c.input(0)) * dy, false) + AsColumn(c.input(1)) * dy +
                          Moved(AsColumn(c.input(2)) * dy, true));
  }
  return c.status();
}

Expr Diagonal(const Expr& diagonals, int i) {
  GraphBuilder& b = *diagonals.builder();
  return Op("GatherV2", {diagonals, Vector(b, DataType::kInt32, {i}), Scalar(b, DataType::kInt32, -2)});
}
Expr Stacked(const std::vector<Expr>& rows) {
  return Op("ConcatV2", {Operand(rows), Scalar(*rows[0].builder(), DataType::kInt32, -2)});
}
// A row moved along itself.
Expr MovedRow(const Expr& row, bool left) {
  return gradients::Transposed(Moved(gradients::Transposed(row), left));
}

// The adjoint matrix has the diagonals exchanged, each moved by one.
Status SolveGrad(GradientContext& c) {
  const Expr diagonals = Conj(c.input(0)), x = Conj(c.output(0));
  const Expr adjoint = Stacked({MovedRow(Diagonal(diagonals, 2), true), Diagonal(diagonals, 1),
                                MovedRow(Diagonal(diagonals, 0), false)});
  const Expr db = Op("TridiagonalSolve", {adjoint, c.grad(0)}, c.CopyAttrs({"partial_pivoting"}));
  if (c.wants(0)) {
    c.SetInputGrad(0,
                   -Stacked({RowSums(Moved(x, true) * db), RowSums(x * db), RowSums(Moved(x, false) * db)}));
  }
  if (c.wants(1)) c.SetInputGrad(1, db);
  return c.status();
}

constexpr Row kRows[] = {{"TridiagonalMatMul", MatMulGrad}, {"TridiagonalSolve", SolveGrad}};

}  // namespace

Status RegisterTridiagonalGradients(GradientRegistry& registry) {
  return gradients::RegisterEach(registry, kRows);
}

}  // namespace millrace
