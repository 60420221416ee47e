// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Special functions, and other element-wise functions added after TensorFlow 1.2.
#include "cases.h"

namespace millrace {
namespace {

using Exprs = std::vector<Expr>;

// A function of its last argument; the others are constants.
GradientCase OfLast(const char* op, std::vector<Tensor> constants, Tensor x) {
  return {.op = op, .label = "", .xs = {std::move(x)}, .ys = [op, constants](GraphBuilder& b, auto& xs) {
            std::vector<InputArg> inputs;
            inputs.reserve(constants.size() + 1);
            for (const Tensor& t : constants) inputs.push_back({{b.Constant(t)}, false});
            inputs.push_back({{xs[0].output()}, false});
            return std::vector<Expr>{Expr(b, {b.Add(op, std::move(inputs), {}), 0})};
          }};
}

GradientCase First(GradientCase c) {
  c.second = false;
  return c;
}

Tensor Flags() {
  Tensor t(DataType::kBool, TensorShape({3}));
  for (int i = 0; i < 3; ++i) t.data<bool>()[i] = i != 1;
  return t;
}

Expr Constant(GraphBuilder& b, const Tensor& t) { return Expr(b, b.Constant(t)); }
Tensor Ints(const std::vector<int32_t>& values) { return Tensor::Vector<int32_t>(values); }

std::vector<GradientCase> SumCases() {
  std::vector<GradientCase> cases;
  const auto add = [&](const char* op, const char* label, std::vector<Tensor> xs,
                       std::function<Expr(GraphBuilder&, const Exprs&)> y) {
    cases.push_back(
        {.op = op, .label = label, .xs = std::move(xs), .ys = [y](GraphBuilder& b, const Exprs& x) {
           return Exprs{y(b, x)};
         }});
  };
  const Tensor x = Values({2, 3});
  add("AccumulateNV2", "", {x, Values({2, 3}, -1, 1, 2)}, [](GraphBuilder&, const Exprs& e) {
    return Op("AccumulateNV2", {Operand(e)}, {{"shape", PartialShape(std::vector<int64_t>{2, 3})}});
  });
  for (const char* op : {"UnsortedSegmentMax", "UnsortedSegmentMin", "UnsortedSegmentProd"}) {
    add(op, "of rows", {Values({5, 2})}, [op](GraphBuilder& b, const Exprs& e) {
      return Op(op, {e[0], Constant(b, Ints({2, 0, -1, 2, 1})), Scalar(b, DataType::kInt32, 3)});
    });
    add(op, "of elements", {Values({2, 2})}, [op](GraphBuilder& b, const Exprs& e) {
      const Expr ids = Reshape(Constant(b, Ints({1, 0, 1, -1})), Constant(b, Ints({2, 2})));
      return Op(op, {e[0], ids, Scalar(b, DataType::kInt32, 2)});
    });
    cases[cases.size() - 1].second = cases[cases.size() - 2].second =
        op != std::string_view("UnsortedSegmentProd");
  }
  for (const bool keep : {false, true}) {
    add("EuclideanNorm", keep ? "kept" : "", {x}, [keep](GraphBuilder& b, const Exprs& e) {
      return Op("EuclideanNorm", {e[0], Constant(b, Ints({1}))}, {{"keep_dims", keep}});
    });
  }
  for (const bool reverse : {false, true}) {
    for (const bool exclusive : {false, true}) {
      add("CumulativeLogsumexp", "", {x}, [=](GraphBuilder& b, const Exprs& e) {
        const Expr sums = Op("CumulativeLogsumexp", {e[0], Scalar(b, DataType::kInt32, 1)},
                             {{"reverse", reverse}, {"exclusive", exclusive}});
        return Op("Exp", sums);  // the sum of no elements is e^lowest
      });
      cases.back().label = StrCat(reverse ? "reverse" : "", exclusive ? "exclusive" : "");
      cases.back().second = false;
    }
  }
  return cases;
}
const GradientCaseList kSumCases(SumCases);

// Cases of floats, whose differences are coarse; the product is linear in each factor.
void AddSparseMatMulCases(std::vector<GradientCase>* cases) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const Tensor a = Values(ta ? TensorShape({3, 2}) : TensorShape({2, 3}));
      const Tensor b = Values(tb ? TensorShape({2, 3}) : TensorShape({3, 2}), -1, 1, 2);
      cases->push_back({.op = "SparseMatMul",
                        .label = StrCat(ta ? "aT " : "a ", tb ? "bT" : "b"),
                        .xs = {a, b},
                        .ys =
                            [=](GraphBuilder&, const Exprs& e) {
                              const Expr y =
                                  Op("SparseMatMul",
                                     {CastTo(e[0], DataType::kFloat), CastTo(e[1], DataType::kFloat)},
                                     {{"transpose_a", ta}, {"transpose_b", tb}});
                              return Exprs{CastTo(y, DataType::kDouble)};
                            },
                        .tolerance = 1e-3,
                        .delta = 1e-2});
    }
  }
}

