// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

namespace millrace {
namespace {

using Exprs = std::vector<Expr>;

// The cells compute in float, so that differences are less exact.
Tensor Floats(const TensorShape& shape, int seed) {
  const Tensor doubles = Values(shape, -0.9, 0.9, seed);
  std::vector<float> values;
  for (const double v : doubles.flat<double>()) values.push_back(static_cast<float>(v));
  return Tensor::From<float>(values, shape);
}
GradientCase InFloat(std::string op, std::string label, std::vector<Tensor> xs,
                     std::function<Exprs(GraphBuilder&, const Exprs&)> ys) {
  return {.op = std::move(op),
          .label = std::move(label),
          .xs = std::move(xs),
          .ys = std::move(ys),
          .second = false,
          .tolerance = 3e-3,
          .delta = 1e-2};
}

void AddLstm(std::vector<GradientCase>* cases) {
  const std::vector<Tensor> weights = {Floats({2, 2}, 2), Floats({2, 2}, 3), Floats({5, 8}, 4),
                                       Floats({2}, 5),    Floats({2}, 6),    Floats({2}, 7),
                                       Floats({8}, 8)};
  for (const bool peephole : {false, true}) {
    const AttrMap attrs = {{"use_peephole", peephole}};
    const std::string label = peephole ? "peephole" : "";
    std::vector<Tensor> xs = {Floats({2, 3}, 1)};
    xs.insert(xs.end(), weights.begin(), weights.end());
    cases->push_back(InFloat("LSTMBlockCell", label, xs, [=](GraphBuilder&, const Exprs& x) {
      const Expr i = Op("LSTMBlockCell", {x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]}, attrs);
      return Exprs{i.Sibling(1), i.Sibling(6)};
    }));
    xs[0] = Floats({3, 2, 3}, 1);
    for (const char* op : {"BlockLSTM", "BlockLSTMV2"}) {
      cases->push_back(InFloat(op, label, xs, [=](GraphBuilder& b, const Exprs& x) {
        const Expr steps = Scalar(b, DataType::kInt64, 2);
        const Expr i = Op(op, {steps, x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]}, attrs);
        return Exprs{i.Sibling(1), i.Sibling(6)};
      }));
    }
  }
}

std::vector<GradientCase> RecurrentCases() {
  std::vector<GradientCase> cases;
  AddLstm(&cases);
  cases.push_back(InFloat("GRUBlockCell", "",
                          {Floats({2, 3}, 1), Floats({2, 2}, 2), Floats({5, 4}, 3), Floats({5, 2}, 4),
                           Floats({4}, 5), Floats({2}, 6)},
                          [](GraphBuilder&, const Exprs& x) {
                            return Exprs{Op("GRUBlockCell", {x[0], x[1], x[2], x[3], x[4], x[5]}).Sibling(3)};
                          }));
  for (const bool merge : {false, true}) {
    cases.push_back({.op = "CTCLoss",
                     .label = merge ? "merged" : "",
                     .xs = {Values({4, 2, 3})},
                     .ys =
                         [merge](GraphBuilder& b, const Exprs& x) {
                           const Expr indices(
                               b, b.Constant(Tensor::From<int64_t>({0, 0, 0, 1, 1, 0}, TensorShape({3, 2}))));
                           return Exprs{Op("CTCLoss",
                                           {x[0], indices, Vector(b, DataType::kInt32, {1, 1, 0}),
                                            Vector(b, DataType::kInt32, {4, 2})},
                                           {{"ctc_merge_repeated", merge}})};
                         },
                     .second = false});
  }
  cases.push_back({.op = "CTCLossV2",
                   .label = "in float",
                   .xs = {Values({4, 2, 3})},
                   .ys =
                       [](GraphBuilder& b, const Exprs& x) {
                         const Expr indices(
                             b, b.Constant(Tensor::From<int64_t>({0, 0, 0, 1, 1, 0}, TensorShape({3, 2}))));
                         const Expr loss = Op("CTCLossV2", {Op("Cast", {x[0]}, {{"DstT", DataType::kFloat}}),
                                                            indices, Vector(b, DataType::kInt32, {1, 2, 1}),
                                                            Vector(b, DataType::kInt32, {4, 2})});
                         return Exprs{Op("Cast", {loss}, {{"DstT", DataType::kDouble}})};
                       },
                   .second = false,
                   .tolerance = 1e-3,
                   .delta = 1e-2});
  return cases;
}
const GradientCaseList kRecurrentCases(RecurrentCases);

}  // namespace
}  // namespace millrace
