// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

namespace millrace {
namespace {

std::vector<GradientCase> RandomCases() {
  std::vector<GradientCase> cases;
  // Each run draws other samples, so that means are compared: they are alpha, with derivative 1.
  cases.push_back(
      {.op = "RandomGamma",
       .label = "",
       .xs = {Tensor::Vector<double>({1.7, 2.9})},
       .ys = [](GraphBuilder& b, auto& x) {
         const Output dims = b.Constant(Tensor::Vector<int32_t>({20000}));
         std::vector<InputArg> inputs = {{{dims}, false}, {{x[0].output()}, false}};
         const Expr samples(b, {b.Add("RandomGamma", std::move(inputs), {{"seed", int64_t{5}}}), 0});
         return std::vector<Expr>{Op("Mean", {samples, Vector(b, DataType::kInt32, {0})})};
       }});
  cases.back().second = false;
  cases.back().tolerance = 0.1;
  cases.back().delta = 0.5;
  return cases;
}
const GradientCaseList kRandomCases(RandomCases);

}  // namespace
}  // namespace millrace
