// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

namespace millrace {
namespace {

using Exprs = std::vector<Expr>;
using Fn = std::function<Expr(GraphBuilder&, const Exprs&)>;
constexpr DataType kInt32 = DataType::kInt32;

Exprs AllOutputs(const Expr& first) {
  Exprs outputs;
  for (int i = 0; first.IsSet() && i < first.output().node->num_outputs(); ++i)
    outputs.push_back(first.Sibling(i));
  return outputs;
}
GradientCase Case(const char* op, const std::string& label, std::vector<Tensor> xs, Fn fn) {
  return {.op = op, .label = label, .xs = std::move(xs), .ys = [fn](GraphBuilder& b, const Exprs& x) {
            return AllOutputs(fn(b, x));
          }};
}
Tensor Other(const TensorShape& shape) { return Values(shape, -1, 1, 3); }

// x x^H + 2, which has a square root of any kind.
Expr Positive(const Expr& x) {
  const Expr product = Op("BatchMatMul", {x, x}, {{"adj_y", true}});
  return Op("MatrixSetDiag", {product, Op("MatrixDiagPart", product) + 2.0});
}

void AddFactors(std::vector<GradientCase>* cases) {
  for (const Tensor& x : {Values({2, 3, 3}), ComplexValues({2, 2, 2})}) {
    const std::string label = x.dtype() == DataType::kDouble ? "" : "complex";
    const auto of_positive = [&](const char* op) {
      cases->push_back(
          Case(op, label, {x}, [op](GraphBuilder&, const Exprs& e) { return Op(op, Positive(e[0])); }));
    };
    of_positive("Cholesky");
    of_positive("MatrixSquareRoot");
    for (const char* op : {"MatrixDeterminant", "BatchMatrixDeterminant"})
      cases->push_back(Case(op, label, {x}, [op](GraphBuilder&, const Exprs& e) { return Op(op, e[0]); }));
    if (label.empty()) {
      of_positive("BatchCholesky");
      of_positive("LogMatrixDeterminant");
      cases->push_back(Case("Qr", label, {x}, [](GraphBuilder&, const Exprs& e) { return Op("Qr", e[0]); }));
    }
  }
  cases->push_back(Case("SelfAdjointEigV2", "values", {Values({2, 3, 3})}, [](GraphBuilder&, const Exprs& e) {
    return Op("SelfAdjointEigV2", {Positive(e[0])}, {{"compute_v", false}});
  }));
  // Values and vectors; squares of these, as the sign of a vector is arbitrary.
  cases->push_back(Case("SelfAdjointEigV2", "vectors", {Values({3, 3})}, [](GraphBuilder&, const Exprs& e) {
    const Expr values = Op("SelfAdjointEigV2", Positive(e[0])), v = values.Sibling(1);
    return Op("Mul", {Op("Square", v), ExpandDims(values, 0)});
  }));
}

void AddSystems(std::vector<GradientCase>* cases) {
  for (const bool adjoint : {false, true}) {
    const AttrMap attrs = {{"adjoint", adjoint}};
    const std::string label = adjoint ? "adjoint" : "";
    for (const char* op : {"MatrixInverse", "BatchMatrixInverse"}) {
      cases->push_back(Case(op, label, {Values({2, 2, 2})},
                            [=](GraphBuilder&, const Exprs& e) { return Op(op, {Positive(e[0])}, attrs); }));
    }
    cases->push_back(Case("MatrixInverse", label + " complex", {ComplexValues({2, 2})},
                          [=](GraphBuilder&, const Exprs& e) { return Op("MatrixInverse", {e[0]}, attrs); }));
    for (const char* op : {"MatrixSolve", "BatchMatrixSolve"}) {
      cases->push_back(
          Case(op, label, {Values({2, 2, 2}), Other({2, 2, 3})}, [=](GraphBuilder&, const Exprs& e) {
            return Op(op, {Positive(e[0]), e[1]}, attrs);
          }));
    }
    cases->push_back(Case("MatrixSolve", label + " complex",
                          {ComplexValues({2, 2}), ComplexValues({2, 1}, -1, 1, 3)},
                          [=](GraphBuilder&, const Exprs& e) {
                            return Op("MatrixSolve", {e[0], e[1]}, attrs);
                          }));
    for (const bool lower : {false, true}) {
      const AttrMap both = {{"adjoint", adjoint}, {"lower", lower}};
      for (const char* op : {"MatrixTriangularSolve", "BatchMatrixTriangularSolve"}) {
        cases->push_back(Case(op, label + (lower ? " lower" : " upper"),
                              {Values({2, 3, 3}, 0.5, 2), Other({2, 3, 2})},
                              [=](GraphBuilder&, const Exprs& e) {
                                return Op(op, {e[0], e[1]}, both);
                              }));
      }
    }
  }
  cases->push_back(Case("TridiagonalMatMul", "",
                        {Values({2, 1, 4}), Other({2, 1, 4}), Values({2, 1, 4}, -1, 2, 5), Other({2, 4, 3})},
                        [](GraphBuilder&, const Exprs& e) {
                          return Op("TridiagonalMatMul", {e[0], e[1], e[2], e[3]});
                        }));
  for (const bool pivots : {false, true}) {
    cases->push_back(Case("TridiagonalSolve", pivots ? "pivoting" : "",
                          {Values({2, 3, 4}, 0.5, 1.5), Other({2, 4, 2})},
                          [=](GraphBuilder&, const Exprs& e) {
                            return Op("TridiagonalSolve", {e[0], e[1]}, {{"partial_pivoting", pivots}});
                          }));
  }
  cases->push_back(Case("TridiagonalSolve", "complex",
                        {ComplexValues({3, 3}, 0.5, 1.5), ComplexValues({3, 1}, -1, 1, 3)},
                        [](GraphBuilder&, const Exprs& e) {
                          return Op("TridiagonalSolve", {e[0], e[1]});
                        }));
}

Tensor Narrow(const Tensor& t) {
  if (t.dtype() == DataType::kDouble) {
    std::vector<float> values;
    for (const double v : t.flat<double>()) values.push_back(static_cast<float>(v));
    return Tensor::From<float>(values, t.shape());
  }
  std::vector<complex64> values;
  for (const complex128 v : t.flat<complex128>()) values.push_back(complex64(v));
  return Tensor::From<complex64>(values, t.shape());
}

void AddTransforms(std::vector<GradientCase>* cases) {
  const auto in_float = [&](GradientCase c) {
    c.tolerance = 5e-3;
    c.delta = 1e-2;
    cases->push_back(std::move(c));
  };
  for (const char* op : {"FFT", "IFFT", "FFT2D", "IFFT2D", "FFT3D", "IFFT3D"}) {
    cases->push_back(Case(op, "", {ComplexValues({2, 3, 2})},
                          [op](GraphBuilder&, const Exprs& e) { return Op(op, e[0]); }));
    const std::string batch = StrCat("Batch", op);
    in_float({.op = batch,
              .label = "",
              .xs = {Narrow(ComplexValues({2, 2, 3}))},
              .ys = [batch](GraphBuilder&, const Exprs& e) { return Exprs{Op(batch, e[0])}; }});
  }
  for (const int64_t last : {4, 5}) {
    for (const int dims : {1, 2, 3}) {
      const std::string tail = dims == 1 ? "" : StrCat(dims, "D");
      std::vector<int64_t> lengths = {2, 3, last};
      lengths.erase(lengths.begin(), lengths.end() - dims);
      const auto with_lengths = [lengths](GraphBuilder& b, const std::string& op, const Expr& x) {
        return Exprs{Op(op, {x, Vector(b, kInt32, lengths)})};
      };
      in_float({.op = "RFFT" + tail,
                .label = StrCat(last),
                .xs = {Narrow(Values({2, 3, 6}))},
                .ys = [=](GraphBuilder& b, const Exprs& e) { return with_lengths(b, "RFFT" + tail, e[0]); }});
      in_float(
          {.op = "IRFFT" + tail,
           .label = StrCat(last),
           .xs = {Narrow(ComplexValues({2, 3, 4}))},
           .ys = [=](GraphBuilder& b, const Exprs& e) { return with_lengths(b, "IRFFT" + tail, e[0]); }});
    }
  }
}

std::vector<GradientCase> MatrixCases() {
  std::vector<GradientCase> cases;
  AddFactors(&cases);
  AddSystems(&cases);
  AddTransforms(&cases);
  return cases;
}
const GradientCaseList kMatrixCases(MatrixCases);

}  // namespace
}  // namespace millrace
