// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

#include <cmath>
#include <filesystem>

namespace millrace {
namespace {

struct List {
  GradientCaseList::Make make;
  std::string family;
};
std::vector<List>& Lists() {
  static auto* const lists = new std::vector<List>;
  return *lists;
}

}  // namespace

GradientCaseList::GradientCaseList(Make cases, const char* file) {
  Lists().push_back({cases, std::filesystem::path(file).parent_path().filename()});
}

const std::vector<GradientCase>& AllGradientCases() {
  static const auto* const cases = [] {
    auto* all = new std::vector<GradientCase>;
    for (const List& list : Lists()) {
      for (GradientCase& c : list.make()) {
        c.family = list.family;
        all->push_back(std::move(c));
      }
    }
    return all;
  }();
  return *cases;
}

std::ostream& operator<<(std::ostream& os, const GradientCase& c) { return os << c.op << " " << c.label; }

Tensor Values(const TensorShape& shape, double low, double high, int seed) {
  Tensor t(DataType::kDouble, shape);
  double at = 0.37 * seed;
  for (double& value : t.flat<double>()) {
    at = std::fmod(at + 0.6180339887498949, 1.0);  // evenly distributed and without repetitions
    value = low + (high - low) * at;
  }
  return t;
}

Tensor BothSigns(const TensorShape& shape, double low, double high, int seed) {
  Tensor t = Values(shape, low, high, seed);
  for (size_t i = 0; i < t.flat<double>().size(); i += 2) t.flat<double>()[i] *= -1;
  return t;
}

Tensor ComplexValues(const TensorShape& shape, double low, double high, int seed) {
  TensorShape pairs = shape;
  pairs.AddDim(2);
  const Tensor parts = Values(pairs, low, high, seed);
  Tensor t(DataType::kComplex128, shape);
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    t.data<complex128>()[i] = {parts.data<double>()[2 * i], parts.data<double>()[2 * i + 1]};
  }
  return t;
}

GradientCase OneOp(std::string op, std::vector<Tensor> xs, AttrMap attrs) {
  GradientCase c;
  c.op = op;
  c.xs = std::move(xs);
  c.ys = [op, attrs](GraphBuilder& b, const std::vector<Expr>& x) -> std::vector<Expr> {
    std::vector<InputArg> inputs;
    for (const Expr& e : x) inputs.push_back({{e.output()}, false});
    return {Expr(b, {b.Add(op, std::move(inputs), attrs), 0})};
  };
  return c;
}

}  // namespace millrace
