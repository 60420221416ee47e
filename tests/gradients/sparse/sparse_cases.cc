// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

namespace millrace {
namespace {

using Exprs = std::vector<Expr>;

Expr Constant(GraphBuilder& b, const Tensor& value) { return Expr(b, b.Constant(value)); }
Tensor Pairs(const std::vector<int64_t>& values) {
  return Tensor::From<int64_t>(values, TensorShape({static_cast<int64_t>(values.size()) / 2, 2}));
}
Tensor Longs(const std::vector<int64_t>& values) { return Tensor::Vector<int64_t>(values); }
Tensor Ints(const std::vector<int32_t>& values) { return Tensor::Vector<int32_t>(values); }

void AddSparseToDenseCases(std::vector<GradientCase>* cases) {
  const auto add = [&](const char* label, const Tensor& indices, const Tensor& shape, const Tensor& values) {
    cases->push_back(
        {.op = "SparseToDense",
         .label = label,
         .xs = {values, Values(TensorShape(), -1, 1, 2)},
         .ys = [=](GraphBuilder& b, const Exprs& x) {
           return Exprs{Op("SparseToDense", {Constant(b, indices), Constant(b, shape), x[0], x[1]})};
         }});
  };
  add("of a matrix", Pairs({0, 1, 1, 0}), Longs({2, 3}), Values({2}));
  add("of a vector", Longs({1, 3}), Longs({5}), Values({2}));
  add("of one place", Tensor::Scalar<int32_t>(1), Ints({3}), Values(TensorShape()));
  add("one value for all", Pairs({0, 1, 1, 0}), Longs({2, 3}), Values(TensorShape()));
  add("of nothing", Pairs({}), Longs({2, 3}), Values({0}));
}

void AddSparseCases(std::vector<GradientCase>* cases) {
  const Tensor x = Values({3});
  cases->push_back(
      {.op = "SparseReorder", .label = "", .xs = {x}, .ys = [](GraphBuilder& b, const Exprs& e) {
         const Expr indices = Constant(b, Pairs({1, 0, 0, 2, 0, 1}));
         return Exprs{Op("SparseReorder", {indices, e[0], Constant(b, Longs({2, 3}))}).Sibling(1)};
       }});
  cases->push_back({.op = "SparseFillEmptyRows",
                    .label = "",
                    .xs = {x, Values(TensorShape(), -1, 1, 2)},
                    .ys = [](GraphBuilder& b, const Exprs& e) {
                      const Expr indices = Constant(b, Pairs({3, 0, 0, 2, 0, 1}));
                      const Expr shape = Constant(b, Longs({5, 3}));
                      return Exprs{Op("SparseFillEmptyRows", {indices, e[0], shape, e[1]}).Sibling(1)};
                    }});
  cases->push_back({.op = "SparseFillEmptyRowsGrad",
                    .label = "",
                    .xs = {Values({5})},
                    .ys = [](GraphBuilder& b, const Exprs& e) {
                      const Expr values = Op("SparseFillEmptyRowsGrad", {Constant(b, Longs({3, 0})), e[0]});
                      return Exprs{values, values.Sibling(1)};
                    }});
  cases->push_back({.op = "SparseSlice", .label = "", .xs = {x}, .ys = [](GraphBuilder& b, const Exprs& e) {
                      const Expr indices = Constant(b, Pairs({0, 0, 1, 2, 3, 1}));
                      const Expr shape = Constant(b, Longs({4, 3})), start = Constant(b, Longs({1, 1}));
                      const Expr size = Constant(b, Longs({9, 2}));
                      return Exprs{Op("SparseSlice", {indices, e[0], shape, start, size}).Sibling(1)};
                    }});
}

// Sparse matrices and vectors with partly equal indices.
void AddSumCases(std::vector<GradientCase>* cases) {
  const Tensor x = Values({3}), y = Values({3}, -1.3, 1.4, 2);
  const Tensor a = Pairs({0, 1, 1, 0, 1, 2}), other = Pairs({0, 0, 1, 0, 1, 2}), shape = Longs({2, 3});
  cases->push_back({.op = "SparseAdd",
                    .label = "",
                    .xs = {x, y},
                    .ys =
                        [=](GraphBuilder& b, const Exprs& e) {
                          const Expr size = Constant(b, shape);
                          return Exprs{Op("SparseAdd", {Constant(b, a), e[0], size, Constant(b, other), e[1],
                                                        size, Constant(b, Tensor::Scalar<double>(0))})
                                           .Sibling(1)};
                        },
                    .second = false});
  for (const char* op : {"SparseSparseMaximum", "SparseSparseMinimum"}) {
    cases->push_back(
        {.op = op,
         .label = "",
         .xs = {x, y},
         .ys =
             [=](GraphBuilder& b, const Exprs& e) {
               const Expr size = Constant(b, shape);
               return Exprs{Op(op, {Constant(b, a), e[0], size, Constant(b, other), e[1], size}).Sibling(1)};
             },
         .second = false});
  }
  cases->push_back(
      {.op = "SparseTensorDenseAdd",
       .label = "",
       .xs = {x, Values({2, 3}, -1, 1, 3)},
       .ys = [=](GraphBuilder& b, const Exprs& e) {
         return Exprs{Op("SparseTensorDenseAdd", {Constant(b, a), e[0], Constant(b, shape), e[1]})};
       }});
  const auto sum = [&](const char* label, const Tensor& axes, bool keep_dims) {
    cases->push_back(
        {.op = "SparseReduceSum", .label = label, .xs = {x}, .ys = [=](GraphBuilder& b, const Exprs& e) {
           return Exprs{Op("SparseReduceSum", {Constant(b, a), e[0], Constant(b, shape), Constant(b, axes)},
                           {{"keep_dims", keep_dims}})};
         }});
  };
  sum("rows", Ints({-1}), false);
  sum("columns", Tensor::Scalar<int32_t>(0), true);
  sum("all", Ints({0, 1}), false);
  sum("nothing", Ints({}), false);
  cases->push_back(
      {.op = "SparseSoftmax", .label = "", .xs = {x}, .ys = [=](GraphBuilder& b, const Exprs& e) {
         return Exprs{Op("SparseSoftmax", {Constant(b, a), e[0], Constant(b, shape)})};
       }});
  for (const char* op : {"SparseDenseCwiseAdd", "SparseDenseCwiseDiv", "SparseDenseCwiseMul"}) {
    for (const TensorShape& dense :
         {TensorShape({2, 3}), TensorShape({3}), TensorShape({2, 1}), TensorShape()}) {
      cases->push_back({.op = op,
                        .label = dense.ToString(),
                        .xs = {x, Values(dense, 0.5, 1.5, 3)},
                        .ys = [=](GraphBuilder& b, const Exprs& e) {
                          return Exprs{Op(op, {Constant(b, a), e[0], Constant(b, shape), e[1]})};
                        }});
    }
  }
}

void AddProductCases(std::vector<GradientCase>* cases) {
  for (const bool adjoint_a : {false, true}) {
    for (const bool adjoint_b : {false, true}) {
      for (const bool is_complex : {false, true}) {
        const auto values = [&](const TensorShape& shape, int seed) {
          return is_complex ? ComplexValues(shape, -1.5, 1.5, seed) : Values(shape, -1.5, 1.5, seed);
        };
        const int64_t inner = adjoint_a ? 2 : 3;
        const TensorShape b_shape = adjoint_b ? TensorShape({4, inner}) : TensorShape({inner, 4});
        cases->push_back(
            {.op = "SparseTensorDenseMatMul",
             .label = StrCat(adjoint_a ? "aH " : "a ", adjoint_b ? "bH" : "b", is_complex ? " complex" : ""),
             .xs = {values({3}, 1), values(b_shape, 2)},
             .ys = [=](GraphBuilder& b, const Exprs& x) {
               const Expr indices = Constant(b, Pairs({0, 1, 1, 0, 1, 2}));
               return Exprs{Op("SparseTensorDenseMatMul", {indices, x[0], Constant(b, Longs({2, 3})), x[1]},
                               {{"adjoint_a", adjoint_a}, {"adjoint_b", adjoint_b}})};
             }});
      }
    }
  }
}

void AddSparseSegmentCases(std::vector<GradientCase>* cases) {
  for (const char* op : {"SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN"}) {
    for (const bool counted : {false, true}) {
      const std::string name = counted ? StrCat(op, "WithNumSegments") : std::string(op);
      cases->push_back(
          {.op = name, .label = "", .xs = {Values({4, 2})}, .ys = [=](GraphBuilder& b, const Exprs& e) {
             const Expr indices = Constant(b, Ints({3, 1, 1, 0})), ids = Constant(b, Ints({0, 0, 0, 2}));
             if (!counted) return Exprs{Op(name, {e[0], indices, ids})};
             return Exprs{Op(name, {e[0], indices, ids, Scalar(b, DataType::kInt32, 5)})};
           }});
    }
  }
  for (const char* op : {"SparseSegmentMeanGrad", "SparseSegmentSqrtNGrad"}) {
    cases->push_back(
        {.op = op, .label = "", .xs = {Values({4, 2})}, .ys = [=](GraphBuilder& b, const Exprs& e) {
           const Expr indices = Constant(b, Ints({3, 1, 1, 0})), ids = Constant(b, Ints({0, 0, 0, 2}));
           return Exprs{Op(op, {e[0], indices, ids, Scalar(b, DataType::kInt32, 5)})};
         }});
  }
}

std::vector<GradientCase> SparseCases() {
  std::vector<GradientCase> cases;
  AddSparseToDenseCases(&cases);
  AddSparseCases(&cases);
  AddSumCases(&cases);
  AddProductCases(&cases);
  AddSparseSegmentCases(&cases);
  return cases;
}
const GradientCaseList kSparseCases(SparseCases);

}  // namespace
}  // namespace millrace
