// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Gradients of functions of complex numbers: dy * conj(dy/dx) if there is a derivative.
#include "cases.h"

namespace millrace {
namespace {

constexpr DataType kComplex128 = DataType::kComplex128, kDouble = DataType::kDouble;

void AddPartsOfNumbers(std::vector<GradientCase>* cases) {
  for (const char* op : {"Angle", "ComplexAbs", "Imag", "Real"}) {
    for (const TensorShape& shape : {TensorShape({2, 3}), TensorShape(), TensorShape({0, 2})}) {
      cases->push_back(OneOp(op, {ComplexValues(shape, 0.3, 1.5)}, {{"Tout", kDouble}}));
      cases->back().label = StrCat("of ", shape);
      // This would need the derivative of x / |x|, which the gradient treats as constant.
      cases->back().second = cases->back().op != "ComplexAbs";
    }
  }
  cases->push_back(OneOp("Conj", {ComplexValues({2, 3})}));
  const std::pair<TensorShape, TensorShape> kShapes[] = {
      {{2, 3}, {2, 3}},        {{2, 3}, {3}},    {TensorShape(), {2, 3}},
      {{2, 3}, TensorShape()}, {{2, 1}, {1, 3}}, {{0, 3}, {3}},
  };
  for (const auto& [re, im] : kShapes) {
    cases->push_back(OneOp("Complex", {Values(re), Values(im, -1, 1, 4)}, {{"Tout", kComplex128}}));
    cases->back().label = StrCat(re, im);
  }
}

void AddElementwise(std::vector<GradientCase>* cases) {
  // The branch cuts are outside of the squares of the inputs.
  for (const char* op : {"Acos",    "Acosh", "Asin", "Asinh", "Atan",   "Atanh", "Cos",        "Cosh",
                         "Exp",     "Expm1", "Inv",  "Log",   "Log1p",  "Neg",   "Reciprocal", "Rsqrt",
                         "Sigmoid", "Sin",   "Sinh", "Sqrt",  "Square", "Tan",   "Tanh"}) {
    cases->push_back(OneOp(op, {ComplexValues({2, 3}, 0.3, 0.9)}));
    cases->back().label = "of complex numbers";
  }
  for (const char* op : {"InvGrad", "ReciprocalGrad", "RsqrtGrad", "SigmoidGrad", "SqrtGrad", "TanhGrad"}) {
    cases->push_back(OneOp(op, {ComplexValues({2, 3}, 0.4, 1.2), ComplexValues({2, 3}, -1, 1, 5)}));
    cases->back().label = "of complex numbers";
  }
  for (const char* op : {"Add", "AddV2", "Div", "Mul", "Pow", "RealDiv", "SquaredDifference", "Sub"}) {
    for (const TensorShape& shape : {TensorShape({2, 3}), TensorShape({3}), TensorShape()}) {
      cases->push_back(OneOp(op, {ComplexValues({2, 3}, 0.4, 1.2), ComplexValues(shape, 0.5, 1.5, 4)}));
      cases->back().label = StrCat("of complex numbers ", shape);
    }
  }
  cases->push_back({.op = "Mul",
                    .label = "of a complex number by its conjugate",
                    .xs = {ComplexValues({2, 3})},
                    .ys = [](auto&, auto& x) { return std::vector<Expr>{x[0] * Conj(x[0])}; }});
}

void AddContractionsAndReductions(std::vector<GradientCase>* cases) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const TensorShape a = ta ? TensorShape({3, 2}) : TensorShape({2, 3});
      const TensorShape b = tb ? TensorShape({4, 3}) : TensorShape({3, 4});
      cases->push_back(OneOp("MatMul", {ComplexValues(a), ComplexValues(b, -1, 1, 2)},
                             {{"transpose_a", ta}, {"transpose_b", tb}}));
      cases->back().label =
          StrCat("of complex numbers", ta ? " a transposed" : "", tb ? " b transposed" : "");
    }
  }
  for (const char* op : {"Sum", "Mean", "Prod", "Cumsum", "Cumprod"}) {
    cases->push_back({.op = op,
                      .label = "of complex numbers",
                      .xs = {ComplexValues({2, 3}, 0.4, 1.2)},
                      .ys = [op](GraphBuilder& b, auto& x) {
                        return std::vector<Expr>{Op(op, {x[0], Scalar(b, DataType::kInt32, 1)})};
                      }});
  }
  for (const char* op : {"SegmentProd", "SegmentSum"}) {
    cases->push_back({.op = op,
                      .label = "of complex numbers",
                      .xs = {ComplexValues({3, 2}, 0.4, 1.2)},
                      .ys = [op](GraphBuilder& b, auto& x) {
                        return std::vector<Expr>{Op(op, {x[0], Vector(b, DataType::kInt32, {0, 0, 1})})};
                      }});
  }
}

std::vector<GradientCase> ComplexCases() {
  std::vector<GradientCase> cases;
  AddPartsOfNumbers(&cases);
  AddElementwise(&cases);
  AddContractionsAndReductions(&cases);
  return cases;
}
const GradientCaseList kComplexCases(ComplexCases);

}  // namespace
}  // namespace millrace
