// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

namespace millrace {
namespace {

using Exprs = std::vector<Expr>;

std::vector<GradientCase> LoggingCases() {
  const Tensor x = Values({2, 3});
  std::vector<GradientCase> cases;
  cases.push_back({.op = "Print", .label = "", .xs = {x}, .ys = [](GraphBuilder&, auto& e) {
                     return Exprs{Op("Print", {e[0], Operand(Exprs{e[0]})}, {{"first_n", 0}})};
                   }});
  return cases;
}
const GradientCaseList kLoggingCases(LoggingCases);

}  // namespace
}  // namespace millrace
