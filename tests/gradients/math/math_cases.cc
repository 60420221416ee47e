// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

namespace millrace {
namespace {

constexpr DataType kInt32 = DataType::kInt32;

std::vector<GradientCase> UnaryMathCases() {
  struct Row {
    const char* op;
    double low, high;
    bool both_signs = false;
    bool second = true;
  };
  constexpr Row kRows[] = {
      {"Abs", 0.3, 2, true},
      {"Acos", -0.8, 0.8},
      {"Acosh", 1.3, 3},
      {"Asin", -0.8, 0.8},
      {"Asinh", -2, 2},
      {"Atan", -2, 2},
      {"Atanh", -0.8, 0.8},
      {"Cos", -2, 2},
      {"Cosh", -2, 2},
      {"Erf", -2, 2},
      {"Erfc", -2, 2},
      {"Exp", -2, 2},
      {"Expm1", -2, 2},
      {"Inv", 0.5, 2, true},
      {"Lgamma", 0.5, 4, false, false},  // the derivative of its derivative needs an op that does not exist
      {"Log", 0.4, 3},
      {"Log1p", -0.5, 2},
      {"Neg", -2, 2},
      {"Reciprocal", 0.5, 2, true},
      {"Rsqrt", 0.4, 3},
      {"Sign", 0.4, 3, true, false},  // its gradient is zero, which has no gradient
      {"Sigmoid", -2, 2},
      {"Sin", -2, 2},
      {"Sinh", -2, 2},
      {"Sqrt", 0.4, 3},
      {"Square", -2, 2},
      {"Tan", -1, 1},
      {"Tanh", -2, 2},
  };
  std::vector<GradientCase> cases;
  for (const Row& row : kRows) {
    const TensorShape shape({2, 3});
    cases.push_back(OneOp(
        row.op, {row.both_signs ? BothSigns(shape, row.low, row.high) : Values(shape, row.low, row.high)}));
    cases.back().second = row.second;
  }
  // Ops that compute gradients, as functions of both of their inputs.
  for (const char* op : {"InvGrad", "ReciprocalGrad", "RsqrtGrad", "SigmoidGrad", "SqrtGrad", "TanhGrad"}) {
    cases.push_back(OneOp(op, {Values({2, 3}, 0.4, 2), Values({2, 3}, -2, 2, 5)}));
  }
  cases.push_back(OneOp("Cast", {Values({2, 3})}, {{"DstT", DataType::kDouble}}));
  cases.push_back({.op = "Cast", .label = "through float", .xs = {Values({2, 3})}, .ys = [](auto&, auto& x) {
                     return std::vector<Expr>{
                         CastTo(2.0 * CastTo(x[0], DataType::kFloat), DataType::kDouble)};
                   }});
  cases.back().delta = 0.25;
  return cases;
}
const GradientCaseList kUnaryMathCases(UnaryMathCases);

std::vector<GradientCase> BinaryMathCases() {
  struct Row {
    const char* op;
    double low, high;
    bool both_signs = false;
  };
  constexpr Row kRows[] = {
      {"Add", -2, 2},
      {"AddV2", -2, 2},
      {"Atan2", 0.5, 2, true},
      {"Div", 0.5, 2, true},
      {"DivNoNan", 0.5, 2, true},
      {"Xdivy", 0.5, 2, true},
      {"Xlogy", 0.5, 2},
      {"FloorMod", 0.5, 2},
      {"Maximum", -2, 2},
      {"Minimum", -2, 2},
      {"Mod", 0.5, 2},
      {"Mul", -2, 2},
      {"Pow", 0.5, 2},
      {"RealDiv", 0.5, 2, true},
      {"SquaredDifference", -2, 2},
      {"Sub", -2, 2},
      {"TruncateMod", 0.5, 2},
  };
  const std::pair<TensorShape, TensorShape> kShapes[] = {
      {{2, 3}, {2, 3}},        {{2, 3}, {3}},
      {{3}, {2, 3}},           {TensorShape(), {2, 3}},
      {{2, 3}, TensorShape()}, {{2, 1}, {1, 3}},
      {{2, 1, 3}, {4, 1}},     {{0, 3}, {3}},
      {{1}, TensorShape()},    {TensorShape(), TensorShape()},
  };
  std::vector<GradientCase> cases;
  for (const Row& row : kRows) {
    for (const auto& [a, b] : kShapes) {
      const auto values = [&](const TensorShape& shape, int seed) {
        return row.both_signs ? BothSigns(shape, row.low, row.high, seed)
                              : Values(shape, row.low, row.high, seed);
      };
      cases.push_back(OneOp(row.op, {values(a, 1), values(b, 4)}));
      cases.back().label = StrCat(a, b);
    }
    cases.push_back({.op = row.op,
                     .label = "of one tensor",
                     .xs = {Values({2}, 0.6, 2)},
                     .ys = [op = row.op](auto&, auto& x) {
                       return std::vector<Expr>{Op(op, {x[0], 1.5 * x[0]})};
                     }});
  }
  cases.push_back({.op = "Mul", .label = "by itself", .xs = {Values({2, 3})}, .ys = [](auto&, auto& x) {
                     return std::vector<Expr>{x[0] * x[0]};
                   }});
  // 0^y is constant in y; with these exponents the derivative in x exists, too.
  cases.push_back({.op = "Pow",
                   .label = "of zero",
                   .xs = {Tensor::Vector<double>({0, 0}), Tensor::Vector<double>({2, 3})},
                   .ys =
                       [](auto&, auto& x) {
                         return std::vector<Expr>{Op("Pow", {x[0], x[1]})};
                       },
                   .second = false,
                   .tolerance = 1e-4});
  cases.push_back({.op = "Pow",
                   .label = "of negative base",
                   .xs = {Tensor::Vector<double>({-1.5, -0.5})},
                   .ys = [](auto&, auto& x) {
                     return std::vector<Expr>{Op("Pow", {x[0], ScalarLike(x[0], 3)})};
                   }});
  cases.push_back({.op = "AddN",
                   .label = "",
                   .xs = {Values({2, 3}), Values({2, 3}, -1, 1, 2), Values({2, 3}, -1, 1, 3)},
                   .ys = [](auto&, auto& x) { return std::vector<Expr>{Op("AddN", {Operand(x)})}; }});
  for (const bool rows : {false, true}) {
    cases.push_back({.op = "Select",
                     .label = rows ? "of rows" : "of elements",
                     .xs = {Values({2, 2}), Values({2, 2}, -1, 1, 2)},
                     .ys = [rows](GraphBuilder& b, auto& x) {
                       const TensorShape shape = rows ? TensorShape({2}) : TensorShape({2, 2});
                       const auto flags = rows ? std::vector<bool>{true, false}
                                               : std::vector<bool>{true, false, false, true};
                       Tensor condition(DataType::kBool, shape);
                       for (size_t i = 0; i < flags.size(); ++i) condition.data<bool>()[i] = flags[i];
                       return std::vector<Expr>{Where(Expr(b, b.Constant(condition)), x[0], x[1])};
                     }});
  }
  return cases;
}
const GradientCaseList kBinaryMathCases(BinaryMathCases);

std::vector<GradientCase> MatMulCases() {
  std::vector<GradientCase> cases;
  const auto sides = [](bool transpose, int64_t rows, int64_t columns) {
    return transpose ? TensorShape({columns, rows}) : TensorShape({rows, columns});
  };
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const TensorShape a = sides(ta, 2, 3), b = sides(tb, 3, 4);
      const std::string label = StrCat(ta ? "a transposed" : "a plain", tb ? " b transposed" : " b plain");
      cases.push_back(
          OneOp("MatMul", {Values(a), Values(b, -1, 1, 2)}, {{"transpose_a", ta}, {"transpose_b", tb}}));
      cases.back().label = label;
      const auto batch = [](TensorShape shape) {
        shape.InsertDim(0, 2);
        return shape;
      };
      const AttrMap adjoint = {{"adj_x", ta}, {"adj_y", tb}};
      cases.push_back(OneOp("BatchMatMul", {Values(batch(a)), Values(batch(b), -1, 1, 2)}, adjoint));
      cases.back().label = label;
      cases.push_back(
          OneOp("BatchMatMul", {ComplexValues(batch(a)), ComplexValues(batch(b), -1.5, 1.5, 2)}, adjoint));
      cases.back().label = label + " complex";
      cases.push_back(OneOp("BatchMatMulV2", {Values(batch(a)), Values(batch(b), -1, 1, 2)}, adjoint));
      cases.back().label = label;
      cases.push_back(OneOp("BatchMatMulV2", {Values(a), Values(batch(b), -1, 1, 2)}, adjoint));
      cases.back().label = label + " first repeated";
      cases.push_back(
          OneOp("BatchMatMulV2", {ComplexValues(batch(a)), ComplexValues(b, -1.5, 1.5, 2)}, adjoint));
      cases.back().label = label + " second repeated";
    }
  }
  cases.push_back(OneOp("MatMul", {Values({0, 3}), Values({3, 2})}));
  cases.back().label = "of nothing";
  cases.push_back(OneOp("MatMul", {Values({2, 0}), Values({0, 2})}));
  cases.back().label = "over nothing";
  return cases;
}
const GradientCaseList kMatMulCases(MatMulCases);

