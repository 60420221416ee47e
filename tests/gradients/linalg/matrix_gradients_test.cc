// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Gradients that can only be built if the sizes of the matrices are known.
#include <gtest/gtest.h>

#include "autodiff/graph_builder.h"
#include "cases.h"
#include "gradient_checker.h"
#include "op/op_registry.h"

namespace millrace {
namespace {

using Exprs = std::vector<Expr>;

StatusOr<double> Check(const std::vector<Tensor>& values, bool known,
                       const std::function<Exprs(GraphBuilder&, const Exprs&)>& fn) {
  Graph graph(OpRegistry::Global());
  ShapeRefiner shapes(graph);
  GraphBuilder builder(graph, shapes);
  std::vector<Point> points;
  Exprs xs;
  for (const Tensor& x : values) {
    const PartialShape shape = known ? PartialShape(x.shape()) : PartialShape();
    xs.emplace_back(builder,
                    Output{builder.Add("Placeholder", {}, {{"dtype", x.dtype()}, {"shape", shape}}, "x"), 0});
    points.push_back({xs.back().output(), x});
  }
  std::vector<Output> ys;
  for (const Expr& y : fn(builder, xs)) ys.push_back(y.output());
  MR_RETURN_IF_ERROR(builder.status());
  CheckOptions options;
  options.second = false;
  return MaxGradientError(graph, points, ys, options);
}

Exprs LeastSquares(GraphBuilder& b, const Exprs& x) {
  return {Op("MatrixSolveLs", {x[0], x[1], Scalar(b, DataType::kDouble, 0.3)})};
}

TEST(MatrixGradientTest, LeastSquares) {
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>(4, 2), {2, 4}, {3, 3}}) {
    const auto error = Check({Values({2, m, n}), Values({2, m, 2}, -1, 1, 3)}, true, LeastSquares);
    ASSERT_TRUE(error.ok()) << error.status();
    EXPECT_LT(*error, 1e-6) << m << " x " << n;
  }
  EXPECT_EQ(Check({Values({2, 2}), Values({2, 1})}, false, LeastSquares).status().code(),
            ErrorCode::kUnimplemented);
}

// The product of the three outputs' parts that does not depend on the signs of the vectors.
Exprs SignFree(const Expr& s) {
  const Expr u = s.Sibling(1), v = s.Sibling(2);
  const Expr weighted = u * ExpandDims(Op("Square", s), -2);
  Exprs out = {s, Op("BatchMatMul", {weighted, u}, {{"adj_y", true}}), Op("Square", v)};
  return out;
}

TEST(MatrixGradientTest, SingularVectors) {
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>(3, 3), {4, 2}, {2, 4}}) {
    const auto error = Check({Values({2, m, n})}, true,
                             [](GraphBuilder&, const Exprs& x) { return SignFree(Op("Svd", {x[0]})); });
    ASSERT_TRUE(error.ok()) << error.status();
    EXPECT_LT(*error, 1e-5) << m << " x " << n;
    const auto values = Check({Values({2, m, n})}, true, [](GraphBuilder&, const Exprs& x) {
      return Exprs{Op("Svd", {x[0]}, {{"compute_uv", false}})};
    });
    ASSERT_TRUE(values.ok()) << values.status();
    EXPECT_LT(*values, 1e-6) << m << " x " << n;
  }
  const auto full = Check({Values({3, 2})}, true, [](GraphBuilder&, const Exprs& x) {
    const Expr s = Op("Svd", {x[0]}, {{"full_matrices", true}});
    return Exprs{s, Op("Square", s.Sibling(1)), Op("Square", s.Sibling(2))};
  });
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_LT(*full, 1e-5);
}

}  // namespace
}  // namespace millrace
