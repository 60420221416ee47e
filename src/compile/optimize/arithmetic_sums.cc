// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Rewrites of sums, products, powers and contractions.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "compile/optimize/arithmetic_rules.h"

namespace millrace::arithmetic {
namespace {

// The most terms of a flattened sum, so that a chain of sums costs no more than its length.
constexpr int kMaxTerms = 32;

bool IsSum(const Node& node) { return node.op_name() == "Add" || node.op_name() == "AddV2"; }

// Whether the order of sums and products of this node's type may be changed.
bool MayReassociate(const Rewriter& rewriter, const Node& node) {
  return IsExact(node.output_type(0)) ||
         (rewriter.options().compile.aggressive_arithmetic && node.output_type(0) != DataType::kString);
}

// Replaces `node` by op(a, b) of the same type.
bool SubstituteBinary(Rewriter& rewriter, Node* node, std::string_view suffix, std::string_view op,
                      TensorRef a, TensorRef b) {
  Node* by = rewriter.Add(*node, suffix, op, TypeAttr(*node), {a, b});
  if (by == nullptr) return false;
  rewriter.Substitute(node, by);
  return true;
}

// x + (-y), (-x) + y and x - (-y).
bool SumOfNegative(Rewriter& rewriter, Node* node) {
  const bool is_sum = IsSum(*node);
  for (int i = 1; i >= (is_sum ? 0 : 1); --i) {
    const TensorRef negative = InputOf(*node, i);
    if (negative.node->op_name() != "Neg" || !IsPlainWithOneUse(*negative.node)) continue;
    const TensorRef y = InputOf(*negative.node, 0);
    return SubstituteBinary(rewriter, node, "signed", is_sum ? "Sub" : "Add", InputOf(*node, 1 - i), y);
  }
  return false;
}

// c1 + (x + c2) becomes x + (c1 + c2), where the last sum is then folded. Exact for integers, and for ops
// that select one of their inputs.
bool BringConstantsTogether(Rewriter& rewriter, Node* node) {
  if (!TakesInputsInAnyOrder(*node) || node->num_inputs() != 2) return false;
  if (!node->traits().idempotent && !MayReassociate(rewriter, *node)) return false;
  for (int i = 0; i < 2; ++i) {
    const TensorRef c1 = InputOf(*node, i);
    const TensorRef inner = InputOf(*node, 1 - i);
    if (ConstTensorOf(*c1.node) == nullptr || &inner.node->op() != &node->op() ||
        !IsPlainWithOneUse(*inner.node))
      continue;
    for (int j = 0; j < 2; ++j) {
      const TensorRef c2 = InputOf(*inner.node, j);
      const TensorRef x = InputOf(*inner.node, 1 - j);
      if (ConstTensorOf(*c2.node) == nullptr || ConstTensorOf(*x.node) != nullptr) continue;
      Node* constants = rewriter.Add(*node, "constants", node->op_name(), node->attrs(), {c1, c2});
      if (constants == nullptr) return false;
      Node* by = rewriter.Add(*node, "rest", node->op_name(), node->attrs(), {x, {constants, 0}});
      if (by == nullptr) {
        rewriter.RemoveUnused(constants);
        return false;
      }
      rewriter.Substitute(node, by);
      return true;
    }
  }
  return false;
}

// x * a + x * b becomes x * (a + b).
bool HoistCommonFactor(Rewriter& rewriter, Node* node) {
  if (node->num_inputs() != 2 || !MayReassociate(rewriter, *node)) return false;
  const TensorRef left = InputOf(*node, 0);
  const TensorRef right = InputOf(*node, 1);
  for (const TensorRef& product : {left, right}) {
    if (product.node->op_name() != "Mul" || !IsPlainWithOneUse(*product.node)) return false;
  }
  if (left.node == right.node) return false;
  const std::string_view sum = node->op_name() == "AddN" ? "Add" : std::string_view(node->op_name());
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      const TensorRef factor = InputOf(*left.node, i);
      if (factor != InputOf(*right.node, j)) continue;
      Node* rest = rewriter.Add(*node, "factors", sum, TypeAttr(*node),
                                {InputOf(*left.node, 1 - i), InputOf(*right.node, 1 - j)});
      if (rest == nullptr) return false;
      if (SubstituteBinary(rewriter, node, "hoisted", "Mul", factor, {rest, 0})) return true;
      rewriter.RemoveUnused(rest);
      return false;
    }
  }
  return false;
}

