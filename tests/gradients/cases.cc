// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

#include <cmath>
#include <filesystem>
#include <set>

#include "autodiff/gradient_registry.h"
#include "op/op_registry.h"
#include "ops/register.h"

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

using Operands = ElementwiseForm::Operands;

// Whether the op computes y = f(x) or z = f(x, y) element by element, without changing the type.
bool IsPlainElementwise(const OpRegistration& op) {
  const ElementwiseForm& form = op.elementwise;
  return (form.operands == Operands::kOne || form.operands == Operands::kBroadcast) &&
         form.result == ElementwiseForm::Result::kSame;
}

// An element-wise op without a case of its own is tested with values between 0.2 and 0.9. An op that is not
// smooth or not defined there needs a case.
void AddDefaultCases(std::vector<GradientCase>* cases) {
  std::set<std::string> tested;
  for (const GradientCase& c : *cases) tested.insert(c.op);
  // These have cases, and get one in addition, so that this code runs when every op has a case.
  for (const char* op : {"Exp", "Tanh", "Mul", "SquaredDifference"}) tested.erase(op);
  for (const OpFamily& family : OpFamilies()) {
    OpRegistry registry;
    family.register_ops(registry).IgnoreError("CasesAreInTheFamiliesOfTheirOps tests it");
    for (const OpRegistration* op : registry.All()) {
      const std::string& name = op->def.name;
      const auto gradient = GradientRegistry::Global().LookUp(name);
      const bool has_gradient = gradient.ok() && (*gradient)->fn != nullptr;
      if (!IsPlainElementwise(*op) || !has_gradient || tested.contains(name)) continue;
      std::vector<Tensor> xs = {Values({2, 3}, 0.2, 0.9)};
      if (op->elementwise.operands == Operands::kBroadcast) xs.push_back(Values({3}, 0.2, 0.9, 5));
      cases->push_back(OneOp(name, std::move(xs)));
      cases->back().label = "default";
      cases->back().family = family.name;
    }
  }
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
    AddDefaultCases(all);
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
    inputs.reserve(x.size());
    for (const Expr& e : x) inputs.push_back({{e.output()}, false});
    return {Expr(b, {b.Add(op, std::move(inputs), attrs), 0})};
  };
  return c;
}

}  // namespace millrace
