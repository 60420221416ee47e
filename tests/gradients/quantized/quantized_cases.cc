// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

namespace millrace {
namespace {

using Exprs = std::vector<Expr>;

// Step functions with steps of 1, so that differences over whole steps are exact. Some values are beyond the
// limits.
GradientCase FakeQuantCase(const std::string& op, const AttrMap& attrs, const std::vector<Tensor>& limits) {
  return {.op = op,
          .label = "",
          .xs = {Tensor::From<float>({0.25f, 7.5f, -3.3f, 300, 12.25f, 200.3f}, TensorShape({3, 2}))},
          .ys =
              [=](GraphBuilder& b, auto& x) {
                std::vector<Expr> args;
                for (const Tensor& t : limits) {
                  const AttrMap value = {{"value", t}, {"dtype", t.dtype()}};
                  args.emplace_back(b, Output{b.Add("Const", {}, value, "limit"), 0});
                }
                return Exprs{args.empty() ? Op(op, {x[0]}, attrs) : Op(op, {x[0], args[0], args[1]}, attrs)};
              },
          .second = false,
          .delta = 1};
}

std::vector<GradientCase> QuantizedCases() {
  std::vector<GradientCase> cases;
  cases.push_back(FakeQuantCase("FakeQuantWithMinMaxArgs", {{"min", -2.0f}, {"max", 253.0f}}, {}));
  cases.push_back(FakeQuantCase("FakeQuantWithMinMaxVars", {{"num_bits", 4}},
                                {Tensor::Scalar(-2.0f), Tensor::Scalar(13.0f)}));
  cases.push_back(FakeQuantCase("FakeQuantWithMinMaxVarsPerChannel", {{"narrow_range", true}},
                                {Tensor::Vector<float>({-2, -4}), Tensor::Vector<float>({252, 250})}));
  // Cases with enough bits that the steps are negligible.
  const AttrMap fine = {{"range_given", true}, {"num_bits", int64_t{44}}};
  cases.push_back({.op = "QuantizeAndDequantize",
                   .label = "",
                   .xs = {Values({2, 3})},
                   .ys = [fine](GraphBuilder&, const Exprs& x) {
                     AttrMap attrs = fine;
                     attrs.Set("input_min", -3.0f);
                     attrs.Set("input_max", 3.0f);
                     return Exprs{Op("QuantizeAndDequantize", {x[0]}, attrs)};
                   }});
  cases.push_back({.op = "QuantizeAndDequantizeV2",
                   .label = "",
                   .xs = {Values({2, 3})},
                   .ys = [fine](GraphBuilder&, const Exprs& x) {
                     const Expr low = ScalarLike(x[0], -3), high = ScalarLike(x[0], 3);
                     return Exprs{Op("QuantizeAndDequantizeV2", {x[0], low, high}, fine)};
                   }});
  cases.push_back(
      {.op = "QuantizeAndDequantizeV3",
       .label = "",
       .xs = {Values({2, 3})},
       .ys = [](GraphBuilder& b, const Exprs& x) {
         const Expr low = ScalarLike(x[0], -3), high = ScalarLike(x[0], 3);
         return Exprs{Op("QuantizeAndDequantizeV3", {x[0], low, high, Scalar(b, DataType::kInt32, 44)})};
       }});
  return cases;
}
const GradientCaseList kQuantizedCases(QuantizedCases);

}  // namespace
}  // namespace millrace