std::vector<GradientCase> ReductionCases() {
  std::vector<GradientCase> cases;
  const std::vector<std::vector<int64_t>> kAxes = {{0}, {1}, {0, 2}, {-1}, {0, 1, 2}, {}, {2, 0}};
  for (const char* op : {"Sum", "Mean", "Max", "Min", "Prod"}) {
    for (const auto& axes : kAxes) {
      for (const bool keep_dims : {false, true}) {
        for (const bool fed : {false, true}) {
          GradientCase c{.op = op, .label = "", .xs = {Values({2, 3, 2})}, .ys = {}};
          for (const int64_t axis : axes) c.label += StrCat("axis", axis);
          c.label += StrCat(keep_dims ? " kept" : "", fed ? " axes not known" : "");
          c.ys = [op, axes, keep_dims, fed](GraphBuilder& b,
                                            const std::vector<Expr>& x) -> std::vector<Expr> {
            Expr a = Vector(b, kInt32, axes);
            // A value that is unknown to static analysis.
            if (fed) a = a + CastTo(0.0 * Op("Size", x[0]), kInt32);
            return {Op(op, {x[0], a}, {{"keep_dims", keep_dims}})};
          };
          cases.push_back(std::move(c));
        }
      }
    }
    const Tensor zero_axis = Tensor::Scalar<int32_t>(0);
    for (const TensorShape& shape : {TensorShape({0, 2}), TensorShape({3})}) {
      if (shape.num_elements() == 0 && op[0] == 'M') continue;  // no mean, minimum or maximum of no elements
      cases.push_back({.op = op,
                       .label = StrCat("scalar axis of ", shape),
                       .xs = {Values(shape)},
                       .ys = [op, zero_axis](GraphBuilder& b, auto& x) {
                         return std::vector<Expr>{Op(op, {x[0], Expr(b, b.Constant(zero_axis))})};
                       }});
    }
    cases.push_back({.op = op,
                     .label = "of a scalar",
                     .xs = {Values(TensorShape())},
                     .ys = [op](GraphBuilder& b, auto& x) {
                       return std::vector<Expr>{Op(op, {x[0], Vector(b, kInt32, {})})};
                     }});
  }
  cases.push_back({.op = "Prod",
                   .label = "with zeros",
                   .xs = {Tensor::From<double>({0, 2, 3, 0, 0, 4, 1, 2, 3}, TensorShape({3, 3}))},
                   .ys =
                       [](GraphBuilder& b, auto& x) {
                         return std::vector<Expr>{Op("Prod", {x[0], Vector(b, kInt32, {1})})};
                       },
                   .second = false});
  for (const char* op : {"Cumsum", "Cumprod"}) {
    for (const int axis : {0, 1, -1}) {
      for (const bool exclusive : {false, true}) {
        for (const bool reverse : {false, true}) {
          cases.push_back(
              {.op = op,
               .label = StrCat("axis", axis, exclusive ? " exclusive" : "", reverse ? " reverse" : ""),
               .xs = {BothSigns({3, 2})},
               .ys = [=](GraphBuilder& b, auto& x) {
                 return std::vector<Expr>{Op(op, {x[0], Scalar(b, kInt32, axis)},
                                             {{"exclusive", exclusive}, {"reverse", reverse}})};
               }});
        }
      }
    }
  }
  return cases;
}
const GradientCaseList kReductionCases(ReductionCases);

