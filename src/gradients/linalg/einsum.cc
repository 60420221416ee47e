// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Einsum, whose gradients are Einsums.
#include "gradients/broadcast.h"
#include "gradients/family.h"
#include "op/einsum_equation.h"

namespace millrace {
namespace {

using gradients::Row;

std::string Written(std::string subscripts) {
  const size_t dot = subscripts.find('.');
  return dot == std::string::npos ? subscripts : subscripts.replace(dot, 1, "...");
}

Expr Einsum(const std::vector<Expr>& xs, const std::vector<std::string>& subscripts,
            const std::string& output) {
  std::string equation = Written(subscripts[0]);
  if (subscripts.size() > 1) equation += "," + Written(subscripts[1]);
  return Op("Einsum", {Operand(xs)}, {{"equation", equation + "->" + Written(output)}});
}

bool Has(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

// The gradient of operand `i`: first as a tensor with each label of the operand once, the ellipsis in front,
// then summed where it was broadcast, then put into the order of the operand, repeated labels on diagonals.
Expr OperandGrad(GradientContext& c, const EinsumEquation& equation, int i) {
  const Expr x = c.input(i);
  const std::string& of_x = equation.inputs[static_cast<size_t>(i)];
  const bool two = equation.inputs.size() > 1;
  const std::string other = two ? equation.inputs[static_cast<size_t>(1 - i)] : "";
  // "." first: an ellipsis that the output does not have comes from the other operand, or is summed over.
  std::string found, lonely;
  std::string ellipsis = Has(of_x, '.') ? "." : "";
  for (const char label : of_x) {
    if (label == '.' || Has(found, label) || Has(lonely, label)) continue;
    (Has(equation.output, label) || Has(other, label) ? found : lonely) += label;
  }
  if (!ellipsis.empty() && !Has(equation.output, '.') && !Has(other, '.')) {
    c.builder().Fail(errors::Unimplemented("The gradient of an Einsum that sums over an ellipsis"));
    return x;
  }
  std::vector<Expr> factors = {c.grad(0)};
  std::vector<std::string> subscripts = {equation.output};
  if (two) {
    factors.push_back(Conj(c.input(1 - i)));
    subscripts.push_back(other);
  }
  Expr grad = Einsum(factors, subscripts, ellipsis + found);
  if (!ellipsis.empty()) {
    const Expr like = of_x[0] == '.' && of_x == ellipsis + found ? x : Einsum({x}, {of_x}, ellipsis + found);
    grad = gradients::SumRepeated(like, grad, 0, grad);
  }
  if (lonely.empty()) return of_x == ellipsis + found ? grad : Einsum({grad}, {ellipsis + found}, of_x);
  // Axes that were summed over are repeated. Axes after an ellipsis are counted from the end.
  const Expr shape = ShapeOf(x), rank = RankOf(x);
  std::vector<Expr> sizes;
  const size_t dot = of_x.find('.');
  for (const char label : lonely) {
    const size_t at = of_x.find(label);
    const Expr axis = dot == std::string::npos || at < dot ? ScalarLike(rank, static_cast<double>(at))
                                                           : rank - static_cast<double>(of_x.size() - at);
    sizes.push_back(GatherRows(shape, axis));
  }
  const Expr ones = Fill(JoinVectors(sizes), ScalarLike(grad, 1));
  return Einsum({grad, ones}, {ellipsis + found, lonely}, of_x);
}

Status EinsumGrad(GradientContext& c) {
  MR_ASSIGN_OR_RETURN(const EinsumEquation equation, ParseEinsum(c.Attr<std::string>("equation")));
  if (c.num_inputs() != static_cast<int>(equation.inputs.size())) {
    return errors::InvalidArgument("Expected ", equation.inputs.size(),
                                   " inputs for the equation but got: ", c.num_inputs());
  }
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (c.wants(i)) c.SetInputGrad(i, OperandGrad(c, equation, i));
  }
  return c.status();
}

constexpr Row kRows[] = {{"Einsum", EinsumGrad}};

}  // namespace

Status RegisterEinsumGradients(GradientRegistry& registry) {
  return gradients::RegisterEach(registry, kRows);
}

}  // namespace millrace