std::vector<GradientCase> SpecialMathCases() {
  std::vector<GradientCase> cases;
  AddSparseMatMulCases(&cases);
  const TensorShape shape({2, 3});
  cases.push_back(First(OneOp("Igamma", {Values(shape, 0.5, 4), Values({3}, 0.5, 5, 2)})));
  cases.push_back(First(OneOp("Igammac", {Values({3}, 0.5, 4), Values(shape, 0.5, 5, 2)})));
  cases.push_back(
      OfLast("Betainc", {Values(shape, 0.5, 4), Values(shape, 0.5, 4, 2)}, Values(shape, 0.1, 0.9, 3)));
  cases.push_back(OfLast("Betainc", {Tensor::Scalar(2.5), Tensor::Scalar(1.5)}, Values(shape, 0.1, 0.9, 3)));
  cases.back().label = "scalars";
  cases.push_back(OfLast("Polygamma", {Tensor::Vector<double>({0, 1, 2})}, Values(shape, 0.7, 3)));
  cases.push_back(OfLast("Zeta", {Tensor::Vector<double>({2, 2.5, 4})}, Values(shape, 0.7, 3)));
  cases.push_back(OneOp("Digamma", {Values(shape, 0.7, 3)}));
  cases.push_back(OneOp("BesselI0e", {BothSigns(shape)}));
  cases.push_back(OneOp("BesselI1e", {BothSigns(shape)}));
  cases.push_back(OneOp("MulNoNan", {Values(shape), Values({3}, 0.5, 2, 3)}));
  cases.push_back(OneOp("NextAfter", {Values(shape), Values({3}, 5, 6)}));
  cases.push_back(OneOp("ClipByValue", {Values(shape, -2, 2), Tensor::Scalar(-1.05), Tensor::Scalar(0.83)}));
  cases.push_back(
      OneOp("ClipByValue", {Values(shape, -2, 2), Values(shape, -1.2, -1, 4), Values(shape, 0.7, 1, 5)}));
  cases.back().label = "bounds of its shape";
  for (const auto& [a, b] : {std::pair(shape, shape), std::pair(TensorShape({2, 1}), TensorShape()),
                             std::pair(TensorShape({3}), TensorShape({2, 1}))}) {
    cases.push_back({.op = "SelectV2",
                     .label = StrCat(a, b),
                     .xs = {Values(a), Values(b, -1, 1, 2)},
                     .ys = [](GraphBuilder& builder, auto& x) {
                       const Expr pick(builder, builder.Constant(Flags()));
                       return std::vector<Expr>{Op("SelectV2", {pick, x[0], x[1]})};
                     }});
  }
  return cases;
}
const GradientCaseList kSpecialMathCases(SpecialMathCases);

}  // namespace
}  // namespace millrace
