// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Products of matrices.
#include "gradients/broadcast.h"
#include "gradients/family.h"

namespace millrace {
namespace {

using gradients::Row;

// The gradient of z = op(a) op(b), where op may transpose: the other factor times dz, transposed so that the
// result has the shape of the factor. `product(l, r, transpose_l, transpose_r)` multiplies.
template <typename Product>
void SetProductGrads(GradientContext& c, const Expr& a, const Expr& b, bool ta, bool tb,
                     const Product& product) {
  const Expr dz = c.grad(0);
  if (c.wants(0)) c.SetInputGrad(0, ta ? product(b, dz, tb, true) : product(dz, b, false, !tb));
  if (c.wants(1)) c.SetInputGrad(1, tb ? product(dz, a, true, ta) : product(a, dz, !ta, false));
}

Status MatMulGrad(GradientContext& c) {
  const auto product = [](const Expr& l, const Expr& r, bool tl, bool tr) {
    return Op("MatMul", {l, r}, {{"transpose_a", tl}, {"transpose_b", tr}});
  };
  SetProductGrads(c, Conj(c.input(0)), Conj(c.input(1)), c.Attr<bool>("transpose_a"),
                  c.Attr<bool>("transpose_b"), product);
  return c.status();
}

// The gradient of factors whose types differ from that of the product.
Status SparseMatMulGrad(GradientContext& c) {
  const auto product = [](const Expr& l, const Expr& r, bool tl, bool tr) {
    return Op("MatMul", {l, r}, {{"transpose_a", tl}, {"transpose_b", tr}});
  };
  const Expr a = CastTo(c.input(0), DataType::kFloat), b = CastTo(c.input(1), DataType::kFloat),
             dy = c.grad(0);
  const bool ta = c.Attr<bool>("transpose_a"), tb = c.Attr<bool>("transpose_b");
  if (c.wants(0)) {
    const Expr da = ta ? product(b, dy, tb, true) : product(dy, b, false, !tb);
    c.SetInputGrad(0, CastTo(da, c.input(0).dtype()));
  }
  if (c.wants(1)) {
    const Expr db = tb ? product(dy, a, true, ta) : product(a, dy, !ta, false);
    c.SetInputGrad(1, CastTo(db, c.input(1).dtype()));
  }
  return c.status();
}

// "adj" transposes and conjugates, so that nothing is left to conjugate here.
Status BatchMatMulGrad(GradientContext& c) {
  const auto product = [](const Expr& l, const Expr& r, bool tl, bool tr) {
    return Op("BatchMatMul", {l, r}, {{"adj_x", tl}, {"adj_y", tr}});
  };
  SetProductGrads(c, c.input(0), c.input(1), c.Attr<bool>("adj_x"), c.Attr<bool>("adj_y"), product);
  return c.status();
}

// A factor whose batch was repeated gets the sum over its repetitions: what broadcasts the factor to the
// shape of its unsummed gradient.
Status BatchMatMulV2Grad(GradientContext& c) {
  const auto product = [](const Expr& l, const Expr& r, bool tl, bool tr) {
    return Op("BatchMatMulV2", {l, r}, {{"adj_x", tl}, {"adj_y", tr}});
  };
  const Expr x = c.input(0), y = c.input(1), dz = c.grad(0);
  const bool tx = c.Attr<bool>("adj_x"), ty = c.Attr<bool>("adj_y");
  if (c.wants(0)) {
    const Expr dx = tx ? product(y, dz, ty, true) : product(dz, y, false, !ty);
    c.SetInputGrad(0, gradients::SumRepeated(x, dx, 0, dx));
  }
  if (c.wants(1)) {
    const Expr dy = ty ? product(dz, x, true, tx) : product(x, dz, !tx, false);
    c.SetInputGrad(1, gradients::SumRepeated(y, dy, 0, dy));
  }
  return c.status();
}

constexpr Row kRows[] = {{"BatchMatMul", BatchMatMulGrad},
                         {"BatchMatMulV2", BatchMatMulV2Grad},
                         {"MatMul", MatMulGrad},
                         {"SparseMatMul", SparseMatMulGrad}};

}  // namespace

Status RegisterMatMulGradients(GradientRegistry& registry) {
  return gradients::RegisterEach(registry, kRows);
}

}  // namespace millrace