std::vector<GradientCase> SegmentCases() {
  std::vector<GradientCase> cases;
  const auto add = [&](const char* op, const char* label, const Tensor& x, const std::vector<int64_t>& ids,
                       DataType type) {
    cases.push_back({.op = op, .label = label, .xs = {x}, .ys = [=](GraphBuilder& b, auto& e) {
                       return std::vector<Expr>{Op(op, {e[0], Vector(b, type, ids)})};
                     }});
  };
  for (const char* op : {"SegmentMax", "SegmentMean", "SegmentMin", "SegmentProd", "SegmentSum"}) {
    add(op, "of rows", Values({5, 2}), {0, 0, 1, 1, 1}, kInt32);
    add(op, "of numbers with a gap", Values({4}), {0, 2, 2, 3}, DataType::kInt64);
    add(op, "of cubes", Values({3, 2, 2}), {0, 0, 1}, kInt32);
  }
  add("SegmentProd", "with zeros", Tensor::Vector<double>({0, 2, 3, 0, 0, 4, 1, 2}), {0, 0, 0, 1, 1, 1, 2, 2},
      kInt32);
  cases.back().second = false;
  const auto unsorted = [&](const char* label, const Tensor& x, const Tensor& ids) {
    cases.push_back(
        {.op = "UnsortedSegmentSum", .label = label, .xs = {x}, .ys = [=](GraphBuilder& b, auto& e) {
           return std::vector<Expr>{
               Op("UnsortedSegmentSum", {e[0], Expr(b, b.Constant(ids)), Scalar(b, kInt32, 3)})};
         }});
  };
  unsorted("of rows", Values({4, 2}), Tensor::Vector<int32_t>({2, 0, 2, 1}));
  unsorted("some dropped", Values({4, 2}), Tensor::Vector<int32_t>({2, -1, 2, -1}));
  unsorted("of numbers some dropped", Values({3}), Tensor::Vector<int64_t>({1, -1, 1}));
  unsorted("ids of rank 2", Values({2, 2, 2}), Tensor::From<int32_t>({0, 2, 2, -1}, TensorShape({2, 2})));
  return cases;
}
const GradientCaseList kSegmentCases(SegmentCases);

}  // namespace
}  // namespace millrace
