// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

namespace millrace {
namespace {

using Exprs = std::vector<Expr>;
constexpr DataType kInt32 = DataType::kInt32, kInt64 = DataType::kInt64;

GradientCase Case(const char* op, const char* label, std::vector<Tensor> xs,
                  std::function<Expr(GraphBuilder&, const Exprs&)> y) {
  return {.op = op, .label = label, .xs = std::move(xs), .ys = [y](GraphBuilder& b, const Exprs& x) {
            return Exprs{y(b, x)};
          }};
}

void AddDiagonals(std::vector<GradientCase>* cases) {
  cases->push_back(OneOp("Diag", {Values({2, 2})}));
  cases->push_back(OneOp("DiagPart", {Values({2, 3, 2, 3})}));
  for (const char* op : {"MatrixDiag", "BatchMatrixDiag"}) cases->push_back(OneOp(op, {Values({2, 3})}));
  for (const char* op : {"MatrixDiagPart", "BatchMatrixDiagPart"})
    cases->push_back(OneOp(op, {Values({2, 2, 3})}));
  for (const char* op : {"MatrixSetDiag", "BatchMatrixSetDiag"})
    cases->push_back(OneOp(op, {Values({2, 2, 3}), Values({2, 2}, -1, 1, 3)}));
  for (const char* op : {"MatrixBandPart", "BatchMatrixBandPart"}) {
    cases->push_back(Case(op, "", {Values({2, 3, 3})}, [op](GraphBuilder& b, const Exprs& x) {
      return Op(op, {x[0], Scalar(b, kInt64, 1), Scalar(b, kInt64, 0)});
    }));
  }
  cases->push_back(Case("MatrixDiagV2", "", {Values({2, 2, 2})}, [](GraphBuilder& b, const Exprs& x) {
    const Expr any = Scalar(b, kInt32, -1);
    return Op("MatrixDiagV2", {x[0], Vector(b, kInt32, {0, 1}), any, any, ScalarLike(x[0], 3)});
  }));
  cases->push_back(Case("MatrixDiagPartV2", "", {Values({2, 3, 4})}, [](GraphBuilder& b, const Exprs& x) {
    return Op("MatrixDiagPartV2", {x[0], Vector(b, kInt32, {-1, 2}), ScalarLike(x[0], 3)});
  }));
  cases->push_back(Case("MatrixSetDiagV2", "", {Values({2, 3, 3}), Values({2, 2}, -1, 1, 3)},
                        [](GraphBuilder& b, const Exprs& x) {
                          return Op("MatrixSetDiagV2", {x[0], x[1], Vector(b, kInt32, {1})});
                        }));
}

void AddProducts(std::vector<GradientCase>* cases) {
  cases->push_back(OneOp("Cross", {Values({2, 3}), Values({2, 3}, -1, 1, 3)}));
  const auto einsum = [&](const char* equation, std::vector<Tensor> xs) {
    cases->push_back(Case("Einsum", equation, std::move(xs), [equation](GraphBuilder&, const Exprs& x) {
      return Op("Einsum", {Operand(x)}, {{"equation", std::string(equation)}});
    }));
  };
  const auto y = [](const TensorShape& shape) { return Values(shape, -1, 1, 3); };
  einsum("ij,jk->ik", {Values({2, 3}), y({3, 2})});
  einsum("ij,jk->ik", {ComplexValues({2, 2}), ComplexValues({2, 2}, -1, 1, 3)});
  einsum("bij,kjb->kb", {Values({2, 2, 3}), y({2, 3, 2})});
  einsum("ij->j", {Values({2, 3})});
  einsum("iij->j", {Values({2, 2, 3})});
  einsum("i->ii", {Values({3})});
  einsum("ijk,k->", {Values({2, 2, 3}), y({3})});
  einsum("...ij,...jk->...ik", {Values({2, 1, 2, 2}), y({3, 2, 1})});
  einsum("a...b,b...->b...a", {Values({2, 3, 2}), y({2, 1})});
  einsum("a...b,...->a", {Values({2, 3, 2}), y({3})});
  einsum("...a->...", {Values({2, 3})});
}

std::vector<GradientCase> LinalgCases() {
  std::vector<GradientCase> cases;
  AddDiagonals(&cases);
  AddProducts(&cases);
  return cases;
}
const GradientCaseList kLinalgCases(LinalgCases);

}  // namespace
}  // namespace millrace