// n times the same term becomes n * x. Three floats still round once, as 2x is exact.
bool SumOfEqualTerms(Rewriter& rewriter, Node* node) {
  const int n = node->num_inputs();
  const TensorRef x = InputOf(*node, 0);
  if (n > 127 || (n > 3 && !MayReassociate(rewriter, *node))) return false;
  for (int i = 1; i < n; ++i) {
    if (InputOf(*node, i) != x) return false;
  }
  const std::optional<Tensor> count = ScalarOf(node->output_type(0), n);
  if (!count) return false;
  // In a loop a constant must wait for a node there.
  std::vector<Node*> after;
  if (rewriter.MayBeDead(*x.node)) {
    if (!CanBeWaitedFor(*x.node)) return false;
    after.push_back(x.node);
  }
  Node* constant = rewriter.AddConst(*node, "count", *count, after);
  if (constant == nullptr) return false;
  if (SubstituteBinary(rewriter, node, "times", "Mul", x, {constant, 0})) return true;
  rewriter.RemoveUnused(constant);
  return false;
}

// Merges a sum of sums.
bool FlattenSum(Rewriter& rewriter, Node* node) {
  if (!MayReassociate(rewriter, *node)) return false;
  std::vector<TensorRef> terms;
  bool changed = false;
  for (int i = 0; i < node->num_inputs(); ++i) {
    const TensorRef term = InputOf(*node, i);
    if (term.node->op_name() != "AddN" || !IsPlainWithOneUse(*term.node) ||
        static_cast<int>(terms.size()) + term.node->num_inputs() + node->num_inputs() > kMaxTerms) {
      terms.push_back(term);
      continue;
    }
    for (int j = 0; j < term.node->num_inputs(); ++j) terms.push_back(InputOf(*term.node, j));
    changed = true;
  }
  if (!changed) return false;
  AttrMap attrs = node->attrs();
  attrs.Set("N", static_cast<int64_t>(terms.size()));
  Node* by = rewriter.Add(*node, "flat", "AddN", std::move(attrs), terms);
  if (by == nullptr) return false;
  rewriter.Substitute(node, by);
  return true;
}

bool AddN(Rewriter& rewriter, Node* node) {
  if (node->num_inputs() == 1) return rewriter.TryReplace(node, {InputOf(*node, 0)});
  return SumOfEqualTerms(rewriter, node) || HoistCommonFactor(rewriter, node) || FlattenSum(rewriter, node);
}

// Small powers.
bool Pow(Rewriter& rewriter, Node* node) {
  const TensorRef x = InputOf(*node, 0);
  const TensorRef exponent = InputOf(*node, 1);
  const Tensor* value = ConstTensorOf(*exponent.node);
  if (value == nullptr || !KeepsShape(rewriter, x, exponent)) return false;
  const std::optional<double> number = UniformValue(*value);
  if (!number) return false;
  const bool exact = IsExact(node->output_type(0));
  if (*number == 1) return rewriter.TryReplace(node, {x}, {exponent});
  const char* op = nullptr;
  if (*number == 2) op = "Square";
  if (*number == -1 && !exact) op = "Reciprocal";
  if (*number == 0.5 && rewriter.options().compile.aggressive_arithmetic) op = "Sqrt";
  if (*number == -0.5 && rewriter.options().compile.aggressive_arithmetic) op = "Rsqrt";
  if (op == nullptr || !Rewriter::CanDrop(exponent)) return false;
  Node* by = rewriter.Add(*node, "power", op, TypeAttr(*node), {x});
  if (by == nullptr) return false;
  rewriter.Substitute(node, by, {exponent});
  return true;
}

