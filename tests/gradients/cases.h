// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "autodiff/expr.h"
#include "millrace/tensor.h"

namespace millrace {

// A function of some tensors, to be differentiated at a point.
struct GradientCase {
  std::string op;     // the op whose gradient is tested
  std::string label;  // distinguishes it from other cases of the op
  std::vector<Tensor> xs;
  std::function<std::vector<Expr>(GraphBuilder&, const std::vector<Expr>&)> ys;
  bool second = true;  // the gradients of the gradients are to be checked, too
  double tolerance = 1e-6;
  double delta = 1e-5;
  std::string family = {};  // the folder of the file that contains it
};
std::ostream& operator<<(std::ostream& os, const GradientCase& c);

// Values in [low, high], all different, the same in every run.
Tensor Values(const TensorShape& shape, double low = -1.5, double high = 1.5, int seed = 1);
// As Values, but with alternating signs.
Tensor BothSigns(const TensorShape& shape, double low = 0.3, double high = 2.0, int seed = 1);
// Complex numbers whose parts are Values.
Tensor ComplexValues(const TensorShape& shape, double low = -1.5, double high = 1.5, int seed = 1);

// A case with one or two inputs whose function is one op with one output.
GradientCase OneOp(std::string op, std::vector<Tensor> xs, AttrMap attrs = {});

// Adds the results of `cases` to the cases that the tests check; the folder of `file` is their family. A file
// of cases has such variables at namespace scope.
class GradientCaseList {
 public:
  using Make = std::vector<GradientCase> (*)();
  explicit GradientCaseList(Make cases, const char* file = __builtin_FILE());
};
// The cases of all lists, and a case for each element-wise op that has none there.
const std::vector<GradientCase>& AllGradientCases();

}  // namespace millrace