// Division by a power of two becomes multiplication by its inverse.
bool DivideByPowerOfTwo(Rewriter& rewriter, Node* node) {
  const DataType type = node->output_type(0);
  const TensorRef divisor = InputOf(*node, 1);
  if (type != DataType::kFloat && type != DataType::kDouble) return false;
  const Tensor* value = ConstTensorOf(*divisor.node);
  const std::optional<double> number = value == nullptr ? std::nullopt : UniformValue(*value);
  if (!number || !std::isfinite(*number) || *number == 0) return false;
  int exponent = 0;
  if (std::abs(std::frexp(*number, &exponent)) != 0.5 || std::abs(exponent) > 120) return false;
  if (!KeepsShape(rewriter, InputOf(*node, 0), divisor)) return false;
  Node* inverse = rewriter.AddConst(*node, "inverse", *ScalarOf(type, 1 / *number), WaitsOf({divisor}));
  if (inverse == nullptr) return false;
  if (SubstituteBinary(rewriter, node, "times", "Mul", InputOf(*node, 0), {inverse, 0})) return true;
  rewriter.RemoveUnused(inverse);
  return false;
}

// Whether the permutation exchanges the last two axes of n >= 2 and leaves the others.
bool SwapsLastAxes(const std::vector<int64_t>& perm) {
  const size_t n = perm.size();
  if (n < 2) return false;
  for (size_t i = 0; i + 2 < n; ++i) {
    if (perm[i] != static_cast<int64_t>(i)) return false;
  }
  return perm[n - 2] == static_cast<int64_t>(n - 1) && perm[n - 1] == static_cast<int64_t>(n - 2);
}

// A contraction can read its inputs transposed. The flags of BatchMatMul also conjugate.
bool Contraction(Rewriter& rewriter, Node* node, const char* const (&flags)[2], bool conjugates) {
  const DataType type = node->output_type(0);
  if (conjugates && (type == DataType::kComplex64 || type == DataType::kComplex128)) return false;
  for (int i = 0; i < 2; ++i) {
    const TensorRef input = InputOf(*node, i);
    if (input.node->op_name() != "Transpose" || !IsPlain(*input.node)) continue;
    const auto perm = ConstIntegers(InputOf(*input.node, 1));
    if (!perm || !SwapsLastAxes(*perm) || (!conjugates && perm->size() != 2)) continue;
    const auto flag = node->Attr<bool>(flags[i]);
    if (!flag.ok()) continue;
    AttrMap attrs = node->attrs();
    attrs.Set(flags[i], !*flag);
    std::vector<TensorRef> inputs = {InputOf(*node, 0), InputOf(*node, 1)};
    inputs[static_cast<size_t>(i)] = InputOf(*input.node, 0);
    Node* by = rewriter.Add(*node, "transposed", node->op_name(), std::move(attrs), inputs);
    if (by == nullptr) return false;
    rewriter.Substitute(node, by, {InputOf(*input.node, 1)});
    return true;
  }
  return false;
}

}  // namespace

bool SimplifySums(Rewriter& rewriter, Node* node) {
  const std::string& op = node->op_name();
  if (node->traits().associative && BringConstantsTogether(rewriter, node)) return true;
  if (IsSum(*node)) return SumOfNegative(rewriter, node) || HoistCommonFactor(rewriter, node);
  if (op == "Sub") return SumOfNegative(rewriter, node) || HoistCommonFactor(rewriter, node);
  if (op == "AddN") return AddN(rewriter, node);
  if (op == "Pow") return Pow(rewriter, node);
  if (op == "RealDiv" || op == "Div") return DivideByPowerOfTwo(rewriter, node);
  if (op == "MatMul") return Contraction(rewriter, node, {"transpose_a", "transpose_b"}, false);
  if (op == "BatchMatMul") return Contraction(rewriter, node, {"adj_x", "adj_y"}, true);
  return false;
}

}  // namespace millrace::arithmetic
